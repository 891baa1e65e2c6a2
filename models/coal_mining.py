"""Disasters in British coal mines, 1851 to 1962: a rate that changes over time.

Jarrett (1979), "A note on the intervals between coal-mining disasters", Biometrika 66, 191-193: 191
explosions that killed ten people or more, counted here by year. The model is a log-Gaussian Cox
process: the counts are Poisson, and the log of their rate is a Gaussian process. About 1890 the
rate fell from 3.2 a year to 0.9. A model with a jump puts it between 1887 and 1895 (Raftery and
Akman 1986, Biometrika 73, 85-89); a Gaussian process shows a slope.
"""

import numpy as np
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF

YEARS = np.arange(1851.0, 1963.0)
# fmt: off
DISASTERS = np.array([
    4, 5, 4, 1, 0, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5,
    3, 4, 2, 5, 2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1,
    0, 3, 2, 2, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 2, 3, 3, 1, 1,
    2, 1, 1, 1, 1, 2, 3, 3, 0, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
])
# fmt: on


def data():
    """Years, and the number of disasters in each (112,)."""
    return YEARS, DISASTERS


kernel = RBF(lengthscale=dist.InverseGamma(4.0, 60.0), variance=bk.from_sd(dist.HalfNormal(1.0)))
model = bk.LatentGP(kernel, bk.likelihoods.Poisson(), mean=dist.Normal(0.0, 1.0))


def problem():
    """To predict: the ten years after the record."""
    return bk.Problem(model, data(), predict=(YEARS[-1] + np.arange(1.0, 11.0),))
