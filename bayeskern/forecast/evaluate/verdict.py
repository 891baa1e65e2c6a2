"""The verdict on a forecast: what its own past says of its intervals and of its error."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.forecast.evaluate.look_back import LookBack, compared
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.inference.verdict import Trust

# By how much the coverage may be off, beyond twice its standard error, in a good forecast, and the
# coverage of 80 % intervals that is bad, beyond twice its standard error.
TOLERANCE, BAD_COVERAGE = 0.05, 0.5
# The error over that of seasonal naive, at which a forecast is no better, and much worse.
NO_BETTER, MUCH_WORSE = 1.0, 1.3
# Fewer past values, and fewer origins, say little.
MIN_VALUES, MIN_ORIGINS = 10, 4


def assess_forecast(
    problem: str | None, back: LookBack | None, horizon: int, whole: bool = False
) -> Trust:
    """The verdict on a forecast.

    good: its past intervals held what they promised, within error, and its past error was below
    that of repeating the last season. bad: much worse than that, or numbers that cannot be trusted.
    caution: anything between, with what to do.

    Args:
        problem: What is wrong with the numbers, if anything is.
        back: The forecasts from earlier origins; None where there are none.
        horizon: The number of steps that are forecast.
        whole: Whether ends of intervals have a probability of their own, as whole numbers and
            bounds have. Such intervals hold more than they say.
    """
    if back is None:
        if problem:
            return Trust("bad", problem)
        advice = (
            "The series is too short for forecasts from earlier dates: nothing in it shows how far "
            "the intervals hold. A longer history would."
        )
        return Trust("not assessable", advice)
    evidence = {
        "past_values": back.count,
        "past_origins": len(back.origins),
        "past_steps": back.steps,
        "error_ratio": back.error_ratio,
        "crps_ratio": back.crps_ratio,
    }
    for level in COVERAGES:
        name = f"coverage_{100 * level:.0f}"
        evidence[name], evidence[f"{name}_error"] = back.coverage(level), back.coverage_error(level)
    said = f"{back}."
    if problem:
        return Trust("bad", f"{said} {problem}", evidence)
    for found in _failures(back):
        return Trust("bad", f"{said} {found}", evidence)
    for found in _doubts(back, horizon, whole):
        return Trust("caution", f"{said} {found}", evidence)
    return Trust("good", said, evidence)


def _failures(back: LookBack) -> Iterator[str]:
    """What makes a forecast bad."""
    if back.coverage(0.8) + 2.0 * back.coverage_error(0.8) < BAD_COVERAGE:
        yield (
            "The intervals are much too narrow for how the series behaves: take a shorter horizon, "
            "or only the part of it since it last changed its ways (last=)."
        )
    if back.error_ratio > MUCH_WORSE and back.crps_ratio > 1.0:
        yield (
            f"Repeating the last season had a much smaller error: this one was "
            f"{compared(back.error_ratio)} it. Use that, or give another season= or last=."
        )


def _doubts(back: LookBack, horizon: int, whole: bool) -> Iterator[str]:
    """What keeps a forecast from being good, the weightiest first."""
    for level in (0.8, 0.95):
        off, error = back.coverage(level) - level, back.coverage_error(level)
        held = f"{100 * level:.0f} % intervals held {100 * back.coverage(level):.0f} %"
        if off < -TOLERANCE - 2.0 * error:
            yield f"{held}: expect more surprises than they promise, or take a shorter horizon."
        if off > TOLERANCE + 2.0 * error and not whole:
            yield f"{held}: they are wider than need be. Use lower levels for tight decisions."
    if np.isfinite(back.error_ratio) and back.error_ratio >= NO_BETTER:
        yield (
            "Repeating the last season did as well: use the intervals, and do not read much into "
            "the course of the median. Regressors or another season= may help."
        )
    if back.count < MIN_VALUES or len(back.origins) < MIN_ORIGINS:
        yield "So few past values say little: a longer history would tell more."
    if back.steps < horizon // 3:
        yield (
            f"Only {back.steps} of the {horizon} steps have a past to compare with: trust the "
            "later ones less, or take a shorter horizon."
        )
