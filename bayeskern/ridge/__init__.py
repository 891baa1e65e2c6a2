"""Kernel ridge regression and its relatives: the frequentist path."""

from bayeskern.ridge.least_squares import LeastSquares, least_squares

__all__ = ["LeastSquares", "least_squares"]
