"""Gaussian processes, as a distribution and as a regression model."""

from bayeskern.gp.latent import LatentGP
from bayeskern.gp.latent_posterior import ConditionedLatent
from bayeskern.gp.latent_process import LatentProcess
from bayeskern.gp.posterior import ConditionedGP, LeaveOneOut
from bayeskern.gp.process import GaussianProcess
from bayeskern.gp.regression import GPRegression
from bayeskern.gp.sparse import SparseGP

__all__ = [
    "ConditionedGP",
    "ConditionedLatent",
    "GPRegression",
    "GaussianProcess",
    "LatentGP",
    "LatentProcess",
    "LeaveOneOut",
    "SparseGP",
]
