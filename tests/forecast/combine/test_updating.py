"""Updates of a forecast by new values."""

from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import bayeskern as bk
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.forecast.combine.updating import SPARE_STEPS_AFTER_UPDATE
from bayeskern.kernels import RBF, Brownian, Constant

MONTHS = pd.date_range("2010-01-01", periods=96, freq="MS")


@pytest.fixture(scope="module")
def sales():
    t = np.arange(96)
    noise = np.random.default_rng(0).normal(size=(2, 96))
    y = 60.0 + np.cumsum(0.4 * noise[0]) + 6.0 * np.sin(2.0 * np.pi * t / 12.0) + noise[1]
    return pd.Series(y, MONTHS, name="sales")


def test_update_conditions_on_all_values_at_same_hyperparameters(sales):
    """Direct computation with the kernel at its mode."""
    kernel = RBF(0.8, 1.3)
    f = bk.forecast(sales[:90], 5, season=0, model=bk.StructuralModel(kernel=kernel, method="map"))
    g = f.update(sales[90:])
    z = f.scale.forward(sales.to_numpy())
    x = np.arange(101) / 12.0
    K, noise = np.asarray(kernel(x)), float(f.posterior.draws["noise"].ravel()[0])
    weights = np.linalg.solve(K[:96, :96] + noise * np.eye(96), K[:96, 96:])
    mean = f.scale.back(weights.T @ z)
    sd = f.scale.size * np.sqrt(np.diag(K[96:, 96:] - weights.T @ K[:96, 96:]) + noise)
    np.testing.assert_allclose(g.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(g.sd, sd, rtol=1e-8)
    np.testing.assert_array_equal(g.times, pd.date_range("2018-01-01", periods=5, freq="MS"))


def test_single_updates_equal_joint_update(sales):
    f = bk.forecast(sales[:90], 5, trend="drift")
    at_once, one_by_one = f.update(sales[90:]), f
    for value in sales[90:]:
        one_by_one = one_by_one.update(value)
    np.testing.assert_allclose(one_by_one.median, at_once.median, rtol=1e-6)
    np.testing.assert_allclose(one_by_one.sd, at_once.sd, rtol=1e-6)
    # The old forecast stays as it was.
    assert len(f.series.values) == 90 and f.times[0] == np.datetime64("2017-07-01")


@pytest.mark.slow
def test_update_is_close_to_new_fit(sales):
    f, again = bk.forecast(sales[:90], 6), bk.forecast(sales, 6)
    g = f.update(sales[90:])
    assert np.abs(g.median - again.median).max() < 0.5 * again.sd.min()
    np.testing.assert_allclose(g.sd, again.sd, rtol=0.3)
    assert g.before is f and g.problem is None and g.trust.verdict in ("good", "caution")
    assert 0.99 < sum(part.weight for part in g.parts) < 1.01
    assert "2010-01-01 to 2017-12-01" in str(g)


def test_new_values_without_density_are_refused(sales):
    f = bk.forecast(sales[:90], 5, trend="drift", model=bk.StructuralModel(log=False))
    with pytest.raises(FloatingPointError, match="not finite under any draw"):
        f.update(1e200)


def test_unexpected_values_reduce_effective_draws(sales):
    f = bk.forecast(sales[:90], 5, trend="drift")
    wild = f.update(sales[90:] + 40.0 * np.array([1, -1, 1, -1, 1, -1]))
    calm = f.update(sales[90:])
    assert wild.effective_draws < 0.5 * calm.effective_draws
    # A single draw dominates.
    assert wild.effective_draws < 2.0 and wild.trust.verdict == "bad"
    assert "leave 1.0 effective draws" in wild.problem and calm.problem is None


@pytest.mark.slow
def test_outlier_has_little_influence_on_robust_update(sales):
    spoiled = sales[90:].to_numpy().copy()
    spoiled[2] += 30.0
    shifts = []
    for robust in (True, False):
        f = bk.forecast(
            sales[:90], 5, trend="drift", model=bk.StructuralModel(robust=robust, log=False)
        )
        shifts.append(np.abs(f.update(spoiled).median - f.update(sales[90:]).median).max())
    assert shifts[0] < 0.3 * shifts[1]


def test_update_with_missing_values_and_later_times(sales):
    f = bk.forecast(sales[:90], 3, trend="drift", model=bk.StructuralModel(method="map"))
    skipped = f.update(sales.iloc[[91]], times=MONTHS[[91]])
    missing = f.update([np.nan, sales.iloc[91]])
    np.testing.assert_allclose(skipped.median, missing.median, rtol=1e-10)
    assert "1 missing value among the new values left out" in missing.remarks
    assert skipped.times[0] == missing.times[0] == np.datetime64("2017-09-01")
    # What is missing at the end is forecast.
    assert f.update([sales.iloc[90], np.nan]).times[0] == np.datetime64("2017-08-01")


def test_update_by_nonpositive_value_drops_log_structures():
    y = np.exp(np.cumsum(0.3 * np.random.default_rng(1).normal(size=40)))
    f = bk.forecast(y, 3, season=0, trend="drift")
    assert {part.structure.log for part in f.parts} == {True, False} or f.parts[0].structure.log
    with pytest.raises(ValueError, match="a value of -1 has no logarithm"):
        bk.forecast(y, 3, season=0, trend="drift", model=bk.StructuralModel(log=True)).update(-1.0)


@pytest.mark.parametrize(
    ("values", "times", "message"),
    [
        ([], None, "needs new values of sales"),
        ([np.nan], None, "needs new values of sales"),
        (np.ones((2, 2)), None, "needs new values of sales"),
        ([1.0], ["2018-01-01", "2018-02-01"], "1 values and 2 times"),
        ([1.0], [5], "1 values and 1 times, int64"),
        ([1.0], ["2017-06-01"], "come after 2017-06-01"),
        ([1.0, 2.0], ["2017-08-01", "2017-07-01"], "come after 2017-06-01"),
        ([1.0], ["2017-07-15"], "the times are monthly, at month start; with"),
        ([1.0], ["soon"], "cannot read 'soon'"),
    ],
)
def test_invalid_updates_are_refused(sales, values, times, message):
    f = bk.forecast(sales[:90], 3, trend="drift", model=bk.StructuralModel(method="map"))
    with pytest.raises(ValueError, match=message):
        f.update(values, times)


def test_update_accepts_rounding_of_times():
    times = np.linspace(0.0, 7.0, 60)
    y = np.cumsum(np.random.default_rng(0).normal(size=60))
    f = bk.forecast(
        bk.read_series(y[:50], times=times[:50]),
        3,
        season=0,
        trend="drift",
        model=bk.StructuralModel(method="map"),
    )
    np.testing.assert_allclose(f.update(y[50:]).times, 7.0 + np.arange(1, 4) * 7.0 / 59.0)
    np.testing.assert_allclose(
        f.update(y[50:], times=times[50:]).median, f.update(y[50:]).median, rtol=1e-10
    )
    with pytest.raises(ValueError, match="the times are numbers, step 0.118644; with"):
        f.update(y[50], times=times[50] + 0.05)


def test_update_of_constant_series_is_refused():
    with pytest.raises(ValueError, match="forecast the longer series"):
        bk.forecast([2.0, 2.0, 2.0], 2).update(3.0)


# -- many draws of several structures, by hand -----------------------------------------------------

KERNELS = {
    "level": Brownian(dist.LogNormal(-2.0)) + Constant(dist.LogNormal()),
    "smooth": RBF(dist.LogNormal(1.0), dist.LogNormal()),
}


def covariance(trend, values, x):
    """Covariance of values at x: (n, n)."""
    first, second, noise = values.values()
    K = first * np.minimum.outer(x, x) + second
    if trend == "smooth":
        K = second * np.exp(-0.5 * np.square(np.subtract.outer(x, x) / first))
    return K + noise * np.eye(len(x))


def at_draws(part, x, y, x_new):
    """Log density of z(y), and means and sds of new values of z, at each draw."""
    scale, densities, moments = part.fitted.scale, [], []
    z = ((np.log(y) if scale.log else y) - scale.shift) / scale.size
    for draw in part.draws.z:
        values = part.fitted.density.values(draw)
        K = covariance(part.structure.trend, values, np.append(x, x_new))
        known, cross = K[: len(x), : len(x)], K[: len(x), len(x) :]
        solved = np.linalg.solve(known, cross)
        densities.append(multivariate_normal(cov=known).logpdf(z))
        variance = np.diag(K)[len(x) :] - np.sum(cross * solved, axis=0)
        moments.append((solved.T @ z, variance))
    means, variances = np.array(moments).transpose(1, 0, 2)
    return np.array(densities), scale.shift + scale.size * means, scale.size * np.sqrt(variances)


@pytest.fixture(scope="module")
def walk():
    return 30.0 + np.cumsum(np.random.default_rng(3).normal(size=70))


CASES = {
    # So many that what is foretold with the fit is used up.
    "one by one": (np.arange(70), [[value] for value in range(40, 70)]),
    "at once": (np.arange(70), [range(40, 47)]),
    "a gap": (np.arange(70), [[40, 41, 44], [45, 49]]),
    "irregular": (np.cumsum(np.random.default_rng(4).uniform(0.5, 1.5, 70)), [[40], [41, 42]]),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_and_quantiles_of_updates_equal_direct_computation(walk, case):
    times, came = CASES[case]
    f = bk.forecast(
        bk.read_series(walk[:40], times=times[:40]),
        3,
        season=0,
        model=bk.StructuralModel(kernel=KERNELS),
    )
    g = f
    for some in came:
        g = g.update(walk[list(some)], times=times[list(some)])
    positions = (times - times[0]) / f.series.calendar.every
    known = [*range(40), *(value for some in came for value in some)]
    x_new = positions[known[-1]] + 1.0 + np.arange(3)
    weights, ratios = {}, {}
    for part in f.parts:
        old, _, _ = at_draws(part, positions[:40], walk[:40], x_new)
        new, _, _ = at_draws(part, positions[known], walk[known], x_new)
        ratios[part.structure] = part.draws.log_ratios + new - old
        gain = logsumexp(ratios[part.structure]) - logsumexp(part.draws.log_ratios)
        slope = 1.0 / walk[known[40:]] if part.fitted.scale.log else np.ones(len(known) - 40)
        gain += np.sum(np.log(slope / part.fitted.scale.size))
        weights[part.structure] = part.weight * np.exp(0.5 * gain)
    # Each update leaves out the least likely ones.
    total = sum(weights[part.structure] for part in g.parts)
    assert total > 0.9 * sum(weights.values())
    q, expected = np.array([0.05, 0.5, 0.8]), 0.0
    for part in g.parts:
        assert part.weight == pytest.approx(weights[part.structure] / total, rel=1e-8)
        np.testing.assert_allclose(
            part.draws.log_ratios, ratios[part.structure], rtol=1e-9, atol=1e-8
        )
        _, locations, sds = at_draws(part, positions[known], walk[known], x_new)
        shares = part.draws.shares
        location = shares @ locations
        sd = np.sqrt(shares @ (sds**2 + np.square(locations - location)))
        ends = location + sd * norm.ppf(q)[:, None]
        expected += part.weight * (np.exp(ends) if part.fitted.scale.log else ends)
    np.testing.assert_allclose(g.quantile(q), expected, rtol=1e-8)


def test_update_factors_no_covariance(walk, monkeypatch):
    f = bk.forecast(walk[:40], 3, season=0, model=bk.StructuralModel(kernel=KERNELS))

    def refused(*_):
        raise AssertionError("a factor was asked for")

    with monkeypatch.context() as patch:
        for name in ("predictive", "log_density", "moments", "_covariance"):
            patch.setattr(DenseLogMarginal, name, refused)
        g = f
        for value in walk[40:50]:
            g = g.update(value)
        assert np.all(np.isfinite(g.mean)) and np.all(np.isfinite(g.interval(0.9)))


def test_memory_of_updates_is_bounded(walk):
    f = bk.forecast(walk[:40], 3, season=0, model=bk.StructuralModel(kernel=KERNELS))
    g = f
    for value in np.tile(walk[40:], 4)[:100]:
        g = g.update(value)
        kept = [part.draws.predictive for part in g.parts]
        assert all(
            one.covariances.nbytes <= 32 * (3 + SPARE_STEPS_AFTER_UPDATE) ** 2 * 8 for one in kept
        )
        assert all(one.covariances.base is None for one in kept)
    assert g.before is f and len(g.series.values) == 140


def test_update_of_draws_without_joint_predictive(walk):
    f = bk.forecast(
        walk[:40], 3, season=0, model=bk.StructuralModel(kernel=KERNELS["level"], log=False)
    )
    (part,) = f.parts
    plain = part._replace(draws=replace(part.draws, next_times=np.zeros(0), computed=None))
    without = replace(f, combination=replace(f.combination, parts=(plain,)))
    (later,) = without.update(walk[40:43]).parts
    x_new = np.arange(43.0, 46.0)
    old, _, _ = at_draws(part, np.arange(40.0), walk[:40], x_new)
    new, _, _ = at_draws(part, np.arange(43.0), walk[:43], x_new)
    gains = later.draws.log_ratios - part.draws.log_ratios
    np.testing.assert_allclose(gains, new - old, rtol=1e-8, atol=1e-8)
