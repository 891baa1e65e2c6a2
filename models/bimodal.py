"""A number measured without its sign: the posterior has two modes.

x ~ N(0, 10^2), and |x| was measured as 3 with a standard error of 1. By symmetry the posterior mean
is exactly 0, where there is almost no mass, so the moments alone mislead.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk

SIZE, ERROR = np.array(3.0), 1.0


def data():
    """The argument of the model: the measured size."""
    return (SIZE,)


def model(size):
    x = numpyro.sample("x", dist.Normal(0.0, 10.0))
    numpyro.sample("size", dist.Normal(jnp.abs(x), ERROR), obs=size)


def problem():
    return bk.Problem(model, data())
