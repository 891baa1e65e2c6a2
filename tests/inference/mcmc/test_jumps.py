"""Jumps of a density, on segments between draws."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayeskern.inference.mcmc.jumps import has_jumps
from bayeskern.inference.model.target import Target

LOG_FACTORS = {
    "smooth": (lambda x: -(x**4), False),
    "kink": (lambda x: -10.0 * jnp.abs(x), False),
    "step": (lambda x: jnp.where(x > 0.0, 3.0, 0.0), True),
    "steps": (lambda x: 0.5 * jnp.floor(10.0 * x), True),
    "wall": (lambda x: 3.0 * jnp.tanh(1e4 * x), False),
    "support": (lambda x: jnp.where(jnp.abs(x) < 1.0, 0.0, -jnp.inf), False),
}


@pytest.mark.parametrize("name", LOG_FACTORS)
def test_jumps_are_found(name):
    log_factor, expected = LOG_FACTORS[name]

    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        numpyro.factor("factor", log_factor(x[0]))

    draws = np.random.default_rng(0).normal(size=(100, 3))
    assert has_jumps(Target.from_model(model, (), {}), draws) is expected
