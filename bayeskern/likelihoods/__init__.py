"""What is observed, given a linear predictor or a latent function."""

from bayeskern.likelihoods.base import Likelihood, Prepared
from bayeskern.likelihoods.classes import Bernoulli
from bayeskern.likelihoods.continuous import Gaussian
from bayeskern.likelihoods.counts import Poisson

__all__ = ["Bernoulli", "Gaussian", "Likelihood", "Poisson", "Prepared"]
