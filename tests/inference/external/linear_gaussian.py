"""A correlated normal posterior in closed form, and exact draws from it."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

H, Y, NOISE = np.array([1.0, 2.0]), 1.0, 0.5
PRECISION = np.eye(2) + np.outer(H, H) / NOISE**2
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ H * Y / NOISE**2
# The normal distribution with independent coordinates that is closest in KL(q || p).
MEAN_FIELD_SD = 1.0 / np.sqrt(np.diag(PRECISION))


def model(y, prior_sd=1.0):
    w = numpyro.sample("w", dist.Normal(0.0, prior_sd).expand([2]).to_event(1))
    total = numpyro.deterministic("total", jnp.asarray(H) @ w)
    numpyro.sample("y", dist.Normal(total, NOISE), obs=y)


def exact(n=4000, seed=0):
    """Draws of w, (n, 2)."""
    return np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, n)


def mean_field(n=4000, seed=0):
    """Draws of w with means right and sds too small, (n, 2)."""
    return MEAN + MEAN_FIELD_SD * np.random.default_rng(seed).normal(size=(n, 2))
