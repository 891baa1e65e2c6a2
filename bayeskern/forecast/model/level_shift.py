"""Detection of a single level shift far beyond the other movements of a series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


@dataclass(frozen=True)
class LevelShiftOptions:
    """Options of the detection of an exceptional level shift.

    Attributes:
        window: Number of values before and after a time whose medians are compared.
        min_ratio: Smallest ratio of the largest shift to the typical one.
    """

    window: int = 5
    min_ratio: float = 60.0


def level_shift(y: np.ndarray, options: LevelShiftOptions = LevelShiftOptions()) -> int | None:
    """Index of the first value after an exceptional level shift; None without one.

    The shift at a time is the absolute difference of the medians of the values before and after it.
    The typical shift is the larger of the median shift and the median difference of neighbours. If
    both are zero, it is the mean difference of neighbours away from the largest shift.

    Args:
        y: Values, (n,).
        options: Window and limit.
    """
    window = options.window
    if len(y) <= 2 * window:
        return None
    medians = np.median(sliding_window_view(y, window), axis=1)
    shifts = np.abs(medians[window:] - medians[:-window])
    steps = np.abs(np.diff(y))
    start = int(np.argmax(shifts))
    around = slice(start, start + 2 * window - 1)
    typical = max(np.median(shifts), np.median(steps)) or np.mean(np.delete(steps, around))
    if shifts[start] <= options.min_ratio * typical:
        return None
    return start + int(np.argmax(steps[around])) + 1
