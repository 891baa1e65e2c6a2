"""Series that tests of forecasts share, and what any forecast must be."""

import io

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


def consistent(f):
    """Assert that all numbers of a forecast are finite and go together."""
    levels = [0.5, 0.8, 0.95, 0.98]
    ends = [f.median, *f.interval(0.5), *f.interval(0.8), *f.interval(0.95), *f.interval(0.98)]
    assert np.all(np.isfinite([*ends, f.mean, f.sd])) and np.all(f.sd >= 0.0)
    quantiles = f.quantile(np.arange(1, 100) / 100.0)
    assert np.all(np.diff(quantiles, axis=0) >= 0.0)
    lower, upper = f.interval(0.98)
    room = 1e-9 * np.maximum(np.abs(lower), np.abs(upper))
    assert np.all((lower - room <= f.mean) & (f.mean <= upper + room))
    assert np.all(np.isfinite(f.sample(200)))
    assert not np.isnan(f.log_density(f.median)).any()
    written = pd.read_csv(io.StringIO(f.to_csv(levels)))
    numbers = written.drop(columns="verdict").iloc[:, 1:].to_numpy(float)
    assert numbers.shape == (f.horizon, 3 + 2 * len(levels)) and np.all(np.isfinite(numbers))
    assert f.trust.verdict in ("good", "caution", "bad", "not assessable")
