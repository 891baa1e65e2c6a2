"""Likelihoods: distributions of y given a linear predictor or latent function."""

from bayeskern.likelihoods.base import Likelihood, Prepared
from bayeskern.likelihoods.censored import Censored
from bayeskern.likelihoods.classes import Bernoulli, Categorical
from bayeskern.likelihoods.continuous import Gaussian, Heteroscedastic, Laplace, StudentT
from bayeskern.likelihoods.counts import Binomial, NegativeBinomial, Poisson, ZeroInflated
from bayeskern.likelihoods.ordered import Ordered
from bayeskern.likelihoods.positive import Exponential, Gamma
from bayeskern.likelihoods.proportions import Beta, Dirichlet

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Censored",
    "Dirichlet",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Heteroscedastic",
    "Laplace",
    "Likelihood",
    "NegativeBinomial",
    "Ordered",
    "Poisson",
    "Prepared",
    "StudentT",
    "ZeroInflated",
]
