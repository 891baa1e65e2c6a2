"""Solvers and factors of covariance matrices."""

from bayeskern.linalg.dense import DenseFactor, inverse_and_logdet, log_density
from bayeskern.linalg.factor import Factor
from bayeskern.linalg.iterative.conjugate_gradients import Solution, Status, conjugate_gradients
from bayeskern.linalg.select import SOLVERS, Choice, TooLargeError, choose, explain, solver_of
from bayeskern.linalg.solver import Cost, Fits, NoisyGram, Refused, Solver

__all__ = [
    "SOLVERS",
    "Choice",
    "Cost",
    "DenseFactor",
    "Factor",
    "Fits",
    "NoisyGram",
    "Refused",
    "Solution",
    "Solver",
    "Status",
    "TooLargeError",
    "choose",
    "conjugate_gradients",
    "explain",
    "inverse_and_logdet",
    "log_density",
    "solver_of",
]
