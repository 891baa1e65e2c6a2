"""Conjugate families: an alias of `bayeskern.course.conjugate`."""

from bayeskern.course.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalGamma,
    NormalNormal,
)

__all__ = [
    "BetaBernoulli",
    "DirichletCategorical",
    "GammaExponential",
    "GammaPoisson",
    "NormalGamma",
    "NormalNormal",
]
