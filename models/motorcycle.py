"""A rider's head in a motorcycle crash: noise that grows while it is thrown about.

Silverman (1985), "Some aspects of the spline smoothing approach to non-parametric regression curve
fitting", Journal of the Royal Statistical Society B 47, 1-52: 133 measurements of acceleration (g)
against time (ms). Before the crash is felt, at about 14 ms, they scatter by 1 or 2 g; later by 20 g
and more. A Gaussian process with one noise variance for all times gets both wrong.

Here the acceleration is a Gaussian process. So is the log sd of the noise, which has a value at
each knot and is interpolated linearly between knots.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF

KNOTS = np.arange(0.0, 61.0, 5.0)
KERNEL = RBF(
    lengthscale=dist.LogNormal(np.log(5.0), 0.5), variance=bk.from_sd(dist.HalfNormal(100.0))
)
# Prior on the log sd: around 10 g, within a factor of e^1.5, with a lengthscale of 10 ms.
LOG_SD = bk.GaussianProcess(RBF(10.0, 1.5**2), KNOTS, noise=0.1**2, mean=np.log(10.0))


def data():
    """Times in ms, and accelerations in g (133,)."""
    series = bk.datasets.load("motorcycle")
    return series.times, series.values


def model(times, acceleration=None):
    kernel = bk.sample(KERNEL)
    log_sd = numpyro.sample("log_sd", LOG_SD)
    noise = jnp.exp(2.0 * jnp.interp(times, KNOTS, log_sd))
    process = bk.GaussianProcess(kernel, times, noise)
    numpyro.sample("acceleration", process, obs=acceleration)


def problem():
    """To predict: every millisecond of the first sixty."""
    return bk.Problem(
        model,
        data(),
        coords={"knot": KNOTS},
        dims={"log_sd": ["knot"]},
        predict=(np.arange(0.0, 60.5, 1.0),),
    )
