"""Several modes: concentric normals, lattices, and priors that are mixtures."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, mixed
from tests.inference.zoo.posterior import ZooPosterior, sample_density

PRIOR_WEIGHTS, PRIOR_MEANS, PRIOR_SDS = np.array([0.3, 0.7]), np.array([-3.0, 3.0]), [1.0, 0.4]
WEAK_NOISE = 20.0


def isotropic(size, sd, loc=0.0):
    return dist.Normal(loc, sd).expand([size]).to_event(1)


def concentric():
    """Two normal distributions at one place, of sds 1 and 0.01, with equal mass."""

    def log_density(x):
        return jnp.logaddexp(isotropic(10, 1.0).log_prob(x), isotropic(10, 0.01).log_prob(x))

    sample_density("x", log_density, isotropic(10, 5.0))


def concentric_truth():
    return {"x": Moments(np.zeros(10), np.full(10, np.sqrt(0.5 * (1.0 + 1e-4))))}


def mixture_prior(size):
    """A prior that is a mixture of normals of unequal widths, and data that say little."""

    def model(y):
        parts = dist.Normal(
            jnp.broadcast_to(jnp.asarray(PRIOR_MEANS)[:, None], (2, size)),
            jnp.asarray(PRIOR_SDS)[:, None],
        ).to_event(1)
        weights = dist.Categorical(jnp.asarray(PRIOR_WEIGHTS))
        x = numpyro.sample("x", dist.MixtureSameFamily(weights, parts))
        numpyro.sample("y", dist.Normal(x, WEAK_NOISE).to_event(1), obs=y)

    return model


def mixture_prior_truth(y):
    variances = np.square(PRIOR_SDS)[:, None]
    total = variances + WEAK_NOISE**2
    log_weights = np.log(PRIOR_WEIGHTS)
    log_weights = log_weights + st.norm(PRIOR_MEANS[:, None], np.sqrt(total)).logpdf(y).sum(axis=1)
    own = variances / total
    means = own * y + (1.0 - own) * PRIOR_MEANS[:, None]
    sds = np.broadcast_to(np.sqrt(own) * WEAK_NOISE, means.shape)
    return {"x": mixed(log_weights, means, sds)}


def two_values(y):
    """Data from one of two sources far apart."""
    x = numpyro.sample("x", isotropic(2, 10.0))
    numpyro.factor("sources", jnp.logaddexp(*(isotropic(2, 1.0, m).log_prob(x) for m in y)))


def two_values_truth(y):
    log_weights = st.norm(0.0, np.sqrt(101.0)).logpdf(y) * 2.0
    shrunk = np.repeat(y[:, None], 2, axis=1) * 100.0 / 101.0
    return {"x": mixed(log_weights, shrunk, np.full((2, 2), np.sqrt(100.0 / 101.0)))}


def lattice_posterior(size) -> ZooPosterior:
    """A normal distribution of sd 5 with a comb of modes: the comb changes no mean and no sd."""

    def model():
        x = numpyro.sample("x", isotropic(size, 5.0))
        numpyro.factor("comb", 4.0 * jnp.sum(jnp.cos(2.0 * x)))

    truth = {"x": Moments(np.zeros(size), np.full(size, 5.0))}
    return ZooPosterior(f"lattice, {size} d", "multimodal", model, (), lambda: truth)


def mixture_prior_posterior(size) -> ZooPosterior:
    y = np.linspace(-2.0, 3.0, size)
    name = f"mixture as prior, {size} d"
    return ZooPosterior(
        name, "multimodal", mixture_prior(size), (y,), lambda: mixture_prior_truth(y)
    )


SOURCES = np.array([-12.0, 9.0])
POSTERIORS = [
    ZooPosterior(
        "concentric normals, 10 d",
        "multimodal",
        concentric,
        (),
        concentric_truth,
        has_prior_draws=False,
    ),
    lattice_posterior(2),
    lattice_posterior(3),
    mixture_prior_posterior(6),
    mixture_prior_posterior(8),
    ZooPosterior(
        "two sources", "multimodal", two_values, (SOURCES,), lambda: two_values_truth(SOURCES)
    ),
]
