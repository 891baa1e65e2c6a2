"""Neal's funnel: nine values and their log variance, with nothing observed.

Neal (2003), "Slice sampling", Annals of Statistics 31, 705-767, section 8. Centred
hierarchical models have this shape if their groups hold few data; it is hard for every method. The
posterior is known exactly, because it is the prior: log_variance ~ N(0, 3^2).
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import bayeskern as bk

SIZE = 9


def data():
    """The model has no arguments."""
    return ()


def model():
    log_variance = numpyro.sample("log_variance", dist.Normal(0.0, 3.0))
    with numpyro.plate("member", SIZE):
        numpyro.sample("x", dist.Normal(0.0, jnp.exp(0.5 * log_variance)))


def problem():
    return bk.Problem(model, data(), dims={"x": ["member"]})
