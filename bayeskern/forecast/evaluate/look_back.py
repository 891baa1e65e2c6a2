"""The look back: forecasts from the last origins of the series itself, and what came true.

It is the rolling forecasting origin of Hyndman and Athanasopoulos (2021), "Forecasting: principles
and practice", section 5.10, with the structures and the hyperparameters learnt anew at each origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.average import Part, weigh
from bayeskern.forecast.combine.mixture import Mixture, mixture_over
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.evaluate.scores import WANTED, Scores, joined, score
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.structure import Choices
from bayeskern.forecast.model.transformation import is_constant

# The most origins, and those that the horizon is shortened for where the series is short.
ORIGINS, FEWEST_ORIGINS = 8, 4
# Fewer values than this are not learnt from.
FEWEST = 5
# The correlation of hits and misses of one origin that is reckoned with.
CORRELATION = 0.5
# Draws of the hyperparameters of each structure, at each origin.
DRAWS = 24
# Structures with a smaller share of the forecast are not looked back with.
LEAST_WEIGHT = 0.05
# A naive error below this share of the spread of the series is rounding, and no measure.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LookBack:
    """Forecasts from past origins, scored: N values in all.

    Attributes:
        steps: How many steps ahead each went.
        spread: The standard deviation of the series.
        ours: The scores of the forecasts, (N,) each.
        naive: The scores of the seasonal-naive forecasts, (N,) each.
        known: How many values the forecast of each value knew, (N,).
        failed: How many origins are left out, since no structure had a density there.
    """

    steps: int
    spread: float
    ours: Scores
    naive: Scores
    known: np.ndarray
    failed: int = 0

    @property
    def origins(self) -> list[int]:
        """How many values each origin knew."""
        return np.unique(self.known).tolist()

    @property
    def count(self) -> int:
        """How many values there were to compare with."""
        return len(self.known)

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
        share = (hits.sum() + 2.0) / (self.count + 4.0)
        effective = self.count / (1.0 + CORRELATION * (self.count / len(groups) - 1.0))
        least = np.sqrt(share * (1.0 - share) / (effective + 4.0))
        if len(groups) < 2:
            return float(least)
        off = [np.sum(hits[self.known == g] - self.coverage(level)) for g in groups]
        spread = np.sqrt(np.sum(np.square(off)) * len(groups) / (len(groups) - 1.0)) / self.count
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


class Origin(NamedTuple):
    """A past date of a series that has n values.

    Attributes:
        known: Which values were known then, (n,).
        future: Which of the later ones are foretold, (n,).
        steps: How many steps ahead these lie, counted from 0.
        ahead: How many steps are foretold.
        past: What was known then on the grid of the calendar, NaN where missing.
    """

    known: np.ndarray
    future: np.ndarray
    steps: np.ndarray
    ahead: int
    past: np.ndarray


def origins_of(series: Series, horizon: int) -> list[Origin]:
    """The past dates to look back at, which do not overlap; none where the series is too short.

    Each knows half of the values or more, which vary, and foretells a value at least.
    """
    steps, y = series.calendar.steps()[series.observed], series.values[series.observed]
    first = max(FEWEST, len(y) // 2)
    if len(y) <= first:
        return []
    reach = int(steps[-1] - steps[first - 1])
    ahead = min(horizon, max(1, reach // FEWEST_ORIGINS))
    values, origins = series.on_grid(), []
    for k in range(min(ORIGINS, reach // ahead), 0, -1):
        end = steps[-1] - k * ahead
        known = steps <= end
        future = ~known & (steps <= end + ahead)
        if future.any() and not is_constant(y[known]):
            at = steps[future] - end - 1
            origins.append(Origin(known, future, at, ahead, values[: end + 1]))
    return origins


def look_back(
    series: Series, horizon: int, choices: Choices, parts: Sequence[Part], season: int, seed: int
) -> LookBack | None:
    """Forecast from past origins with the structures of `parts`, fitted to what was known then.

    season: of the seasonal-naive forecast, in steps. None where the series is too short.
    """
    x = series.calendar.positions(series.times[series.observed])
    y = series.values[series.observed]
    origins = origins_of(series, horizon)
    if not origins:
        return None

    def at_origin(origin):
        known, future = origin.known, origin.future
        mixture = _forecast(choices, parts, x[known], y[known], x[future], seed)
        if mixture is None:
            return None
        naive = SeasonalNaive.of(origin.past, origin.ahead, min(season, len(origin.past) - 1))
        theirs = naive.quantile(WANTED)[:, origin.steps]
        quantiles = mixture.quantile(WANTED), theirs
        return (*(score(q, y[future]) for q in quantiles), np.full(future.sum(), known.sum()))

    ahead = origins[0].ahead
    scored = side_by_side(at_origin, origins, len(y))
    failed = sum(s is None for s in scored)
    scored = [s for s in scored if s is not None]
    if not scored:
        return None
    ours, naive, known = zip(*scored, strict=True)
    return LookBack(
        ahead, float(np.std(y)), joined(ours), joined(naive), np.concatenate(known), failed
    )


def _forecast(choices, parts, x, y, x_new, seed) -> Mixture | None:
    """The forecast of the structures of parts, from values y at times x only.

    None where none of them has a density there.
    """
    fits = []
    for part in [parts[0], *(p for p in parts[1:] if p.weight >= LEAST_WEIGHT)]:
        # A change that nobody knew of then is none.
        changes = tuple(at for at in part.structure.changes if at < x[-1])
        structure = part.structure._replace(changes=changes)
        curvature = None
        if structure == part.structure and not part.draws.is_point:
            # What the data add to the curvature of the prior grows with their number.
            prior = np.eye(len(part.fitted.mode))
            share = len(y) / len(part.fitted.y)
            curvature = prior + share * (part.fitted.hessian - prior)
        fits.append(Fitted.of(structure, choices, x, y, part.fitted.by_name, curvature))
    fits = [fitted for fitted in fits if np.isfinite(fitted.log_joint)]
    if not fits:
        return None
    if parts[0].draws.is_point:
        return mixture_over([Part(fits[0].at_mode(), 1.0)], x_new, 1, seed, choices.robust)
    return mixture_over(weigh(fits, DRAWS, seed, x_new), x_new, DRAWS, seed, choices.robust)
