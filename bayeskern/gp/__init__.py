"""Gaussian processes, as a distribution and as a regression model."""

from bayeskern.gp.latent.model import LatentGP
from bayeskern.gp.latent.posterior import ConditionedLatent
from bayeskern.gp.latent.process import LatentProcess
from bayeskern.gp.latent.sparse import SparseGP
from bayeskern.gp.noise import NoiseProcess
from bayeskern.gp.posterior import ConditionedGP, LeaveOneOut
from bayeskern.gp.process import GaussianProcess
from bayeskern.gp.regression import GPRegression

__all__ = [
    "ConditionedGP",
    "ConditionedLatent",
    "GPRegression",
    "GaussianProcess",
    "LatentGP",
    "LatentProcess",
    "LeaveOneOut",
    "NoiseProcess",
    "SparseGP",
]
