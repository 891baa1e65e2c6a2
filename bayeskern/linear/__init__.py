"""Bayesian linear models."""

from bayeskern.linear import priors
from bayeskern.linear.glm import BayesianGLM
from bayeskern.linear.regression import BayesianLinearRegression

__all__ = ["BayesianGLM", "BayesianLinearRegression", "priors"]
