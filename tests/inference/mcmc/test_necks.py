"""Necks of a density that rises without bound and holds no mass."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import bayeskern as bk
from bayeskern.inference.mcmc.necks import neck_log_integral
from bayeskern.inference.model.target import Target

Y = np.random.default_rng(0).normal(0.0, 2.0, 20)


def noisy():
    """A latent for each datum: as the residual sd goes to zero, the density has no bound."""
    sd = numpyro.sample("sd", dist.HalfNormal(3.0))
    x = numpyro.sample("x", dist.Normal(0.0, 1.0).expand([20]).to_event(1))
    numpyro.sample("y", dist.Normal(x, sd).to_event(1), obs=Y)


def log_marginal(log_sd):
    """log p(log sd, y), with the latents integrated out."""
    sd = np.exp(log_sd)
    prior = np.log(2.0) + norm.logpdf(sd, 0.0, 3.0) + log_sd
    return prior + np.sum(norm.logpdf(Y, 0.0, np.hypot(1.0, sd)))


def draws_and_end():
    """Draws around log sd = -1, and a point at log sd = -6 where the latents fit the data."""
    z = np.random.default_rng(1).normal([-1.0, *np.zeros(20)], [0.2, *np.ones(20)], (500, 21))
    return z, np.array([-6.0, *Y])


def test_neck_has_the_integral_of_the_marginal_density():
    """Laplace's method is exact, because the latents are normal given the residual sd."""
    target = Target.from_model(noisy, (), {})
    z, end = draws_and_end()
    # From the first of 8 steps on.
    first = np.mean(z[:, 0]) * 7.0 / 8.0 - 6.0 / 8.0
    exact = np.log(quad(lambda u: np.exp(log_marginal(u)), -40.0, first)[0])
    assert abs(neck_log_integral(target, end, z) - exact) < 0.05


def test_neck_is_unknown_where_its_marginal_density_rises():
    def funnel():
        u = numpyro.sample("u", dist.Normal(-9.0, 1.0))
        numpyro.sample("x", dist.Normal(0.0, jnp.exp(u)).expand([3]).to_event(1))

    target = Target.from_model(funnel, (), {})
    z = np.random.default_rng(2).normal(0.0, 0.5, (500, 4))
    assert np.isnan(neck_log_integral(target, np.array([-8.0, 0.0, 0.0, 0.0]), z))


@pytest.mark.slow
def test_search_that_ends_in_an_empty_neck_does_not_cast_doubt_on_chains():
    """A local level, in raw units; with a residual sd of zero the level fits all data."""
    rng = np.random.default_rng(0)
    y = 1120.0 + np.cumsum(rng.normal(0.0, 38.0, 100)) + rng.normal(0.0, 120.0, 100)

    def local_level():
        step = numpyro.sample("step", dist.HalfNormal(100.0))
        sd = numpyro.sample("sd", dist.HalfNormal(300.0))
        first = numpyro.sample("first", dist.Normal(1000.0, 500.0))
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([99]).to_event(1))
        level = first + jnp.concatenate([jnp.zeros(1), step * jnp.cumsum(z)])
        numpyro.sample("y", dist.Normal(level, sd).to_event(1), obs=y)

    posterior = bk.infer(local_level, seed=0, progress=False)
    assert posterior.trust.verdict == "good", posterior.trust
    assert posterior.trust.evidence["empty_necks"] == 3
