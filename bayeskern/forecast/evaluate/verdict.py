"""Verdict on a forecast, from past forecasts of its series and of other series."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.evaluate.rolling_origin import RollingOriginScores
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.inference.verdict import Trust

# Chance of a smaller error than seasonal naive in a good forecast.
MIN_GOOD_CHANCE = 0.7


def assess_forecast(
    problem: str | None,
    past: RollingOriginScores | None,
    horizon: int,
    chance: float,
) -> Trust:
    """Verdict on a forecast.

    good: the forecast will probably have a smaller error than seasonal naive, and there are enough
    past forecasts; intervals whose width does not follow past errors had the expected coverage,
    within its error. bad: beyond `MIN_COVERAGE_80` or `MAX_ERROR_RATIO`, or the fit is not usable.
    caution: between the two, with advice.

    Args:
        problem: Reason not to use the fit or its predictions; None if there is none.
        past: Scores of the forecasts from earlier origins; None if there are none.
        horizon: Number of steps of the forecast.
        chance: Probability of a smaller error than seasonal naive; NaN if it is unknown.
    """
    if past is None:
        if problem:
            return Trust("bad", problem)
        advice = (
            "The series is too short for forecasts from earlier dates, so the coverage of the "
            "intervals cannot be checked. Give a longer history."
        )
        return Trust("not assessable", advice)
    evidence = {
        "past_values": past.count,
        "past_origins": len(past.origins),
        "past_steps": past.steps,
        "error_ratio": past.error_ratio,
        "crps_ratio": past.crps_ratio,
        "chance_below_naive": chance,
    }
    for level in COVERAGES:
        name = f"coverage_{100 * level:.0f}"
        evidence[name], evidence[f"{name}_error"] = past.coverage(level), past.coverage_error(level)
        evidence[f"{name}_expected"] = past.expected[level]
    summary = f"{past}."
    if np.isfinite(chance):
        steps = "step" if horizon == 1 else counted(horizon, "step")
        summary += (
            f" In the next {steps}, the chance of a smaller error than seasonal naive is "
            f"{100 * chance:.0f} % (good from {100 * MIN_GOOD_CHANCE:.0f} % on)."
        )
    failure = problem or next(_failures(past), None)
    if failure:
        return Trust("bad", f"{summary} {failure}", evidence)
    doubt = next(_doubts(past, horizon, chance), None)
    if doubt:
        return Trust("caution", f"{summary} {doubt}", evidence)
    return Trust("good", summary, evidence)


# Coverage of 80 % intervals, plus two standard errors, below which a forecast is bad.
MIN_COVERAGE_80 = 0.5
# Error of past forecasts relative to seasonal naive above which a forecast is bad, if its CRPS is
# larger as well.
MAX_ERROR_RATIO = 1.3


def _failures(past: RollingOriginScores) -> Iterator[str]:
    """Reasons for a bad verdict, with advice."""
    if past.coverage(0.8) + 2.0 * past.coverage_error(0.8) < MIN_COVERAGE_80:
        yield (
            "The intervals are much too narrow: use a shorter horizon, or only the values since "
            "the last change in the behaviour of the series (last=)."
        )
    if past.error_ratio > MAX_ERROR_RATIO and past.crps_ratio > 1.0:
        yield (
            "Repeating the last season had a much smaller error: use seasonal naive, or give "
            "another season= or last=."
        )


# Largest deviation of the coverage from the expected one, beyond two standard errors, in a good
# forecast, if the width of the intervals does not follow past errors.
COVERAGE_TOL = 0.05
# Smallest numbers of past values and past origins for a good verdict.
MIN_PAST_VALUES, MIN_PAST_ORIGINS = 10, 4


def _doubts(past: RollingOriginScores, horizon: int, chance: float) -> Iterator[str]:
    """Reasons against a good verdict, the most important first."""
    for level in () if past.is_adapted else (0.8, 0.95):
        deviation = past.coverage(level) - past.expected[level]
        tolerance = COVERAGE_TOL + 2.0 * past.coverage_error(level)
        held = f"{100 * level:.0f} % intervals held {100 * past.coverage(level):.0f} %"
        if deviation < -tolerance:
            yield (
                f"{held}: expect more values outside than the level says, or use a shorter horizon."
            )
        if deviation > tolerance:
            yield (
                f"{held}: the intervals may be too wide. Use a lower level if their width matters."
            )
    if chance < MIN_GOOD_CHANCE:
        yield (
            "Repeating the last season may do as well: rely on the intervals rather than on the "
            "median. Regressors or another season= may help."
        )
    if past.count < MIN_PAST_VALUES or len(past.origins) < MIN_PAST_ORIGINS:
        yield "Past values or origins are too few for a firm verdict: give a longer history."
    if past.steps < horizon // 3:
        yield (
            f"Only {past.steps} of the {horizon} steps could be checked on past values: trust the "
            "later steps less, or use a shorter horizon."
        )
