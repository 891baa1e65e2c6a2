"""Series that tests of forecasts share, and what any forecast must be."""

import numpy as np
import pandas as pd

import bayeskern as bk

# One length, one horizon and so one compiled function for each kind of model.
N, HORIZON, DRAWS = 60, 6, 40_000
# One Gaussian process at one point, which can be worked out by hand.
ONE_STRUCTURE = {"season": 12, "trend": "smooth", "model": bk.StructuralModel(method="map")}


def seasonal(seed=0, count=N, period=12, noise=0.3):
    """A slow rise, a season and noise, about zero."""
    t = np.arange(count)
    rng = np.random.default_rng(seed)
    return 0.03 * t + np.sin(2 * np.pi * t / period) + noise * rng.standard_normal(count)


def months(count=N):
    return pd.date_range("2015-01-01", periods=count, freq="MS")


def sound(f, level=0.95):
    lower, upper = f.interval(level)
    inner = f.interval(0.5)
    assert f.median.shape == (f.horizon,) and len(f.times) == f.horizon
    assert np.all(np.isfinite([lower, upper, f.mean, f.sd])) and np.all(f.sd > 0)
    assert np.all((lower < inner[0]) & (inner[0] < f.median))
    assert np.all((f.median < inner[1]) & (inner[1] < upper))
