"""The verdict on a forecast: what its fit and its own past say of its intervals."""

from __future__ import annotations

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.evaluate.look_back import LookBack, compared
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.inference.verdict import Trust

# The share of past values that 80 % intervals must have held, beyond doubt, not to be bad.
HOPELESS = 0.65
# By how much the coverage may be off, beyond twice its standard error, in a good forecast.
OFF = 0.05
# From this error over that of the seasonal-naive forecast on, its point is better left alone.
LOSES = 1.1
# Fewer past values than this say little.
FEW = 10
# With fewer effective draws than this one of them decides.
FEWEST_DRAWS = 2.0


def assess_forecast(
    problem: str | None, draws: float, back: LookBack | None, horizon: int, whole: bool = False
) -> Trust:
    """The verdict on a forecast.

    problem: what is wrong with the fit, if anything is; draws: how many effective draws of the
    hyperparameters it rests on; back: None where nothing could be looked back at; whole: whether
    the ends of intervals are whole numbers, which then hold more than they say.
    """
    if back is None:
        if problem:
            return Trust("bad", problem)
        advice = (
            "The series is too short to look back: nothing in it shows how far the intervals hold. "
            "A longer history would."
        )
        return Trust("not assessable", advice)
    evidence = {
        "effective_draws": draws,
        "past_values": back.count,
        "past_origins_failed": back.failed,
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
    share, error = back.coverage(0.8), back.coverage_error(0.8)
    if share + 2.0 * error < HOPELESS:
        advice = (
            "The intervals are much too narrow for how the series behaves: take a shorter horizon, "
            "a longer history, or the part of it since it last changed its ways."
        )
        return Trust("bad", f"{said} {advice}", evidence)
    doubts = [*_doubts(draws, back, horizon)]
    if doubts:
        return Trust("caution", f"{said} {doubts[0]}", evidence)
    if not whole and back.coverage(0.8) - 0.8 > OFF + 2.0 * back.coverage_error(0.8):
        said += " The intervals were wider than need be."
    return Trust("good", said, evidence)


def _doubts(draws: float, back: LookBack, horizon: int):
    """What keeps a forecast from being good, the weightiest first."""
    if back.failed:
        yield (
            f"From {counted(back.failed, 'more past date')} no forecast could be made: no "
            "structure fits what was known then."
        )
    for level in (0.8, 0.95):
        off = back.coverage(level) - level
        if off < -OFF - 2.0 * back.coverage_error(level):
            held = f"{100 * level:.0f} % intervals held only {100 * back.coverage(level):.0f} %"
            yield f"{held}: expect more surprises than they promise, or take a shorter horizon."
    if np.isfinite(back.error_ratio) and back.error_ratio > LOSES:
        yield (
            f"Repeating the last season had the smaller error: this one is "
            f"{compared(back.error_ratio)} it. Another season or a longer history may help."
        )
    if draws < FEWEST_DRAWS:
        yield (
            f"It rests on {counted(f'{draws:.1f}', 'effective draw')} of the hyperparameters, so "
            "that its width is uncertain: take another trend, or method='nuts'."
        )
    if back.count < FEW:
        yield "So few past values say little: a longer history would tell more."
    if back.steps < horizon // 3:
        yield (
            f"Only {back.steps} of the {horizon} steps could be looked back at: trust the later "
            "ones less, or take a shorter horizon."
        )
