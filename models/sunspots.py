"""Sunspots: a cycle of about eleven years, whose length and height vary.

The data are the last 160 yearly means, 1849 to 2008, of the record of the National Geophysical Data
Center, NOAA. Wolf (1852) put the cycle at 11.1 years. Cycles differ in length and height, so the
process is quasi-periodic: a periodic kernel times one that decays. On the scale of square roots the
noise is about the same at high and at low counts.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32, Periodic

# Kernel of standardised square roots of the sunspot number, over time in years.
KERNEL = (
    Periodic(
        period=dist.LogNormal(np.log(11.0), 0.1),
        lengthscale=dist.LogNormal(0.0, 0.5),
        variance=dist.LogNormal(0.0, 0.7),
    )
    * Matern32(lengthscale=dist.LogNormal(np.log(30.0), 0.7))
).named("cycle") + RBF(
    lengthscale=dist.LogNormal(np.log(50.0), 0.5), variance=dist.LogNormal(-1.0, 1.0)
).named("level")


def data(since: int = 1849):
    """Years and standardised square roots of the sunspot number, from the year `since` on."""
    series = bk.datasets.load("sunspots")
    recent = series.times >= since
    roots = np.sqrt(series.values[recent])
    return series.times[recent].astype(float), (roots - roots.mean()) / roots.std()


def model(years, sunspots=None):
    kernel = bk.sample(KERNEL)
    noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(0.5)))
    numpyro.sample("sunspots", bk.GaussianProcess(kernel, years, noise), obs=sunspots)


def problem():
    """To predict: the 22 years after the record."""
    years, sunspots = data()
    new_years = years[-1] + np.arange(1.0, 23.0)
    return bk.Problem(
        model, (years, sunspots), {"year": years}, {"sunspots": ["year"]}, (new_years,)
    )
