"""Rolling-origin scores: origins, scores, and coverage on simulated series."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeskern as bk
from bayeskern.forecast.evaluate.rolling_origin import RollingOriginScores, compared
from bayeskern.forecast.evaluate.scores import COVERAGES, SCORED_PROBABILITIES, Scores, score
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.evaluate.verdict import assess_forecast

N, HORIZON = 48, 6


def seasonal(count=N, seed=0, noise=0.3):
    t = np.arange(count)
    rng = np.random.default_rng(seed)
    return 0.03 * t + np.sin(2 * np.pi * t / 12) + noise * rng.standard_normal(count)


def monthly(values):
    return pd.Series(values, pd.date_range("2015-01-01", periods=len(values), freq="MS"), name="y")


@pytest.fixture(scope="module")
def f():
    return bk.forecast(monthly(seasonal()), HORIZON)


def test_origins_lie_in_the_second_half(f):
    back, counts = f.past_scores, [*range(24, 48)]
    assert back.steps == HORIZON and back.origins == counts and back.count == 24
    ahead = [min(HORIZON, N - count) for count in counts]
    np.testing.assert_array_equal(back.known, np.repeat(counts, ahead))
    assert np.all(back.rows >= back.known)


def test_naive_scores_equal_naive_forecast(f):
    values, errors = seasonal(), []
    for known in f.past_scores.origins:
        naive = SeasonalNaive.from_values(values[:known], HORIZON, 12)
        ahead = values[known : known + HORIZON]
        errors.append(np.abs(ahead - naive.mean[: len(ahead)]))
    np.testing.assert_allclose(np.abs(f.past_scores.naive.errors), np.concatenate(errors))


def test_missing_values_are_not_scored():
    values = seasonal()
    values[[40, 45, 46]] = np.nan
    back = bk.forecast(monthly(values), HORIZON, trend="smooth").past_scores
    # Half of 45 values are known at first, the last of them in the 22nd month.
    assert back.count == 45 - back.origins[0]


@pytest.mark.parametrize(("count", "steps"), [(10, 5), (24, 6)])
def test_short_series_have_fewer_steps(count, steps):
    back = bk.forecast(seasonal(count), HORIZON, trend="drift").past_scores
    assert back.steps == steps and len(back.origins) >= 4


@pytest.mark.parametrize("count", [3, 5])
def test_very_short_series_are_not_assessed(count):
    f = bk.forecast(seasonal(count), 2, trend="drift")
    assert f.past_scores is None
    assert f.trust.verdict == "not assessable" and "The series is too short" in f.trust.advice


def test_expected_coverage_of_past_errors(f):
    """Normal past errors with `past_scale` times the scale, in intervals of Student t errors."""
    width, degrees = f.combination.width, f.combination.errors(np.arange(HORIZON)).degrees
    for level, expected in f.past_scores.expected.items():
        end = stats.t(degrees).ppf(0.5 + 0.5 * level) / width.past_scale
        assert expected == pytest.approx(2.0 * stats.norm.cdf(end) - 1.0, abs=0.006)


def test_expected_coverage_of_a_kernel_is_the_level():
    model = bk.StructuralModel(kernel=bk.kernels.Matern32(), log=False, method="map")
    f = bk.forecast(seasonal(), HORIZON, model=model)
    assert f.past_scores.expected == {0.5: 0.5, 0.8: 0.8, 0.95: 0.95}


def test_expected_coverage_of_counts_includes_the_ends():
    """80 % intervals of a Poisson distribution with mean 3, from 1 to 5, hold 87 %."""
    counts = monthly(np.random.default_rng(0).poisson(3.0, 150))
    f = bk.forecast(counts, 2, season=0, trend="drift", likelihood="poisson")
    closed = stats.poisson(3.0).cdf(5) - stats.poisson(3.0).cdf(0)
    assert f.past_scores.expected[0.8] == pytest.approx(closed, abs=0.02)


def test_scores_of_constant_past_are_finite():
    values = np.append(np.full(30, 2.0), [2.0, 3.0, 2.5, 4.0, 3.0, 2.0])
    back = bk.forecast(values, 2, trend="drift", model=bk.StructuralModel(log=False)).past_scores
    assert np.all(np.isfinite(back.ours.errors)) and np.all(np.isfinite(back.naive.crps))


# -- the scores ------------------------------------------------------------------------------------


def made(inside, known=None, error=1.0, naive=2.0, steps=6):
    inside = np.asarray(inside, bool)
    n = len(inside)
    known = 10 + np.arange(n) // steps if known is None else known
    levels = {level: inside for level in COVERAGES}
    ours, theirs = (Scores(np.full(n, e), np.full(n, e), levels) for e in (error, naive))
    expected = dict(zip(COVERAGES, COVERAGES, strict=True))
    return RollingOriginScores(steps, 1.0, ours, theirs, known, np.arange(n), False, expected)


def test_coverage_error_of_independent_values_is_binomial():
    inside = np.arange(400) % 5 != 0
    back = made(inside, known=np.arange(400))
    assert back.coverage(0.8) == 0.8
    np.testing.assert_allclose(back.coverage_error(0.8), np.sqrt(0.8 * 0.2 / 400), rtol=0.01)


def test_coverage_error_of_equal_values_within_origins():
    known = np.repeat(np.arange(40), 10)
    back = made(known % 5 != 0, known=known)
    np.testing.assert_allclose(back.coverage_error(0.8), np.sqrt(0.8 * 0.2 / 39), rtol=0.01)


def test_scores_of_a_standard_normal():
    """Gneiting and Raftery (2007), equation 21."""
    y = np.array([0.0, 1.3])
    found = score(np.repeat(stats.norm.ppf(SCORED_PROBABILITIES)[:, None], 2, axis=1), y)
    expected = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(found.crps, expected, rtol=0.005)
    np.testing.assert_allclose(found.errors, y, atol=1e-12)
    assert [inside.tolist() for inside in found.inside.values()] == [
        [True, False],
        [True, False],
        [True, True],
    ]


def test_ratio_to_rounding_error_is_nan():
    back = made([True] * 12, error=1e-9, naive=1e-12)
    assert np.isnan(back.error_ratio)
    assert "not comparable with seasonal naive" in str(back)


def test_summary_sentence():
    assert str(made([True] * 4 + [False])) == (
        "80 % intervals held 80 % of 5 past values (give or take 20 %); error 50 % below seasonal "
        "naive"
    )
    assert compared(304.9) == "300 times that of" and compared(2.0) == "2 times that of"
    assert compared(1.004) == "equal to that of" and compared(1e-4) == "99 % below"
    assert compared(1.31) == "31 % above" and compared(np.nan) == "not comparable with"


@pytest.mark.slow
def test_past_coverage_estimates_true_coverage():
    """Coverage before the end against coverage after the end, for seasonal random walks."""
    rng, values = np.random.default_rng(3), []
    hits, shares, errors = [], [], []
    for _ in range(24):
        steps, noise = rng.standard_normal((2, 96 + HORIZON))
        walk = np.cumsum(0.3 * steps) + noise
        values = walk + 2.0 * np.sin(2 * np.pi * np.arange(len(walk)) / 12)
        f = bk.forecast(values[:96], HORIZON, season=12, model=bk.StructuralModel(log=False))
        lower, upper = f.interval(0.8)
        hits.append(np.mean((lower <= values[96:]) & (values[96:] <= upper)))
        shares.append(f.past_scores.coverage(0.8))
        errors.append(f.past_scores.coverage_error(0.8))
    true, error = np.mean(hits), np.std(hits) / np.sqrt(len(hits))
    off = (np.array(shares) - true) / np.hypot(errors, error)
    # Within two of their errors in 95 % of all series.
    assert np.mean(np.abs(off) < 2.0) > 0.85
    spread = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - true) < 2.5 * np.hypot(error, spread)


# -- the verdict -----------------------------------------------------------------------------------


def test_unusable_numbers_are_bad():
    trust = assess_forecast("They are not finite.", made(np.arange(40) % 5 != 0), HORIZON, np.nan)
    assert trust.verdict == "bad" and trust.advice.endswith("They are not finite.")
    assert assess_forecast("They are not finite.", None, HORIZON, np.nan).verdict == "bad"


def test_first_line_has_the_verdict(f):
    assert str(f.past_scores) in f.trust.advice
    assert str(f.past_scores) in " ".join(bk.summary(f).split())
