"""Hierarchical normals and funnels: a scale, and effects whose width it sets."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, mixed, on_grid
from tests.inference.zoo.posterior import ZooPosterior

# Rubin (1981).
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
# Effects more alike than their errors: tau is near zero.
ALIKE = np.full(8, 7.0) + np.linspace(-1.0, 1.0, 8)
SPREAD = np.array([-8.0, 10.0, 1.0, -4.0, 6.0, -11.0, 3.0, 7.0])
FUNNEL_DATA = np.array([0.1, -0.3, 0.2, 0.0, -0.1])
MU_SD, TAU_SCALE, FUNNEL_NOISE = 5.0, 5.0, 0.5


def centred(error, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, MU_SD))
    tau = numpyro.sample("tau", dist.HalfNormal(TAU_SCALE))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, error), obs=y)


def non_centred(error, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, MU_SD))
    tau = numpyro.sample("tau", dist.HalfNormal(TAU_SCALE))
    with numpyro.plate("school", 8):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, error), obs=y)


def schools_truth(error, y):
    """Given tau all else is normal; tau is summed over a grid."""
    tau = np.linspace(1e-4, 40.0, 8_000)
    variance = tau[:, None] ** 2 + error**2
    precision = MU_SD**-2 + np.sum(1.0 / variance, axis=1)
    mu = np.sum(y / variance, axis=1) / precision
    log_p = st.norm(0.0, TAU_SCALE).logpdf(tau) - 0.5 * np.log(precision)
    log_p -= 0.5 * np.sum(np.log(variance) + y**2 / variance, axis=1) - 0.5 * mu**2 * precision
    own = tau[:, None] ** 2 / variance
    theta = own * y + (1.0 - own) * mu[:, None]
    theta_sd = np.sqrt(own * error**2 + np.square(1.0 - own) / precision[:, None])
    return {
        "mu": mixed(log_p, mu, precision**-0.5),
        "theta": mixed(log_p, theta, theta_sd),
        **on_grid(log_p, tau=tau),
    }


def funnel(size, sd) -> ZooPosterior:
    """Neal (2003), written as the density of flat v and wide x; var x = E exp(v)."""

    def model():
        v_prior = dist.Normal(0.0, 2.0 * sd)
        x_prior = dist.Normal(0.0, 10.0).expand([size]).to_event(1)
        v, x = numpyro.sample("v", v_prior), numpyro.sample("x", x_prior)
        density = dist.Normal(0.0, sd).log_prob(v)
        density += jnp.sum(dist.Normal(0.0, jnp.exp(0.5 * v)).log_prob(x))
        numpyro.factor("funnel", density - v_prior.log_prob(v) - x_prior.log_prob(x))

    x_sd = np.exp(0.25 * sd**2)
    truth = {"v": Moments(0.0, sd), "x": Moments(np.zeros(size), np.full(size, x_sd))}
    name = f"funnel, sd {sd:g}, {size + 1} d"
    return ZooPosterior(name, "hierarchical", model, (), lambda: truth, has_prior_draws=False)


def observed_funnel(y):
    v = numpyro.sample("v", dist.Normal(0.0, 3.0))
    x = numpyro.sample("x", dist.Normal(0.0, jnp.exp(0.5 * v)).expand([5]).to_event(1))
    numpyro.sample("y", dist.Normal(x, FUNNEL_NOISE), obs=y)


def observed_funnel_truth():
    v = np.linspace(-18.0, 15.0, 4_000)
    prior, noise = np.exp(v)[:, None], FUNNEL_NOISE**2
    log_p = st.norm(0.0, 3.0).logpdf(v)
    log_p += st.norm(0.0, np.sqrt(prior + noise)).logpdf(FUNNEL_DATA).sum(axis=1)
    own = prior / (prior + noise)
    return {"x": mixed(log_p, own * FUNNEL_DATA, np.sqrt(own * noise)), **on_grid(log_p, v=v)}


def schools(name, model, error, y, **options) -> ZooPosterior:
    return ZooPosterior(
        name, "hierarchical", model, (error, y), lambda: schools_truth(error, y), **options
    )


POSTERIORS = [
    schools("eight schools, centred", centred, ERRORS, EFFECTS),
    schools("eight schools, non-centred", non_centred, ERRORS, EFFECTS),
    schools("tau near zero, centred", centred, ERRORS, ALIKE),
    schools("tau near zero, non-centred", non_centred, ERRORS, ALIKE),
    schools("schools far apart", centred, 0.3 * ERRORS, SPREAD, has_prior_draws=False),
    funnel(5, 1.0),
    funnel(9, 3.0),
    ZooPosterior(
        "funnel with data", "hierarchical", observed_funnel, (FUNNEL_DATA,), observed_funnel_truth
    ),
]
