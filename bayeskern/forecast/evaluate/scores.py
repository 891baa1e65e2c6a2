"""Scores of predictive quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

COVERAGES = (0.5, 0.8, 0.95)
# Midpoints of 200 equal intervals of probability, for the integral of the quantile loss.
CRPS_PROBABILITIES = (np.arange(200) + 0.5) / 200
# Probabilities of the quantiles passed to `score`, in this order: CRPS grid, median, lower ends and
# upper ends of the intervals.
SCORED_PROBABILITIES = np.concatenate(
    [CRPS_PROBABILITIES, [0.5], *([(1.0 + side * c) / 2.0 for c in COVERAGES] for side in (-1, 1))]
)


class Scores(NamedTuple):
    """Scores of m values.

    Attributes:
        errors: Value minus median, (m,).
        crps: Continuous ranked probability scores, (m,).
        inside: Level -> mask of the values inside the central interval, (m,).
    """

    errors: np.ndarray
    crps: np.ndarray
    inside: dict[float, np.ndarray]

    @property
    def means(self) -> dict[str, float]:
        """Mean scores by name: mae, rmse, crps, and the coverage at each level."""
        return {
            "mae": float(np.mean(np.abs(self.errors))),
            "rmse": float(np.sqrt(np.mean(np.square(self.errors)))),
            "crps": float(np.mean(self.crps)),
            **{f"coverage_{100 * c:g}": float(np.mean(v)) for c, v in self.inside.items()},
        }


def score(quantiles: np.ndarray, y: np.ndarray) -> Scores:
    """Score y (m,) by predictive quantiles at `SCORED_PROBABILITIES`, a row each.

    The CRPS is twice the mean quantile loss: Gneiting and Ranjan (2011), "Comparing density
    forecasts using threshold- and quantile-weighted scoring rules", equation 13.
    """
    grid, (median,), lower, upper = _split(quantiles)
    loss = (y - grid) * (CRPS_PROBABILITIES[:, None] - (y < grid))
    inside = (lower <= y) & (y <= upper)
    return Scores(y - median, 2.0 * loss.mean(axis=0), dict(zip(COVERAGES, inside, strict=True)))


def expected_coverage(quantiles: np.ndarray, of_values: np.ndarray) -> dict[float, float]:
    """Mean probability of values inside central intervals, by level.

    Args:
        quantiles: Predictive quantiles at `SCORED_PROBABILITIES`, which contain the intervals.
        of_values: Quantiles of the values at the same probabilities.
    """
    values, _, _, _ = _split(of_values)
    _, _, lower, upper = _split(quantiles)
    shares = [np.mean((a <= values) & (values <= b)) for a, b in zip(lower, upper, strict=True)]
    return dict(zip(COVERAGES, map(float, shares), strict=True))


def _split(quantiles: np.ndarray) -> list[np.ndarray]:
    """CRPS grid, median, lower ends and upper ends, at `SCORED_PROBABILITIES`."""
    return np.split(quantiles, np.cumsum([len(CRPS_PROBABILITIES), 1, len(COVERAGES)]))


def joined(scores: Sequence[Scores]) -> Scores:
    """Concatenate scores of several sets of values."""
    errors, crps, inside = zip(*scores, strict=True)
    by_level = {c: np.concatenate([masks[c] for masks in inside]) for c in COVERAGES}
    return Scores(np.concatenate(errors), np.concatenate(crps), by_level)


def rows_of_means(table: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """Head and rows of a table of mean scores by model, as text."""
    rows = [("", *next(iter(table.values())))]
    for model, means in table.items():
        texts = (
            f"{100.0 * mean:.0f} %" if name.startswith("coverage") else f"{mean:.4g}"
            for name, mean in means.items()
        )
        rows.append((model, *texts))
    return rows
