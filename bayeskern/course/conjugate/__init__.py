"""Conjugate families: models whose posterior is of the family of their prior."""

from bayeskern.course.conjugate.bernoulli import BetaBernoulli
from bayeskern.course.conjugate.categorical import DirichletCategorical
from bayeskern.course.conjugate.normal import NormalGamma, NormalNormal
from bayeskern.course.conjugate.rates import GammaExponential, GammaPoisson

__all__ = [
    "BetaBernoulli",
    "DirichletCategorical",
    "GammaExponential",
    "GammaPoisson",
    "NormalGamma",
    "NormalNormal",
]
