"""CO2 at Mauna Loa, 1958 to 2001: a trend, a season and the weather.

The model has three of the four terms of Rasmussen and Williams (2006), Gaussian Processes for
Machine Learning, section 5.4.3, and priors in place of maximum likelihood. The data are from
Keeling and Whorf (2004), CDIAC; only every third month is used, so that a fit takes seconds.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32, Periodic

# Kernel of standardised CO2, over time in years since 1958.
KERNEL = (
    RBF(lengthscale=dist.LogNormal(4.0, 0.5), variance=dist.LogNormal(2.0, 1.0)).named("trend")
    + (
        Periodic(
            period=1.0,
            lengthscale=dist.LogNormal(0.0, 0.5),
            variance=dist.LogNormal(-2.0, 1.0),
        )
        * RBF(lengthscale=dist.LogNormal(4.0, 0.7))
    ).named("season")
    + Matern32(lengthscale=dist.LogNormal(0.0, 0.7), variance=dist.LogNormal(-6.0, 1.0)).named(
        "weather"
    )
)


def data(every: int = 3):
    """Years since 1958 and standardised CO2, one month in `every`; missing months are left out."""
    series = bk.datasets.load("co2")
    years = (series.times - np.datetime64("1958-01-01")).astype(float) / 365.25
    months = np.flatnonzero(np.isfinite(series.values))[::every]
    values = series.values[months]
    return years[months], (values - values.mean()) / values.std()


def model(years, co2=None):
    kernel = bk.sample(KERNEL)
    noise = numpyro.sample("noise", dist.LogNormal(-8.0, 1.0))
    numpyro.sample("co2", bk.GaussianProcess(kernel, years, noise), obs=co2)


def problem():
    """To predict: the twenty years after the record, month by month."""
    years, co2 = data()
    new_years = years[-1] + np.arange(1, 241) / 12.0
    return bk.Problem(
        model, (years, co2), {"year": 1958.0 + years}, {"co2": ["year"]}, (new_years,)
    )
