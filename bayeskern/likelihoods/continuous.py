"""Likelihoods of real numbers: Gaussian, Student t, Laplace."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayeskern.kernels import hyperparameters as hyper
from bayeskern.kernels.hyperparameters import from_sd, hyperparameter
from bayeskern.likelihoods.base import Likelihood


class Gaussian(Likelihood):
    """y ~ N(eta, noise); noise is a variance.

    By default its square root is Exponential with mean sd(y).
    """

    noise: jax.Array | None = hyperparameter(None)

    def distribution(self, eta):
        return dist.Normal(eta, jnp.sqrt(self.noise))

    def _with_defaults(self, y):
        if self.noise is not None:
            return self
        return hyper.replace(self, [("noise",)], [from_sd(dist.Exponential(1.0 / np.std(y)))])
