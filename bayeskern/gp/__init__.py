"""Gaussian processes, as a distribution and as a regression model."""

from bayeskern.gp.process import ConditionedGP, GaussianProcess, LeaveOneOut
from bayeskern.gp.regression import GPRegression

__all__ = ["ConditionedGP", "GPRegression", "GaussianProcess", "LeaveOneOut"]
