"""Bounded values against SciPy, integrals and draws."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import bayeskern as bk
from bayeskern.forecast.model.transformation import NormalScores, Scale
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.student_errors import StudentErrors
from tests.marks import few

ONE = {"trend": "drift", "season": 0, "model": bk.StructuralModel(method="map")}
SCALES = {
    "normal": [Scale(False, 1.0, 2.0), Scale(False, -0.5, 1.0)],
    "lognormal": [Scale(True, 0.2, 0.5), Scale(True, 0.6, 0.9)],
    "mixed": [Scale(False, 1.0, 2.0), Scale(True, 0.3, 0.6)],
}
MEANS, SDS = np.array([[0.2, 1.0], [-0.3, 0.4]]), np.array([[0.7, 1.0], [0.9, 1.1]])
STUDENT = StudentErrors(np.array([0.9, 1.2]), 5.0)


def average(kind, bounds=(-np.inf, np.inf)):
    return QuantileAverage(
        np.array([0.3, 0.7]), SCALES[kind], MEANS, SDS, STUDENT, bounds, lambda: np.eye(2)
    )


@pytest.mark.parametrize("bounds", few([(0.5, np.inf), (-np.inf, 2.0), (0.4, 1.7)], (0.4, 1.7)))
@pytest.mark.parametrize("kind", SCALES)
def test_moments_equal_integrals_of_bounded_quantiles(kind, bounds):
    free, bounded = average(kind), average(kind, bounds)
    p = np.array([0.01, 0.2, 0.5, 0.8, 0.99])
    np.testing.assert_array_equal(bounded.quantile(p), np.clip(free.quantile(p), *bounds))
    draws = bounded.sample(20_000, 0)
    assert draws.min() >= bounds[0] and draws.max() <= bounds[1]
    mean, sd = bounded.mean, bounded.sd
    for column in range(2):

        def quantile(p, column=column):
            return np.clip(free.quantile(p)[column], *bounds)

        def integral(function, quantile=quantile):
            parts = [1e-6, 0.01, 0.5, 0.99, 1.0 - 1e-6]
            return sum(
                integrate.quad(lambda p: function(quantile(p)), *ends, limit=400)[0]
                for ends in pairwise(parts)
            ) / (1.0 - 2.0 * 1e-6)

        first, second = integral(lambda y: y), integral(np.square)
        # A kink of the quantiles at a bound costs the quadrature digits.
        np.testing.assert_allclose(mean[column], first, rtol=1e-3)
        np.testing.assert_allclose(sd[column], np.sqrt(second - first**2), rtol=3e-3)


@pytest.mark.parametrize("kind", SCALES)
def test_bounds_have_probability_mass(kind):
    free, bounded = average(kind), average(kind, (0.5, 1.8))
    inside = np.array([1.0, 1.2])
    np.testing.assert_array_equal(bounded.log_density(inside), free.log_density(inside))
    mass = [np.exp(bounded.log_density(np.full(2, bound))) for bound in (0.5, 1.8)]
    np.testing.assert_allclose(mass[0], free.below(np.full(2, 0.5)), rtol=1e-6)
    np.testing.assert_allclose(mass[1], 1.0 - free.below(np.full(2, 1.8)), rtol=1e-6)
    assert np.isneginf(bounded.log_density(np.array([0.4, 1.9]))).all()
    np.testing.assert_allclose(bounded.below(np.array([0.5, 0.4])), 0.0, atol=1e-20)


def test_error_of_value_at_bound_is_root_mean_square():
    """Root mean square of a truncated standard normal, by SciPy."""
    one = QuantileAverage(
        [1.0], [Scale(False, 0.0, 1.0)], [[0.4, -0.2]], [[1.0, 2.0]], bounds=(0.0, 1.5)
    )
    for y, sign in ((0.0, -1.0), (1.5, 1.0)):
        at = (y - np.array([0.4, -0.2])) / np.array([1.0, 2.0])
        ends = [(-np.inf, a) if sign < 0.0 else (a, np.inf) for a in at]
        square = [stats.truncnorm(*pair).moment(2) for pair in ends]
        np.testing.assert_allclose(one.errors_of(np.full(2, y)), sign * np.sqrt(square), rtol=1e-6)
    # Others have the error of their own.
    np.testing.assert_allclose(one.errors_of(np.array([0.9, 0.9])), [0.5, 0.55], rtol=1e-7)


RAIN = np.repeat([0.0, 1.0, 2.0, 5.0], [40, 30, 20, 10])


@pytest.mark.parametrize(
    ("scale", "bounds"),
    [(Scale(False, 0.0, 1.3), (0.0, 1.5)), (NormalScores.from_values(RAIN), (-np.inf, np.inf))],
    ids=["bounds", "ranks"],
)
def test_squared_errors_are_one_on_average(scale, bounds):
    one = QuantileAverage([1.0], [scale], [[0.0]], [[1.0]], bounds=bounds)
    values = one.quantile((np.arange(20_000) + 0.5) / 20_000)
    assert np.mean(np.square(one.errors_of(values))) == pytest.approx(1.0, abs=5e-3)


def bounded(y, horizon, **bounds):
    model = bk.StructuralModel(method="map", **bounds)
    return bk.forecast(y, horizon, **(ONE | {"model": model}))


def test_forecast_of_rain_is_nonnegative():
    rng = np.random.default_rng(0)
    rain = np.maximum(0.0, 2.0 + np.cumsum(0.2 * rng.normal(size=120)) + 3.0 * rng.normal(size=120))
    f = bk.forecast(pd.Series(rain, pd.date_range("2024-01-01", periods=120)), 10, **ONE)
    lower, upper = f.interval(0.95)
    assert np.all(lower == 0.0) and np.all(f.sample(50) >= 0.0) and np.all(upper > f.median)
    assert any(remark.startswith("the series is 0 at ") for remark in f.remarks)
    assert not any("reaches there" in remark for remark in f.remarks)
    assert f.choices.ranks
    free = bounded(rain, 10, lower=-np.inf)
    assert free.interval(0.95)[0].min() < 0.0 and not free.choices.ranks
    found = bk.anomalies(rain, 0.9, **ONE)
    assert found.interval[0].min() == 0.0


def test_remark_on_small_counts():
    counts = np.random.default_rng(0).poisson(3.0, 60)
    for y, said in ((counts, True), (counts + 0.5, False), (counts + 500, False)):
        remarks = bk.forecast(y, 3, **ONE).remarks
        assert any("small counts" in remark for remark in remarks) is said


def test_given_bounds_are_respected():
    y = np.clip(0.7 + np.cumsum(0.05 * np.random.default_rng(2).normal(size=60)), 0.0, 1.0)
    f = bounded(y, 20, lower=0.0, upper=1.0)
    lower, upper = f.interval(0.95)
    assert lower.min() >= 0.0 and upper.max() <= 1.0 and np.all(f.mean < 1.0)
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        f.update(1.2)
    with pytest.raises(ValueError, match="must lie between 0 and 0.5"):
        bk.forecast(y, 3, model=bk.StructuralModel(lower=0.0, upper=0.5))
    with pytest.raises(ValueError, match="must be a number above lower"):
        bk.forecast(y, 3, model=bk.StructuralModel(lower=1.0, upper=0.0))


@pytest.mark.slow
def test_interval_coverage_of_series_with_many_zeros():
    """Values censored at zero."""
    hits, seeds = [], range(60)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        y = np.maximum(0.0, 1.0 + 1.5 * rng.normal(size=68))
        lower, upper = bk.forecast(y[:60], 8, **ONE).interval(0.9)
        hits += [*((y[60:] >= lower) & (y[60:] <= upper))]
    share = np.mean(hits)
    assert share > 0.9 - 3.0 * np.sqrt(0.09 / len(seeds))
