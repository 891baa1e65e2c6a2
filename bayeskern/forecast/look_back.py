"""The look back: forecasts from the last origins of the series itself, and what came true.

It is the rolling forecasting origin of Hyndman and Athanasopoulos (2021), "Forecasting: principles
and practice", section 5.10, with the structures and the hyperparameters learnt anew at each origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.average import Part, side_by_side, weigh
from bayeskern.forecast.fitting import Fitted
from bayeskern.forecast.mixture import Mixture, mixture_over
from bayeskern.forecast.scale import is_constant
from bayeskern.forecast.seasonal_naive import SeasonalNaive
from bayeskern.forecast.series import Series
from bayeskern.forecast.structure import Choices

COVERAGES = (0.5, 0.8, 0.95)
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
# Mid-points of equal slices of probability, for the CRPS as twice the mean quantile loss.
PROBABILITIES = (np.arange(100) + 0.5) / 100


@dataclass(frozen=True, eq=False)
class LookBack:
    """Forecasts from past origins, scored.

    Attributes:
        steps: How many steps ahead each went.
        origins: The times that each origin knew, by their count.
        errors: |y - median| of each value, (N,); N values in all.
        losses: CRPS of each value, (N,).
        naive_errors: |y - median| of the seasonal-naive forecast, (N,).
        naive_losses: Its CRPS, (N,).
        inside: Level -> whether each value lay in the central interval, (N,).
        origin: The number of the origin of each value, (N,).
    """

    steps: int
    origins: list[int] = field(default_factory=list)
    errors: np.ndarray = field(default_factory=lambda: np.zeros(0))
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    naive_errors: np.ndarray = field(default_factory=lambda: np.zeros(0))
    naive_losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    inside: dict[float, np.ndarray] = field(default_factory=dict)
    origin: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    @property
    def count(self) -> int:
        """How many values there were to compare with."""
        return len(self.errors)

    def coverage(self, level: float) -> float:
        """The share of the values that the central intervals of this level held."""
        return float(np.mean(self.inside[level]))

    def coverage_error(self, level: float) -> float:
        """The standard error of the coverage.

        Values of one origin hit and miss together, so that the shares of the origins are compared.
        It is never less than the binomial error (Agresti and Coull, 1998) of values that are half
        correlated with the others of their origin, since a few origins may agree by chance.
        """
        hits, groups = self.inside[level], np.unique(self.origin)
        share = (hits.sum() + 2.0) / (self.count + 4.0)
        effective = self.count / (1.0 + CORRELATION * (self.count / len(groups) - 1.0))
        least = np.sqrt(share * (1.0 - share) / (effective + 4.0))
        if len(groups) < 2:
            return float(least)
        off = [np.sum(hits[self.origin == g] - self.coverage(level)) for g in groups]
        spread = np.sqrt(np.sum(np.square(off)) * len(groups) / (len(groups) - 1.0)) / self.count
        return float(max(least, spread))

    @property
    def error_ratio(self) -> float:
        """The mean absolute error over that of the seasonal-naive forecast."""
        return _ratio(self.errors, self.naive_errors)

    @property
    def crps_ratio(self) -> float:
        """The CRPS over that of the seasonal-naive forecast."""
        return _ratio(self.losses, self.naive_losses)

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


def _ratio(ours, theirs) -> float:
    reference = np.mean(theirs)
    return float(np.mean(ours) / reference) if reference > 0 else np.nan


def look_back(
    series: Series, horizon: int, choices: Choices, parts: Sequence[Part], season: int, seed: int
) -> LookBack | None:
    """Forecast from past origins with the structures of `parts`, fitted to what was known then.

    The origins do not overlap, and each knows half of the values or more. season: of the
    seasonal-naive forecast, in steps. None where the series is too short.
    """
    steps = series.calendar.steps()[series.observed]
    x = series.calendar.positions(series.times[series.observed])
    y = series.values[series.observed]
    first = max(FEWEST, len(y) // 2)
    if len(y) <= first:
        return None
    reach = int(steps[-1] - steps[first - 1])
    ahead = min(horizon, max(1, reach // FEWEST_ORIGINS))
    ends = [steps[-1] - k * ahead for k in range(min(ORIGINS, reach // ahead), 0, -1)]

    def at_origin(i):
        known = steps <= ends[i]
        future = ~known & (steps <= ends[i] + ahead)
        if not future.any() or is_constant(y[known]):
            return None
        mixture = _forecast(choices, parts, x[known], y[known], x[future], seed)
        if mixture is None:
            return None
        values = series.on_grid()[: ends[i] + 1]
        naive = SeasonalNaive.of(values, ahead, min(season, len(values) - 1))
        pick = steps[future] - ends[i] - 1
        return _scores(mixture, naive, pick, y[future], int(known.sum()), i)

    scored = [s for s in side_by_side(at_origin, range(len(ends)), len(y)) if s is not None]
    if not scored:
        return None
    return LookBack(
        steps=ahead,
        origins=[s.origins[0] for s in scored],
        inside={c: np.concatenate([s.inside[c] for s in scored]) for c in COVERAGES},
        **{
            name: np.concatenate([getattr(s, name) for s in scored])
            for name in ("errors", "losses", "naive_errors", "naive_losses", "origin")
        },
    )


def _forecast(choices, parts, x, y, x_new, seed) -> Mixture | None:
    """The forecast of the structures of parts, from values y at times x only.

    None where none of them has a density there.
    """
    fits = []
    for part in parts if parts[0].draws.is_point else _main(parts):
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
    return mixture_over(weigh(fits, DRAWS, seed), x_new, DRAWS, seed, choices.robust)


def _main(parts: Sequence[Part]) -> list[Part]:
    """The parts that matter."""
    return [part for part in parts if part.weight >= LEAST_WEIGHT]


def _scores(mixture, naive, pick, y, known: int, origin: int) -> LookBack:
    """The scores of one origin. pick: which steps of the naive forecast have values y."""
    ends = [(1 - c) / 2 for c in COVERAGES] + [(1 + c) / 2 for c in COVERAGES]
    wanted = np.concatenate([PROBABILITIES, [0.5], ends])
    ours, theirs = mixture.quantile(wanted), naive.quantile(wanted)[:, pick]
    count = len(PROBABILITIES)
    lower, upper = np.split(ours[count + 1 :], 2)
    return LookBack(
        steps=len(y),
        origins=[known],
        errors=np.abs(y - ours[count]),
        losses=quantile_loss(y, ours[:count]),
        naive_errors=np.abs(y - theirs[count]),
        naive_losses=quantile_loss(y, theirs[:count]),
        inside={c: (lower[i] <= y) & (y <= upper[i]) for i, c in enumerate(COVERAGES)},
        origin=np.full(len(y), origin),
    )


def quantile_loss(y, quantiles) -> np.ndarray:
    """The CRPS of values y (m,) as twice the mean loss of the quantiles (PROBABILITIES, m)."""
    loss = (y - quantiles) * (PROBABILITIES[:, None] - (y < quantiles))
    return 2.0 * loss.mean(axis=0)
