"""Airline passengers, 1949 to 1960: a trend and a season that grow together.

Box, Jenkins and Reinsel (1976), Time Series Analysis, Series G. On the log scale the season stays
the same while the passengers quadruple: from 127 thousand a month in 1949 to 476 in 1960, 12.8 % a
year. July and August are a quarter above the year's average, November is a sixth below it.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, Matern32, Periodic

# Kernel of standardised log passengers, over time in years since 1949.
KERNEL = (
    (
        Linear(variance=bk.from_sd(dist.HalfNormal(1.0)))
        + RBF(lengthscale=dist.LogNormal(1.0, 0.5), variance=bk.from_sd(dist.HalfNormal(0.5)))
    ).named("trend")
    + (
        Periodic(
            period=1.0,
            lengthscale=dist.LogNormal(0.0, 0.5),
            variance=bk.from_sd(dist.HalfNormal(0.5)),
        )
        * RBF(lengthscale=dist.LogNormal(3.0, 0.7))
    ).named("season")
    + Matern32(
        lengthscale=dist.LogNormal(-1.0, 0.7), variance=bk.from_sd(dist.HalfNormal(0.2))
    ).named("short_term")
)


def data():
    """Years since 1949 and standardised log passengers, by month (144,)."""
    series = bk.datasets.load("airline")
    logs = np.log(series.values)
    return np.arange(len(logs)) / 12.0, (logs - logs.mean()) / logs.std()


def model(years, passengers=None):
    level = numpyro.sample("level", dist.Normal(-1.5, 1.0))
    kernel = bk.sample(KERNEL)
    noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(0.2)))
    process = bk.GaussianProcess(kernel, years, noise, mean=level)
    numpyro.sample("passengers", process, obs=passengers)


def problem():
    """To predict: the next three years, month by month."""
    years, passengers = data()
    new_years = years[-1] + np.arange(1, 37) / 12.0
    coords, dims = {"year": 1949.0 + years}, {"passengers": ["year"]}
    return bk.Problem(model, (years, passengers), coords, dims, (new_years,))
