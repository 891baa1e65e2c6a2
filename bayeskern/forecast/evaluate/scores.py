"""Scores of quantiles that were forecast, by what came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

COVERAGES = (0.5, 0.8, 0.95)
# Mid-points of equal slices of probability, for the CRPS as twice the mean quantile loss.
PROBABILITIES = (np.arange(200) + 0.5) / 200
# All probabilities whose quantiles are scored: those of the CRPS, the median, the lower and the
# upper ends of the intervals.
WANTED = np.concatenate(
    [PROBABILITIES, [0.5], *([(1.0 + side * c) / 2.0 for c in COVERAGES] for side in (-1, 1))]
)


class Scores(NamedTuple):
    """Scores of m values: their errors y - median, CRPS, and level -> whether they lay inside."""

    errors: np.ndarray
    crps: np.ndarray
    inside: dict[float, np.ndarray]


def score(quantiles: np.ndarray, y: np.ndarray) -> Scores:
    """The scores of values y (m,), from the quantiles at WANTED (len(WANTED), m).

    The CRPS is twice the mean quantile loss: Gneiting and Ranjan (2011), "Comparing density
    forecasts using threshold- and quantile-weighted scoring rules", equation 13.
    """
    ends = np.cumsum([len(PROBABILITIES), 1, len(COVERAGES)])
    grid, (median,), lower, upper = np.split(quantiles, ends)
    loss = (y - grid) * (PROBABILITIES[:, None] - (y < grid))
    inside = (lower <= y) & (y <= upper)
    return Scores(y - median, 2.0 * loss.mean(axis=0), dict(zip(COVERAGES, inside, strict=True)))


def joined(scores: Sequence[Scores]) -> Scores:
    """The scores of all values together."""
    errors, crps, inside = zip(*scores, strict=True)
    by_level = {c: np.concatenate([one[c] for one in inside]) for c in COVERAGES}
    return Scores(np.concatenate(errors), np.concatenate(crps), by_level)
