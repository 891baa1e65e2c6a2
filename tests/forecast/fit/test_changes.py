"""Change points of level and slope, given or found, against explicit features and simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import signal, stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.combine.candidates import candidates
from bayeskern.forecast.fit.changes import LOG_PRIOR_ODDS, scan, with_change
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model.building import build_kernel_and_noise
from bayeskern.forecast.model.configuration import Request, configure
from bayeskern.forecast.model.level_shift import level_shift
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.model.trends import (
    CHANGING,
    JUMP_VARIANCE,
    STEADY,
    TRENDS,
    priors_of_changes,
)
from tests.forecast.tables import choices_for

N, AT = 60, 36
RNG = np.random.default_rng(8)
T = np.arange(N) / 12.0
LINE = 0.3 * T + 0.2 * RNG.standard_normal(N)
MONTHS = pd.date_range("2015-01-01", periods=N, freq="MS")
FIND = bk.StructuralModel(changes="find")


def jumped(size=3.0):
    return LINE + size * (np.arange(N) >= AT)


def features(x, at):
    return np.stack([x > at, np.where(x > at, x - at, 0.0)], axis=1).astype(float)


@pytest.mark.parametrize("trend", ["smooth", STEADY])
def test_bayes_factors_equal_ratios_of_two_processes(trend):
    x = np.delete(T, [3, 20, 21])
    y = np.delete(jumped(0.8), [3, 20, 21])
    fitted = FittedStructure.from_values(
        Structure(trend, False), choices_for(trends=(trend,), step=1 / 12), x, y
    )
    times, log_factors = scan(fitted.dense, fitted.mode, trend)
    np.testing.assert_allclose(times, 0.5 * (x[1:] + x[:-1]))
    values = fitted.density.values(fitted.mode)
    K = np.asarray(fitted.model.at(values).kernel(x)) + float(values["noise"]) * np.eye(len(x))
    variances = np.exp([at for at, _ in priors_of_changes(trend, 1, x[-1] - x[0]).values()])
    z, null = fitted.density.y, np.zeros(len(x))
    plain = stats.multivariate_normal(null, K).logpdf(z)
    for at, log_factor in zip(times, log_factors, strict=True):
        H = features(x, at)[:, : len(variances)]
        changed = stats.multivariate_normal(null, K + (H * variances) @ H.T).logpdf(z)
        np.testing.assert_allclose(log_factor, changed - plain, rtol=1e-6, atol=1e-7)


def test_margin_leaves_out_ends():
    fitted = FittedStructure.from_values(
        Structure("drift", False), choices_for(step=1 / 12), T, jumped()
    )
    everywhere = scan(fitted.dense, fitted.mode, "drift")
    inner = scan(fitted.dense, fitted.mode, "drift", margin=5)
    assert inner.times[0] == pytest.approx(4.5 / 12) and np.sum(inner.times[-1] < T) == 5
    np.testing.assert_array_equal(inner.log_factors, everywhere.log_factors[4:-4])


@pytest.mark.parametrize("trend", ["drift", STEADY])
def test_kernel_of_change_has_features_of_its_priors(trend):
    choices, y, at = choices_for(step=1.0 / 12.0), jumped(), T[AT] - 1.0 / 24.0
    own = {} if trend == STEADY else {"trend.level.variance": 1.0, "trend.drift.variance": 1.0}
    of_change = dict(zip(priors_of_changes(trend, 1, T[-1]), (2.0, 3.0), strict=False))
    grams = []
    for changes, values in (((), own), ((at,), own | of_change)):
        structure = Structure(trend, False, changes)
        kernel, _ = build_kernel_and_noise(choices, structure, T, Scale.from_values(y, False), y)
        grams.append(np.asarray(kernel.at(values)(T)))
    H = features(T, at)[:, : len(of_change)]
    expected = (H * list(of_change.values())) @ H.T
    np.testing.assert_allclose(grams[1] - grams[0], expected, atol=1e-8)


def test_fitted_prior_of_a_slope_is_that_of_the_search():
    """After half the span, a change of slope has the variance of a jump."""
    fitted = FittedStructure.from_values(
        Structure("drift", False, (2.9,)), choices_for(step=1 / 12), T, jumped()
    )
    middle = dict(zip(fitted.density.names, fitted.density.middle, strict=True))
    jump, slope = (
        middle[f"trend.changepoint.sum.{name}.variance"] for name in ("constant", "linear")
    )
    assert jump == pytest.approx(JUMP_VARIANCE)
    assert slope + 2.0 * np.log(0.5 * (T[-1] - T[0])) == pytest.approx(jump)


def test_log_density_of_a_change_has_no_unit_of_time():
    structure, y = Structure("drift", False, (30.2,)), jumped(1.0)
    x = np.arange(float(N))
    values = [
        FittedStructure.from_values(
            structure._replace(changes=(30.2 * unit,)), choices_for(step=unit), unit * x, y
        ).log_density
        for unit in (1.0, 1.0 / 52.0)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-3)


def test_prior_of_a_change_counts_its_times():
    """p(y) of a change at any time is the mean over times, at the same hyperparameters."""
    fitted = FittedStructure.from_values(
        Structure(STEADY, False), choices_for(trends=(STEADY,)), T, jumped(0.3)
    )
    changed = with_change(fitted, float(T[AT] - 1 / 24), margin=5)
    z = np.array([changed.mode_by_name[name] for name in fitted.density.names])
    times, log_factors = scan(fitted.dense, z, STEADY, margin=5)
    own = log_factors[np.argmin(abs(times - changed.structure.changes[0]))]
    expected = LOG_PRIOR_ODDS + np.log(np.mean(np.exp(log_factors - own)))
    assert changed.log_prior == pytest.approx(expected)


def test_jump_is_located():
    values = pd.Series(jumped(), MONTHS)
    f = bk.forecast(values, 6, trend="smooth", model=FIND)
    np.testing.assert_array_equal(f.changes, [np.datetime64("2018-01-01")])
    assert "level and slope change at 2018-01-01" in f.structure
    assert np.all(np.abs(f.median - 3.0 - 0.3 * (T[-1] + 0.3)) < 1.0)


@pytest.mark.slow
def test_no_change_is_found_in_a_line():
    values = pd.Series(LINE, MONTHS)
    f, plain = bk.forecast(values, 6, model=FIND), bk.forecast(values, 6)
    assert f.changes.size == 0 and "change" not in f.structure
    assert "changes of level and slope: searched, and none found" in f.remarks
    np.testing.assert_allclose(f.median, plain.median, rtol=1e-9)


def test_short_series_are_not_searched():
    f = bk.forecast(LINE[:8], 2, model=FIND)
    assert "changes of level and slope: too few values to search for them" in f.remarks


@pytest.mark.slow
def test_break_of_the_nile_is_found():
    """The flow fell after 1898: Cobb (1978), "The problem of the Nile", Biometrika 65."""
    f = bk.forecast("nile", 10, model=FIND)
    np.testing.assert_array_equal(f.changes, [1899])
    assert "level changes at 1899 (probability" in f.structure
    assert not any("searched" in remark for remark in f.remarks)
    later = f.series.values[f.series.times >= 1899]
    assert np.all(abs(f.median - later.mean()) < 0.5 * later.std())


@pytest.mark.slow
def test_changes_of_a_long_series_move_with_its_recent_values():
    """A change before the recent values is none of them; a later one keeps its time."""
    y = np.cumsum(np.random.default_rng(3).standard_normal(300)) + 100.0
    y[280:] += 30.0
    f = bk.forecast(y, 3, season=0, trend="drift", model=bk.StructuralModel(changes=[20, 280]))
    np.testing.assert_array_equal(f.changes, [20, 280])


def test_given_change_is_used():
    values = pd.Series(jumped(0.1), MONTHS)
    f = bk.forecast(values, 6, trend="drift", model=bk.StructuralModel(changes=["2018-01-01"]))
    np.testing.assert_array_equal(f.changes, [np.datetime64("2018-01-01")])


def test_value_at_a_given_change_follows_it():
    series = bk.read_series(pd.Series(LINE, MONTHS))
    model = bk.StructuralModel(changes=["2018-01-01", "2016-06-01"])
    _, choices = configure(series, 6, Request(model, trend="drift"))
    x = series.calendar.positions(series.times)
    for at, first in zip(choices.changes, ("2016-06-01", "2018-01-01"), strict=True):
        np.testing.assert_array_equal(x > at, first <= MONTHS)


def shifted_weeks(years, factor):
    """Weeks of white noise on the log scale; the level changes once, at a turn of the year."""
    n = 52 * years
    noise = 0.05 * np.random.default_rng(4).standard_normal(n)
    level = np.where(np.arange(n) < 52 * (years - 1), 1000.0, factor * 1000.0)
    return pd.Series(level * np.exp(noise), pd.date_range("2020-01-05", periods=n, freq="W"))


def test_single_step_is_not_continued_as_a_staircase():
    values = shifted_weeks(years=2, factor=50.0)
    f = bk.forecast(values, 26)
    assert any("level shifts near 2021-01-03" in remark for remark in f.remarks)
    assert f.changes.size
    assert np.all(np.abs(np.log(f.median / 50_000.0)) < 0.3)


@pytest.mark.parametrize(
    ("years", "factor", "changes"), [(2, 1.2, None), (6, 50.0, None), (2, 50.0, ())]
)
def test_other_series_are_not_searched(years, factor, changes):
    model = bk.StructuralModel(changes=changes)
    f = bk.forecast(shifted_weeks(years, factor), 4, model=model)
    assert not f.changes.size and not any("level shifts" in remark for remark in f.remarks)


def test_step_between_two_constant_years_is_not_continued():
    months = pd.date_range("2020-01-01", periods=24, freq="MS")
    f = bk.forecast(pd.Series(np.repeat([1_000.0, 50_000.0], 12), months), 6)
    np.testing.assert_allclose(f.median, 50_000.0, rtol=0.01)


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(30),
        np.ones(10),
        np.r_[np.zeros(20), 5.0, np.zeros(20)],
        np.repeat([1.0, 9.0, 2.0, 8.0], 12),
    ],
    ids=["constant", "short", "spike", "many steps"],
)
def test_no_level_shift(y):
    assert level_shift(y) is None


def test_level_shift_is_located():
    y = np.random.default_rng(5).standard_normal(60)
    assert level_shift(y) is None
    y[37:] += 100.0
    assert level_shift(y) == 37
    assert level_shift(-3.0 * y) == 37
    assert level_shift(np.repeat([1.0, 9.0], 12)) == 12


@pytest.mark.parametrize("at", ["2015-01-01", "2030-01-01"])
def test_changes_outside_of_the_series_are_refused(at):
    with pytest.raises(ValueError, match="must lie after 2015-01-01 and not after 2019-12"):
        bk.forecast(pd.Series(LINE, MONTHS), 6, model=bk.StructuralModel(changes=[at]))


def test_changes_with_a_given_kernel_are_refused():
    with pytest.raises(ValueError, match="applies to the built-in structures"):
        bk.StructuralModel(changes="find", kernel=kernels.RBF())


# -- rates of detection ----------------------------------------------------------------------------


def is_found(y, trends):
    """True if the structures with a change are more probable than those without."""
    fits = candidates(np.arange(float(len(y))), y, choices_for(trends=trends, find_changes=True))
    return any(fitted.structure.changes for fitted in fits)


def is_found_by_oracle(y):
    """True if a change of the level is more probable than none, for noise of known variance 1.

    The level has a flat prior; the jump has the prior of the search, in units of the sd of y.
    """
    nodes, weights = np.polynomial.hermite.hermgauss(9)
    prior = np.var(y) * np.exp(JUMP_VARIANCE + np.sqrt(2.0) * nodes)[:, None]
    counts = np.arange(5, len(y) - 4)
    jumps = np.array([y[k:].mean() - y[:k].mean() for k in counts])
    precision = counts * (len(y) - counts) / len(y)
    shrunk = prior * precision / (1.0 + prior * precision)
    log_factors = 0.5 * (shrunk * precision * jumps**2 - np.log1p(prior * precision))
    factors = weights @ np.exp(log_factors) / np.sqrt(np.pi)
    return np.log(np.mean(factors)) + LOG_PRIOR_ODDS > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 1.0, 1.5, 2.0])
def test_rate_of_detection_is_that_of_known_noise(size):
    """A jump of `size` sds in white noise: found as often as by exact Bayes factors.

    The difference of two rates from the same series has the standard error of McNemar's test.
    """
    series, n, rng = 150, 50, np.random.default_rng(0)
    pairs = []
    for _ in range(series):
        y = rng.standard_normal(n) + size * (np.arange(n) >= rng.integers(15, 36))
        pairs.append((is_found(y, (STEADY,)), is_found_by_oracle(y)))
    ours, exact = np.array(pairs, float).T
    error = np.sqrt(max(np.sum(ours != exact), 1.0)) / series
    assert abs(ours.mean() - exact.mean()) < 3.0 * error


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.6, 1.0])
def test_false_alarms_of_all_structures_are_rare(correlation):
    """No change in white noise, an autoregression or a random walk.

    The mean Bayes factor over series of the fitted process is 1, so by Markov's inequality at most
    one series in three exceeds a factor of 3.
    """
    series, n, rng = 60, 80, np.random.default_rng(1)
    alarms = 0
    for _ in range(series):
        e = rng.standard_normal(n)
        y = signal.lfilter([1.0], [1.0, -correlation], e)
        alarms += is_found(y, (*TRENDS, *CHANGING))
    assert alarms <= stats.binom.ppf(0.999, series, 1.0 / 3.0)
