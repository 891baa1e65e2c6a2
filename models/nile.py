"""The flow of the Nile, 1871 to 1970, and the year in which it fell.

Cobb (1978), "The problem of the Nile: conditional solution to a changepoint problem", Biometrika
65, 243-251: the yearly flow at Aswan fell from about 1,100 to 850 (in 10^8 m^3), and 1898 is the
likeliest last year before the change. The year is a discrete latent, which is summed out, so that
every method fits the flows and the sd; `posterior.infer_discrete()` then draws years. Both need
funsor (pip install 'bayeskern[discrete]').
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import bayeskern as bk


def data():
    """The flow in 10^8 m^3 a year (100,)."""
    return (bk.datasets.load("nile").values,)


def model(flow):
    before = numpyro.sample("before", dist.Normal(1000.0, 300.0))
    after = numpyro.sample("after", dist.Normal(1000.0, 300.0))
    sd = numpyro.sample("sd", dist.HalfNormal(300.0))
    # Index of the last year before the change.
    last = numpyro.sample("last", dist.DiscreteUniform(0, len(flow) - 2))
    with numpyro.plate("year", len(flow)):
        mean = jnp.where(jnp.arange(len(flow)) <= last, before, after)
        numpyro.sample("flow", dist.Normal(mean, sd), obs=flow)


def problem():
    """The flows by year."""
    return bk.Problem(model, data(), {"year": list(range(1871, 1971))})
