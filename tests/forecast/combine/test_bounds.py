"""Values that have bounds: against integrals, draws, and what rain is like."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.forecast.combine.mixture import Mixture
from bayeskern.forecast.model.transformation import Scale

ONE = {"trend": "level", "season": 0, "model": bk.StructuralModel(method="map")}
SCALES = {
    "normal": [Scale(False, 1.0, 2.0), Scale(False, -0.5, 1.0)],
    "lognormal": [Scale(True, 0.2, 0.5), Scale(True, 0.6, 0.9)],
    "mixed": [Scale(False, 1.0, 2.0), Scale(True, 0.3, 0.6)],
}


def mixture(kind):
    means, variances = np.array([[0.2, 1.0], [-0.3, 0.4]]), np.array([[0.5, 1.0], [0.8, 1.2]])

    def paths(i, n, seed):
        scale, rng = SCALES[kind][i], np.random.default_rng(seed)
        z = means[i] + np.sqrt(variances[i]) * rng.normal(size=(n, 2))
        return scale.shift + scale.size * z

    return Mixture(np.array([0.3, 0.7]), SCALES[kind], means, variances, paths)


@pytest.mark.parametrize("bounds", [(0.5, np.inf), (-np.inf, 2.0), (0.4, 1.7)])
@pytest.mark.parametrize("kind", SCALES)
def test_moments_are_integrals_of_quantiles_and_those_of_draws(kind, bounds):
    free, bounded = mixture(kind), mixture(kind).within(*bounds)
    p = np.array([0.01, 0.2, 0.5, 0.8, 0.99])
    np.testing.assert_allclose(bounded.quantile(p), np.clip(free.quantile(p), *bounds))
    mean, sd = bounded.moments
    draws = bounded.sample(200_000, 0)
    assert draws.min() >= bounds[0] and draws.max() <= bounds[1]
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=5.0 * sd.max() / np.sqrt(2e5))
    np.testing.assert_allclose(sd, draws.std(axis=0), rtol=0.03)
    if np.isfinite(bounds).all():
        middles = (np.arange(4_000) + 0.5) / 4_000
        values = bounded.quantile(middles)
        np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(sd, values.std(axis=0), rtol=1e-4)


@pytest.mark.parametrize("kind", SCALES)
def test_the_density_has_mass_at_the_bounds(kind):
    free, bounded = mixture(kind), mixture(kind).within(0.5, 1.8)
    inside = np.array([1.0, 1.2])
    np.testing.assert_array_equal(bounded.log_density(inside), free.log_density(inside))
    draws = free.sample(200_000, 0)
    for bound, beyond in ((0.5, draws <= 0.5), (1.8, draws >= 1.8)):
        mass = np.exp(bounded.log_density(np.full(2, bound)))
        np.testing.assert_allclose(mass, beyond.mean(axis=0), atol=0.006)
    assert np.isneginf(bounded.log_density(np.array([0.4, 1.9]))).all()


def test_without_bounds_nothing_changes():
    free = mixture("mixed")
    np.testing.assert_array_equal(free.within(-np.inf, np.inf).moments, free.moments)


def bounded(y, horizon, **bounds):
    model = bk.StructuralModel(method="map", **bounds)
    return bk.forecast(y, horizon, **(ONE | {"model": model}))


def test_rain_is_never_negative_and_says_so():
    rng = np.random.default_rng(0)
    rain = np.maximum(0.0, 2.0 + np.cumsum(0.2 * rng.normal(size=120)) + 3.0 * rng.normal(size=120))
    f = bk.forecast(pd.Series(rain, pd.date_range("2024-01-01", periods=120)), 10, **ONE)
    lower, upper = f.interval(0.95)
    assert np.all(lower == 0.0) and np.all(f.sample(50) >= 0.0) and np.all(upper > f.median)
    assert any(remark.startswith("the series is 0 at ") for remark in f.remarks)
    assert not any("reaches there" in remark for remark in f.remarks)
    free = bounded(rain, 10, lower=-np.inf)
    assert free.interval(0.95)[0].min() < 0.0
    found = bk.anomalies(rain, 0.9, **ONE)
    assert found.interval[0].min() == 0.0


def test_small_counts_are_said():
    counts = np.random.default_rng(0).poisson(3.0, 60)
    for y, said in ((counts, True), (counts + 0.5, False), (counts + 500, False)):
        remarks = bk.forecast(y, 3, **ONE).remarks
        assert any("small counts" in remark for remark in remarks) is said


def test_bounds_that_are_said():
    y = np.clip(0.7 + np.cumsum(0.05 * np.random.default_rng(2).normal(size=60)), 0.0, 1.0)
    f = bounded(y, 20, lower=0.0, upper=1.0)
    lower, upper = f.interval(0.95)
    assert lower.min() >= 0.0 and upper.max() <= 1.0 and np.all(f.mean < 1.0)
    with pytest.raises(ValueError, match="reach beyond the bounds 0 and 1"):
        f.update(1.2)
    with pytest.raises(ValueError, match="lies beyond the bounds 0 and 0.5"):
        bk.forecast(y, 3, model=bk.StructuralModel(lower=0.0, upper=0.5))
    with pytest.raises(ValueError, match="must lie below upper; got lower=1.0 and upper=0.0"):
        bk.forecast(y, 3, model=bk.StructuralModel(lower=1.0, upper=0.0))


@pytest.mark.slow
def test_intervals_hold_what_they_say_of_series_with_many_zeros():
    """Normal noise cut at zero, which the fit does not know of."""
    hits, seeds = [], range(60)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        y = np.maximum(0.0, 1.0 + 1.5 * rng.normal(size=68))
        lower, upper = bk.forecast(y[:60], 8, **ONE).interval(0.9)
        hits += [*((y[60:] >= lower) & (y[60:] <= upper))]
    share = np.mean(hits)
    assert share > 0.9 - 3.0 * np.sqrt(0.09 / len(seeds))
