"""Belgian telephone calls, a third of them recorded in another unit.

The data cover the years 1950 to 1973. Rousseeuw and Leroy (1987), Robust Regression and Outlier
Detection, section 2.2, table 1: from 1964 to 1969 minutes were recorded in place of calls, and the
years on either side mix the two. Least squares follows these years, to 5.04 million more calls a
year. The other years alone give 1.08, the least median of squares 1.15 (in the same section), and
Tukey's biweight 1.10 (Venables and Ripley 2002, section 6.5). Student t noise finds the slope of
the other years, with df below 1. The posterior is skewed, so that no Gaussian fits it.
"""

import numpy as np

import bayeskern as bk

YEARS = np.arange(1950.0, 1974.0)
# fmt: off
CALLS = np.array([
    4.4, 4.7, 4.7, 5.9, 6.6, 7.3, 8.1, 8.8, 10.6, 12.0, 13.5, 14.9, 16.1, 21.2,
    119.0, 124.0, 142.0, 159.0, 182.0, 212.0, 43.0, 24.0, 27.0, 29.0,
])
# fmt: on


def data():
    """Years, and calls in millions (24,)."""
    return YEARS, CALLS


model = bk.BayesianLinearRegression(noise=bk.likelihoods.StudentT())


def problem():
    """To predict: the calls of the next three years."""
    return bk.Problem(
        model, data(), {"feature": ["year"]}, predict=(YEARS[-1] + np.arange(1.0, 4.0),)
    )
