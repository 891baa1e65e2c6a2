"""Detection of a single level shift far beyond the other movements of a series."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# Number of values before and after a time whose medians are compared.
SHIFT_WINDOW = 5
# Smallest ratio of the largest shift to the typical one.
MIN_SHIFT_RATIO = 60.0


def level_shift(y: np.ndarray) -> int | None:
    """Index of the first value after an exceptional level shift; None without one.

    The shift at a time is the absolute difference of the medians of the values before and after it.
    The typical shift is the larger of the median shift and the median difference of neighbours. If
    both are zero, it is the mean difference of neighbours away from the largest shift.

    Args:
        y: Values, (n,).
    """
    if len(y) <= 2 * SHIFT_WINDOW:
        return None
    medians = np.median(sliding_window_view(y, SHIFT_WINDOW), axis=1)
    shifts = np.abs(medians[SHIFT_WINDOW:] - medians[:-SHIFT_WINDOW])
    steps = np.abs(np.diff(y))
    start = int(np.argmax(shifts))
    around = slice(start, start + 2 * SHIFT_WINDOW - 1)
    typical = max(np.median(shifts), np.median(steps)) or np.mean(np.delete(steps, around))
    if shifts[start] <= MIN_SHIFT_RATIO * typical:
        return None
    return start + int(np.argmax(steps[around])) + 1
