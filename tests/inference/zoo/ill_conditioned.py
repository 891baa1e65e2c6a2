"""Normal densities with condition numbers of a million."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from tests.inference.zoo.moments import Moments, gaussian
from tests.inference.zoo.posterior import ZooPosterior

CONDITION = 1e6
RNG = np.random.default_rng(8)
BASE = RNG.normal(size=(80, 1))
# Two nearly equal features, and four of quite different units.
COLLINEAR = np.hstack([BASE, BASE + 1e-3 * RNG.normal(size=(80, 1)), RNG.normal(size=(80, 4))])
COLLINEAR *= np.array([1.0, 1.0, 1e-2, 1.0, 1e2, 1.0])
Y_COLLINEAR = COLLINEAR @ np.array([1.0, 1.0, 10.0, -1.0, 0.01, 0.5]) + RNG.normal(size=80)


def rotated(size):
    """A covariance with eigenvalues from 1 / CONDITION to 1, and its inverse, rotated at random."""
    values = np.geomspace(1.0 / CONDITION, 1.0, size)
    rotation = np.linalg.qr(np.random.default_rng(size).normal(size=(size, size)))[0]
    return (rotation * values) @ rotation.T, (rotation / values) @ rotation.T


def normal(precision):
    real = dist.constraints.real_vector
    x = numpyro.sample("x", dist.ImproperUniform(real, (), (len(precision),)))
    numpyro.factor("normal", -0.5 * x @ precision @ x)


def normal_posterior(size) -> ZooPosterior:
    covariance, precision = rotated(size)
    return ZooPosterior(
        f"rotated normal, {size} d",
        "ill-conditioned",
        normal,
        (precision,),
        lambda: {"x": Moments(np.zeros(size), np.sqrt(np.diag(covariance)))},
        has_prior_draws=False,
    )


def axes_only():
    """Widths from 1e-3 to 1 along the axes."""
    sds = jnp.geomspace(CONDITION**-0.5, 1.0, 50)
    x = numpyro.sample("x", dist.Normal(0.0, 3.0 * sds).to_event(1))
    numpyro.factor("normal", dist.Normal(0.0, sds).log_prob(x).sum())


def axes_only_truth():
    return {"x": Moments(np.zeros(50), np.geomspace(CONDITION**-0.5, 1.0, 50) * np.sqrt(0.9))}


def collinear(X, y):
    w = numpyro.sample("w", dist.Normal(0.0, 100.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


def collinear_truth():
    X = COLLINEAR
    return {"w": gaussian(X.T @ X + np.eye(X.shape[1]) / 1e4, X.T @ Y_COLLINEAR)}


POSTERIORS = [
    normal_posterior(50),
    normal_posterior(200),
    ZooPosterior(
        "axis-aligned normal, 50 d",
        "ill-conditioned",
        axes_only,
        (),
        axes_only_truth,
        has_prior_draws=False,
    ),
    ZooPosterior(
        "collinear regression",
        "ill-conditioned",
        collinear,
        (COLLINEAR, Y_COLLINEAR),
        collinear_truth,
        has_prior_draws=False,
    ),
]
