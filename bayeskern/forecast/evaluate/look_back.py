"""Scores of the forecasts from earlier origins of a series, beside the seasonal-naive ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.combine.stacking import Combination
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.evaluate.scores import WANTED, Scores, joined, score
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive

# The correlation of hits and misses of one origin that is reckoned with.
CORRELATION = 0.5
# A naive error below this share of the spread of the series is rounding, and no measure.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LookBack:
    """Forecasts from past origins, scored: N values in all.

    Attributes:
        steps: How many steps ahead they went, at most.
        spread: The standard deviation of the series.
        ours: The scores of the forecasts, (N,) each.
        naive: The scores of the seasonal-naive forecasts, (N,) each.
        known: How many values the forecast of each value knew, (N,).
        place: The place of each value in the series, (N,): origins may share values.
    """

    steps: int
    spread: float
    ours: Scores
    naive: Scores
    known: np.ndarray
    place: np.ndarray

    @property
    def origins(self) -> list[int]:
        """How many values each origin knew."""
        return np.unique(self.known).tolist()

    @property
    def count(self) -> int:
        """How many different values there were to compare with."""
        return len(np.unique(self.place))

    def coverage(self, level: float) -> float:
        """The share of the values that the central intervals of this level held."""
        return float(np.mean(self.ours.inside[level]))

    def coverage_error(self, level: float) -> float:
        """The standard error of the coverage.

        Values of one origin hit and miss together, so that the shares of the origins are compared.
        It is never less than the binomial error (Agresti and Coull, 1998) of values that are half
        correlated with the others of their origin, since a few origins may agree by chance.
        """
        hits, groups = self.ours.inside[level], self.origins
        share = (hits.sum() + 2.0) / (len(hits) + 4.0)
        effective = self.count / (1.0 + CORRELATION * max(0.0, self.count / len(groups) - 1.0))
        least = np.sqrt(share * (1.0 - share) / (effective + 4.0))
        if len(groups) < 2:
            return float(least)
        off = [np.sum(hits[self.known == g] - self.coverage(level)) for g in groups]
        spread = np.sqrt(np.sum(np.square(off)) * len(groups) / (len(groups) - 1.0)) / len(hits)
        return float(max(least, spread))

    @property
    def error_ratio(self) -> float:
        """The mean absolute error over that of the seasonal-naive forecast."""
        return self._ratio(np.abs(self.ours.errors), np.abs(self.naive.errors))

    @property
    def crps_ratio(self) -> float:
        """The CRPS over that of the seasonal-naive forecast."""
        return self._ratio(self.ours.crps, self.naive.crps)

    def _ratio(self, ours, naive) -> float:
        """The mean of one over that of the other; NaN where the other is mere rounding."""
        reference = np.mean(naive)
        return float(np.mean(ours) / reference) if reference > ROUNDING * self.spread else np.nan

    def __str__(self) -> str:
        values = counted(self.count, "past value")
        held = f"80 % intervals held {100 * self.coverage(0.8):.0f} % of {values}"
        return f"{held}; error {compared(self.error_ratio)} seasonal naive"


def compared(ratio: float) -> str:
    """A ratio to another error in words: "31 % below"."""
    if not np.isfinite(ratio):
        return "not comparable with"
    percent = 100.0 * (ratio - 1.0)
    return f"{abs(percent):.0f} % {'below' if percent < 0 else 'above'}"


def look_back(series: Series, combination: Combination, season: int) -> LookBack | None:
    """Score the forecasts of a combination from earlier origins; None where there are none.

    season: of the seasonal-naive forecast, in steps.
    """
    if combination.past is None:
        return None
    y, on_grid = series.values[series.observed], series.on_grid()
    steps, place = series.calendar.steps()[series.observed], combination.past_places
    errors = combination.errors(np.arange(combination.reach))
    past = combination.past.with_errors(errors.at(combination.past_steps))
    naive = []
    for origin in combination.origins:
        before = on_grid[: steps[origin.count - 1] + 1]
        ahead = int(origin.steps[-1]) + 1
        theirs = SeasonalNaive.of(before, ahead, min(season, len(before) - 1))
        naive.append(score(theirs.quantile(WANTED)[:, origin.steps], y[origin.ahead]))
    known = [np.full(len(origin.steps), origin.count) for origin in combination.origins]
    return LookBack(
        combination.reach,
        float(np.std(y)),
        score(past.quantile(WANTED), y[place]),
        joined(naive),
        np.concatenate(known),
        place,
    )
