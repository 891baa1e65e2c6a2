"""Covariance matrices, factored once."""

from bayeskern.linalg.dense import DenseFactor, log_density
from bayeskern.linalg.factor import Factor

__all__ = ["DenseFactor", "Factor", "log_density"]
