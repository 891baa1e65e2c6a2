"""Conjugate families: models whose posterior is of the family of their prior."""

from bayeskern.conjugate.bernoulli import BetaBernoulli
from bayeskern.conjugate.categorical import DirichletCategorical
from bayeskern.conjugate.normal import NormalGamma, NormalNormal
from bayeskern.conjugate.rates import GammaExponential, GammaPoisson

__all__ = [
    "BetaBernoulli",
    "DirichletCategorical",
    "GammaExponential",
    "GammaPoisson",
    "NormalGamma",
    "NormalNormal",
]
