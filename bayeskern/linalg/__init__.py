"""Covariance matrices, factored once."""

from bayeskern.linalg.dense import DenseFactor, inverse_and_logdet, log_density
from bayeskern.linalg.factor import Factor
from bayeskern.linalg.iterative.conjugate_gradients import Solution, Status, conjugate_gradients
from bayeskern.linalg.select import SOLVERS, Choice, TooLargeError, choose, solver_of

__all__ = [
    "SOLVERS",
    "Choice",
    "DenseFactor",
    "Factor",
    "Solution",
    "Status",
    "TooLargeError",
    "choose",
    "conjugate_gradients",
    "inverse_and_logdet",
    "log_density",
    "solver_of",
]
