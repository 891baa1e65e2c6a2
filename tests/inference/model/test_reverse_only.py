"""Models whose densities have derivatives in reverse mode only, as solvers of equations do."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.experimental.ode import odeint

import bayeskern as bk

TIMES = jnp.linspace(0.0, 3.0, 31)
RNG = np.random.default_rng(4)
DECAYED = 2.0 * np.exp(-0.8 * np.asarray(TIMES[1:])) * np.exp(0.05 * RNG.standard_normal(30))


def priors():
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
    start = numpyro.sample("start", dist.LogNormal(0.0, 1.0))
    return rate, start


def by_solver(y):
    rate, start = priors()
    solved = odeint(lambda u, t: -rate * u, start, TIMES, rtol=1e-9, atol=1e-9)
    numpyro.sample("y", dist.LogNormal(jnp.log(solved[1:]), 0.05), obs=y)


def in_closed_form(y):
    rate, start = priors()
    solved = start * jnp.exp(-rate * TIMES[1:])
    numpyro.sample("y", dist.LogNormal(jnp.log(solved), 0.05), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "map", "svi", "importance", "nuts", "auto"])
def test_differential_equation_is_fitted_like_its_closed_form(method):
    if method == "nuts":
        method = bk.NUTS(warmup=300, draws=300)
    ours, exact = (
        bk.infer(model, DECAYED, method=method, progress=False)
        for model in (by_solver, in_closed_form)
    )
    assert ours.trust.verdict == exact.trust.verdict
    for name in ("rate", "start"):
        np.testing.assert_allclose(
            ours.draws[name].mean(), exact.draws[name].mean(), atol=0.005, err_msg=name
        )
        np.testing.assert_allclose(
            ours.draws[name].std(), exact.draws[name].std(), rtol=0.1, atol=1e-9, err_msg=name
        )
