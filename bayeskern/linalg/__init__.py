"""Covariance matrices, factored once."""

from bayeskern.linalg.dense import DenseFactor, inverse_and_logdet, log_density
from bayeskern.linalg.factor import Factor

__all__ = ["DenseFactor", "Factor", "inverse_and_logdet", "log_density"]
