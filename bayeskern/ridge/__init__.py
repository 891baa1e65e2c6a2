"""Kernel ridge regression, in dual form and on features, as scikit-learn estimators."""

from bayeskern.ridge.feature_ridge import FourierRidge, NystromRidge
from bayeskern.ridge.kernel_ridge import KernelRidge

__all__ = ["FourierRidge", "KernelRidge", "NystromRidge"]
