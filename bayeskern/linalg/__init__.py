"""Covariance matrices, factored once."""

from bayeskern.linalg.dense import DenseFactor, inverse_and_logdet, log_density
from bayeskern.linalg.factor import Factor
from bayeskern.linalg.select import SOLVERS, Choice, choose, solver_of

__all__ = [
    "SOLVERS",
    "Choice",
    "DenseFactor",
    "Factor",
    "choose",
    "inverse_and_logdet",
    "log_density",
    "solver_of",
]
