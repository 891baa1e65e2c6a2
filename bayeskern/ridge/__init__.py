"""Kernel ridge regression and its relatives: the frequentist path."""

from bayeskern.ridge.kernel_ridge import KernelRidge
from bayeskern.ridge.least_squares import LeastSquares, least_squares
from bayeskern.ridge.reduced import FourierRidge, NystromRidge

__all__ = ["FourierRidge", "KernelRidge", "LeastSquares", "NystromRidge", "least_squares"]
