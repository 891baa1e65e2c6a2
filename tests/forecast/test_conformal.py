"""Conformal intervals: order statistics, coverage, and the test of the Bayesian intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, norm

import bayeskern as bk
from bayeskern.forecast.evaluate.past_tails import PastTails, binomial_p_value

QUICK = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
N, HORIZON = 60, 3


def monthly(values):
    times = pd.date_range("2015-01-01", periods=len(values), freq="MS")
    return pd.Series(values, times, name="y")


def walk(seed=0, count=N, shocks=None):
    rng = np.random.default_rng(seed)
    return monthly(50.0 + np.cumsum(rng.normal(size=count) if shocks is None else shocks))


@pytest.fixture(scope="module")
def f():
    return bk.forecast(walk(), HORIZON, **QUICK)


def past_of(tails, steps=None):
    tails = np.asarray(tails, float)
    steps = np.zeros(len(tails), int) if steps is None else steps
    return PastTails(tails, steps, np.arange(len(tails)))


# -- order statistics ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "level", "k"),
    [(9, 0.9, 9), (19, 0.9, 18), (19, 0.95, 19), (20, 0.8, 17), (99, 0.9, 90), (4, 0.8, 4)],
)
def test_order_statistic(count, level, k):
    """k = ceil((n + 1) level): the k-th least extreme of n past tails."""
    tails = np.random.default_rng(0).permutation(np.arange(1, count + 1) / (2.0 * count + 2.0))
    assert past_of(tails).conformal_tail(0, level) == np.sort(tails)[::-1][k - 1]


@pytest.mark.parametrize(("count", "level"), [(8, 0.9), (18, 0.95), (3, 0.8), (0, 0.5)])
def test_too_few_errors_have_no_finite_interval(count, level):
    assert past_of(np.full(count, 0.3)).conformal_tail(0, level) == 0.0


@pytest.mark.parametrize(("count", "level"), [(19, 0.9), (50, 0.8)])
def test_coverage_of_exchangeable_errors(count, level):
    """Coverage k / (n + 1), for tails of any continuous distribution."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(5_000):
        tails = 0.5 * rng.beta(0.3, 2.0, count + 1)
        hits += tails[-1] >= past_of(tails[:-1]).conformal_tail(0, level)
    expected = np.ceil((count + 1) * level) / (count + 1)
    error = np.sqrt(expected * (1.0 - expected) / 5_000)
    assert abs(hits / 5_000 - expected) < 4.0 * error


def test_intervals_have_the_conformal_tails(f):
    """The share of past values inside intervals with these tails is k / n."""
    result = f.conformal(0.8)
    past = PastTails.from_series(f)
    for step in range(HORIZON):
        n = len(past.at(step))
        tail = past.conformal_tail(step, 0.8)
        assert np.sum(past.at(step) >= tail) == np.ceil((n + 1) * 0.8 - 1e-9)
        lower, upper = f.quantile([tail, 1.0 - tail])[:, step]
        np.testing.assert_allclose([result.lower[step], result.upper[step]], [lower, upper])
    assert [*result.counts] == [30, 29, 28]
    assert result.interval[0] is result.lower


def test_past_tails_are_those_of_the_forecast_at_the_origin(f):
    """The forecast of 30 values at the hyperparameters of all 60."""
    past = PastTails.from_series(f)
    fitted, y = f.parts[0].fitted, walk().to_numpy()
    first = past.origins == 30
    earlier = fitted.given(fitted.x[:30], fitted.y[:30])
    (mean,), (variance,) = earlier.density.moments(earlier.mode[None], fitted.x[30:33])
    z = (fitted.scale.forward(y[30:33]) - mean) / np.sqrt(variance)
    # The 30 values give the scale, too.
    scales = f.combination.errors(np.arange(3), np.full(3, 30)).scales
    scales = scales * f.combination.width.past_scale
    expected = norm.cdf(-np.abs(z) / scales)
    np.testing.assert_allclose(past.tails[first], expected, rtol=1e-6)


def test_output(f):
    result = f.conformal(0.8)
    frame = result.to_frame()
    np.testing.assert_allclose(frame["lower"], result.lower)
    np.testing.assert_allclose(frame[["bayesian_lower", "bayesian_upper"]].T, f.interval(0.8))
    assert "y: 80 % intervals" in repr(result) and "2020-01-01" in repr(result)


def test_plot(f):
    result = f.conformal(0.8)
    (ax,) = result.plot().axes
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(lines["conformal, 80 %"], result.lower)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"80 % interval", "conformal, 80 %"} <= set(labels)


def test_late_steps_with_few_errors_are_infinite():
    f = bk.forecast(walk(count=40), 6, **QUICK)
    result = f.conformal(0.94)  # 16 errors needed; 20, 19, ..., 15
    assert all(np.isfinite(ax.get_ylim()).all() for ax in result.plot().axes)
    assert result.needed == 16 and np.isinf(result.upper[-1]) and np.isinf(result.lower[-1])
    assert np.all(np.isfinite(result.upper[:5]))
    assert "infinite from step 6 on" in result.remarks[0]


def test_too_high_levels_are_refused(f):
    with pytest.raises(ValueError, match="needs at least 99 past errors; there are 30 of one step"):
        f.conformal(0.99)
    with pytest.raises(ValueError, match="level must be"):
        f.conformal(95)
    with pytest.raises(ValueError, match="y is constant"):
        bk.forecast(monthly(np.ones(20)), 2).conformal(0.8)
    with pytest.raises(ValueError, match="too short"):
        bk.forecast(walk(count=4), 2, **QUICK).conformal(0.8)


