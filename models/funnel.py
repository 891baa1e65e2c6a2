"""Neal's funnel: nine values and their log variance, with nothing observed.

Neal (2003), "Slice sampling", Annals of Statistics 31, 705-767, section 8. The posterior is known
exactly, because it is the prior: log_variance ~ N(0, 3^2). Centred hierarchical models have this
shape if their groups hold few data.

Methods fail on `model` as it is written, and the verdicts say so. The sd of x is exp(log_variance /
2): it grows by a factor of 400 from two sds below the mean of log_variance to two sds above. No
Gaussian has two widths. The density is highest where x is 0 and log_variance is -40.5, thirteen sds
from its mean, in a place without mass: there MAP and Laplace end. SVI and importance sampling by a
Gaussian do not cover the wide part. `NUTS(centring=False)` has one step size. In the narrow part it
diverges or has to take tiny steps, in the wide part these steps lead nowhere, so log_variance moves
slowly and R-hat is large.

The remedy is `noncentred`: sample standardised values and multiply them by the sd. Its latents are
independent and Gaussian, so that every method finds them. NUTS and `auto` change `model` to this
form by themselves. The verdict is still caution: the tail of x is so heavy that draws do not
determine its sd, exp(2.25); quantiles can be used.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import bayeskern as bk

SIZE = 9


def data():
    """The models have no arguments."""
    return ()


def model():
    """The centred model: x ~ N(0, exp(log_variance))."""
    log_variance = numpyro.sample("log_variance", dist.Normal(0.0, 3.0))
    with numpyro.plate("member", SIZE):
        numpyro.sample("x", dist.Normal(0.0, jnp.exp(0.5 * log_variance)))


def noncentred():
    """Non-centred model: x = exp(log_variance / 2) * standardised, standardised ~ N(0, 1)."""
    log_variance = numpyro.sample("log_variance", dist.Normal(0.0, 3.0))
    with numpyro.plate("member", SIZE):
        standardised = numpyro.sample("standardised", dist.Normal(0.0, 1.0))
        numpyro.deterministic("x", jnp.exp(0.5 * log_variance) * standardised)


def problem():
    """The centred model."""
    return bk.Problem(model, data(), dims={"x": ["member"]})
