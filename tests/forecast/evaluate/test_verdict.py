"""Verdicts on both sides of each limit, for artificial past forecasts."""

from dataclasses import replace

import numpy as np
import pytest

from bayeskern.forecast.evaluate.rolling_origin import RollingOriginScores
from bayeskern.forecast.evaluate.scores import COVERAGES, Scores
from bayeskern.forecast.evaluate.verdict import assess_forecast

HORIZON = 6
# Correlation of the values of one origin that the error of the coverage allows for.
CORRELATION = 0.5


def past(
    held=None,
    origins=10,
    per_origin=6,
    error=1.0,
    naive=2.0,
    crps=None,
    steps=6,
    shared=False,
    adapted=False,
    expected=None,
):
    """Past forecasts; `held` maps a level to the number of covered values of each origin.

    shared: whether all origins forecast the same values. adapted: whether the width follows past
    errors. expected: expected coverage by level.
    """
    n = origins * per_origin
    counts = dict.fromkeys(COVERAGES, 0) | {0.5: per_origin // 2} | (held or {})
    inside = {c: np.arange(n) % per_origin < counts[c] for c in COVERAGES}
    crps = error if crps is None else crps
    ours = Scores(np.full(n, error), np.full(n, crps), inside)
    theirs = Scores(np.full(n, naive), np.full(n, naive), inside)
    known = 20 + np.repeat(np.arange(origins), per_origin)
    place = 40 + np.arange(n) % (per_origin if shared else n)
    expected = dict(zip(COVERAGES, COVERAGES, strict=True)) | (expected or {})
    return RollingOriginScores(steps, 3.0, ours, theirs, known, place, adapted, expected)


def verdict_of(*args, horizon=HORIZON, chance=0.9, **options):
    return assess_forecast(None, past(*args, **options), horizon, chance)


# 80 and 95 % of 20 values of each origin.
RIGHT = {"held": {0.8: 16, 0.95: 19}, "per_origin": 20, "origins": 12}


def test_nominal_coverage_is_good():
    trust = verdict_of(**RIGHT)
    assert trust.verdict == "good"
    assert trust.advice == (
        "80 % intervals held 80 % of 240 past values (give or take 8 %); error 50 % below seasonal "
        "naive. In the next 6 steps, the chance of a smaller error than seasonal naive is 90 % "
        "(good from 70 % on)."
    )
    evidence = trust.evidence
    assert evidence["past_values"] == 240 and evidence["past_origins"] == 12
    assert evidence["error_ratio"] == evidence["crps_ratio"] == 0.5
    assert evidence["coverage_80"] == 0.8 and evidence["coverage_95"] == 0.95


@pytest.mark.parametrize(
    ("level", "count", "verdict", "says"),
    [
        (0.8, 20, "caution", "80 % intervals held 100 %: the intervals may be too wide"),
        (0.8, 17, "good", "80 % intervals held 85 %"),
        (0.8, 15, "good", "80 % intervals held 75 %"),
        (0.8, 10, "caution", "80 % intervals held 50 %: expect more values outside"),
        (0.8, 4, "bad", "The intervals are much too narrow"),
        (0.95, 20, "good", "80 % intervals held 80 %"),
        (0.95, 18, "good", "80 % intervals held 80 %"),
        (0.95, 14, "caution", "95 % intervals held 70 %: expect more values outside"),
    ],
)
def test_verdict_by_coverage(level, count, verdict, says):
    options = RIGHT | {"held": RIGHT["held"] | {level: count}}
    trust = verdict_of(**options)
    assert trust.verdict == verdict and says in trust.advice


@pytest.mark.parametrize(
    ("count", "verdict", "says"),
    [
        (18, "good", "held 90 % of 240 past values (85 % expected, give or take 6 %)"),
        (20, "caution", "80 % intervals held 100 %: the intervals may be too wide"),
        (11, "caution", "80 % intervals held 55 %: expect more values outside"),
    ],
)
def test_coverage_is_compared_with_the_expected_one(count, verdict, says):
    options = RIGHT | {"held": RIGHT["held"] | {0.8: count}, "origins": 12}
    trust = verdict_of(**options, expected={0.8: 0.85})
    assert trust.verdict == verdict and says in trust.advice
    assert trust.evidence["coverage_80_expected"] == 0.85


def test_tolerance_includes_two_standard_errors():
    """Equal coverage of fewer values is weaker evidence."""
    many, few = (past({0.8: k * 6, 0.95: k * 9}, origins=4 * k, per_origin=10 * k) for k in (8, 1))
    assert many.coverage(0.8) == few.coverage(0.8) == 0.6
    off = 0.8 - 0.6
    assert 2.0 * many.coverage_error(0.8) + 0.05 < off < 2.0 * few.coverage_error(0.8) + 0.05
    assert assess_forecast(None, many, HORIZON, np.nan).verdict == "caution"
    assert assess_forecast(None, few, HORIZON, np.nan).verdict == "good"


@pytest.mark.parametrize("count", [10, 20])
def test_coverage_says_nothing_if_the_width_follows_past_errors(count):
    """On series left out of the learning, it did not predict the coverage of the next window."""
    options = RIGHT | {"held": RIGHT["held"] | {0.8: count}}
    assert verdict_of(**options, adapted=True).verdict == "good"
    assert verdict_of(**options, adapted=False).verdict == "caution"
    assert verdict_of(**(options | {"held": {0.8: 4}}), adapted=True).verdict == "bad"


@pytest.mark.parametrize(
    ("chance", "verdict", "says"),
    [
        (0.71, "good", "chance of a smaller error than seasonal naive is 71 %"),
        (0.69, "caution", "Repeating the last season may do as well"),
        (0.4, "caution", "Repeating the last season may do as well"),
        (np.nan, "good", "error 50 % below seasonal naive."),
    ],
)
def test_verdict_by_chance_against_seasonal_naive(chance, verdict, says):
    trust = verdict_of(**RIGHT, chance=chance)
    assert trust.verdict == verdict and says in trust.advice
    np.testing.assert_equal(trust.evidence["chance_below_naive"], chance)


@pytest.mark.parametrize(
    ("error", "crps", "verdict"), [(2.58, 2.1, "good"), (2.62, 2.1, "bad"), (2.62, 1.9, "good")]
)
def test_much_larger_errors_are_bad(error, crps, verdict):
    """Unless the distribution is no worse."""
    trust = verdict_of(**RIGHT, error=error, crps=crps)
    assert trust.verdict == verdict
    says = "Repeating the last season had a much smaller error"
    assert (says in trust.advice) == (verdict == "bad")


@pytest.mark.parametrize(
    ("origins", "per_origin", "verdict"),
    [(4, 5, "good"), (3, 20, "caution"), (9, 1, "caution"), (10, 1, "good")],
)
def test_few_origins_or_values_are_caution(origins, per_origin, verdict):
    held = {0.8: round(0.8 * per_origin), 0.95: per_origin}
    trust = verdict_of(held, origins, per_origin)
    assert trust.verdict == verdict
    assert ("Past values or origins are too few" in trust.advice) == (verdict == "caution")


@pytest.mark.parametrize(("steps", "verdict"), [(6, "good"), (4, "good"), (3, "caution")])
def test_long_horizon_is_caution(steps, verdict):
    trust = verdict_of(**RIGHT, steps=steps, horizon=12)
    assert trust.verdict == verdict
    assert ("Only 3 of the 12 steps could be checked" in trust.advice) == (verdict == "caution")


def test_narrow_intervals_are_named_before_large_errors():
    """Narrow intervals, then the error, then the number of values."""
    options = {"held": {0.8: 10, 0.95: 19}, "per_origin": 20, "origins": 12, "chance": 0.6}
    assert "expect more values outside" in verdict_of(**options).advice
    assert "may do as well" in verdict_of(**(options | {"held": RIGHT["held"]})).advice


def test_too_short_series_is_not_assessed():
    trust = assess_forecast(None, None, HORIZON, np.nan)
    assert trust.verdict == "not assessable" and "too short" in trust.advice


# -- the standard error of the coverage ------------------------------------------------------------


def least_error(hits, total, count, origins):
    """Binomial error of Agresti and Coull (1998), with correlation 0.5 within origins.

    hits, total: of all forecasts; count: of different values.
    """
    share = (hits + 2.0) / (total + 4.0)
    effective = count / (1.0 + CORRELATION * (count / origins - 1.0))
    return np.sqrt(share * (1.0 - share) / (effective + 4.0))


@pytest.mark.parametrize(
    ("origins", "shared", "count"), [(5, False, 50), (1, False, 10), (5, True, 10)]
)
def test_coverage_error_of_equal_origins_is_binomial(origins, shared, count):
    back = past({0.8: 8}, origins, 10, shared=shared)
    assert back.coverage(0.8) == 0.8 and back.count == count
    expected = least_error(8 * origins, 10 * origins, count, origins)
    assert back.coverage_error(0.8) == pytest.approx(expected, rel=1e-12)


def test_coverage_error_of_unequal_origins():
    back = past({0.8: 8}, origins=40, per_origin=10)
    inside = np.repeat(np.arange(40) % 4 != 0, 10)
    ours = back.ours._replace(inside=dict.fromkeys(COVERAGES, inside))
    differing = replace(back, ours=ours)
    # The standard error of the mean of 40 shares that are 0 or 1.
    shares = np.arange(40) % 4 != 0
    expected = np.std(shares, ddof=1) / np.sqrt(40)
    assert differing.coverage_error(0.8) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_coverage_error_matches_scatter():
    """Sds over simulated series with the assumed correlation within origins."""
    rng, shares, errors = np.random.default_rng(0), [], []
    for _ in range(500):
        back = past(origins=8, per_origin=6)
        # Each value repeats the first draw of its origin with the root of the correlation.
        common = np.repeat(rng.random(8) < 0.8, 6)
        own = rng.random(48) < 0.8
        inside = np.where(rng.random(48) < np.sqrt(CORRELATION), common, own)
        ours = back.ours._replace(inside=dict.fromkeys(COVERAGES, inside))
        one = replace(back, ours=ours)
        shares.append(one.coverage(0.8))
        errors.append(one.coverage_error(0.8))
    assert 0.8 < np.mean(errors) / np.std(shares) < 1.4