def test_counts_and_updated_forecasts():
    counts = monthly(np.random.default_rng(0).poisson(3.0, 40))
    f = bk.forecast(counts, 2, season=0, trend="drift", likelihood="poisson")
    lower, upper = f.conformal(0.8).interval
    assert np.all(lower == np.round(lower)) and np.all(lower < upper)
    updated = bk.forecast(walk(), HORIZON, **QUICK).update([51.0, 52.0])
    assert [*updated.conformal(0.8).counts] == [31, 30, 29]


# -- the test of the Bayesian intervals ------------------------------------------------------------


def test_p_value_is_binomial():
    """One step ahead: 30 of 50 values inside 80 % intervals."""
    tails = np.where(np.arange(50) < 30, 0.3, 0.01)
    test = past_of(tails).test(0.8)
    np.testing.assert_allclose(test.p_value, binomtest(30, 50, 0.8).pvalue)
    assert (test.inside, test.count, test.step) == (30, 50, 1)
    assert (
        "held 30 of 50 past values 1 step ahead" in test.remark() and "too narrow" in test.remark()
    )


@pytest.mark.parametrize(("k", "n", "p"), [(0, 1, 0.5), (7, 9, 0.8), (10, 10, 0.95), (5, 10, 0.5)])
def test_binomial_p_value_of_scipy(k, n, p):
    np.testing.assert_allclose(binomial_p_value(k, n, p), binomtest(k, n, p).pvalue)
    np.testing.assert_allclose(binomial_p_value(k, n, p, True), binomtest(k, n, p, "less").pvalue)


def test_overlapping_forecasts_count_once():
    """Two steps ahead, every second origin, and Bonferroni's factor of two."""
    steps = np.tile([0, 1], 40)
    tails = np.where(steps == 0, np.resize([0.3] * 8 + [0.01] * 2, 80), 0.01)
    past = PastTails(tails, steps, np.repeat(np.arange(40), 2))
    test = past.test(0.8)
    assert (test.step, test.inside, test.count) == (2, 0, 20)
    np.testing.assert_allclose(test.p_value, 2.0 * 0.2**20, rtol=1e-6)


def test_steps_without_past_values_are_skipped():
    """If every second value is missing, no known value is an odd number of steps ahead."""
    origins = np.repeat(np.arange(10, 30), 2)
    past = PastTails(np.full(40, 0.01), np.tile([1, 3], 20), origins)
    test = past.test(0.8)
    assert (test.step, test.inside, test.count) == (2, 0, 10)


def test_discrete_values_may_be_covered_too_often():
    tails, known = np.full(60, 0.4), np.arange(60)
    assert "they are too wide" in PastTails(tails, 0 * known, known).test(0.8).remark()
    assert PastTails(tails, 0 * known, known, discrete=True).test(0.8).remark() is None


def test_remark_on_intervals_that_are_too_narrow():
    """A forecast with a noise of 1 % of the real noise."""
    past = past_of(np.concatenate([np.full(20, 0.4), np.full(20, 1e-6)]))
    assert past.test(0.8).p_value < 1e-4
    # By chance: 13 of 20 inside.
    assert past_of([0.4] * 13 + [0.01] * 7).test(0.8).remark() is None


def test_forecast_repeats_the_remark():
    """Calm months with a jump every few: normal intervals hold almost all of the values."""
    rng = np.random.default_rng(0)
    shocks = np.where(rng.random(240) < 0.04, rng.choice([-30.0, 30.0], 240), rng.normal(size=240))
    model = bk.StructuralModel(kernel=bk.kernels.Brownian(), log=False, method="map")
    own = bk.forecast(walk(shocks=shocks), HORIZON, model=model)
    (remark,) = [text for text in own.remarks if "beyond chance" in text]
    assert remark == own.conformal(0.8).test.remark() and "they are too wide" in remark
    # Where the width follows past errors, such intervals hold no more of the next values.
    f = bk.forecast(walk(shocks=shocks), HORIZON, **QUICK)
    assert not any("beyond chance" in text for text in f.remarks)
    assert "they are too wide" in f.conformal(0.8).test.remark()
    lower, upper = f.conformal(0.8).interval
    assert upper[0] - lower[0] < 0.5 * np.subtract(*f.interval(0.8)[::-1])[0]


# -- simulation ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_coverage_and_false_alarms_of_simulated_series():
    """Heavy-tailed random walks with noise: coverage after the end, and remarks by chance."""
    count, horizon, alarms = 120, 6, 0
    inside = {0.8: [], 0.9: []}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        steps, noise = 0.5 * rng.standard_t(5, count + horizon), rng.normal(size=count + horizon)
        y = 50.0 + np.cumsum(steps) + noise
        f = bk.forecast(monthly(y[:count]), horizon, season=0, trend="drift")
        for level, hits in inside.items():
            lower, upper = f.conformal(level).interval
            hits.append(np.mean((lower <= y[count:]) & (y[count:] <= upper)))
        alarms += f.conformal(0.8).test.remark() is not None
    for level, hits in inside.items():
        assert abs(np.mean(hits) - level) < 3.0 * np.std(hits) / np.sqrt(len(hits))
    # At most one in a hundred: more than five of 150 has probability 0.003.
    assert alarms <= 5
