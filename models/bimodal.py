"""A number of which only the size was measured: the posterior has two modes.

x ~ N(0, 10^2), and |x| = 3 was seen with an error of 1. By symmetry the mean is exactly 0, where
the posterior has almost no mass, so its moments alone mislead.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk

SIZE, ERROR = np.array(3.0), 1.0


def data():
    """The argument of the model."""
    return (SIZE,)


def model(size):
    x = numpyro.sample("x", dist.Normal(0.0, 10.0))
    numpyro.sample("size", dist.Normal(jnp.abs(x), ERROR), obs=size)


def problem():
    return bk.Problem(model, data())
