"""Rolling-origin scores of a forecast and of the seasonal-naive benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.combine.stacking import Combination
from bayeskern.forecast.evaluate.scores import (
    SCORED_PROBABILITIES,
    Scores,
    expected_coverage,
    joined,
    score,
)
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from bayeskern.series.series import Series


@dataclass(frozen=True, eq=False)
class RollingOriginScores:
    """Scores of N forecasts from past origins.

    Attributes:
        steps: Largest number of steps ahead.
        spread: Standard deviation of the series.
        ours: Scores of the forecasts, (N,) each.
        naive: Scores of the seasonal-naive forecasts, (N,) each.
        known: Number of known values at the origin of each forecast, (N,).
        rows: Row of the forecast value in the series, (N,); origins may share values.
        is_adapted: True if the width of the intervals follows past errors.
        expected: Expected coverage by level. It differs from the level because past errors differ
            in size from future ones, and where ends of the intervals have a probability of their
            own, as for counts.
    """

    steps: int
    spread: float
    ours: Scores
    naive: Scores
    known: np.ndarray
    rows: np.ndarray
    is_adapted: bool
    expected: Mapping[float, float]

    @property
    def origins(self) -> list[int]:
        """Number of known values at each origin."""
        return np.unique(self.known).tolist()

    @property
    def count(self) -> int:
        """Number of distinct forecast values."""
        return len(np.unique(self.rows))

    def coverage(self, level: float) -> float:
        """Share of the values inside central intervals at the level."""
        return float(np.mean(self.ours.inside[level]))

    def expectation(self, level: float) -> str:
        """Expected coverage, if it differs from the level, and standard error, in parentheses."""
        percent = f"{100 * self.expected[level]:.0f}"
        expected = "" if percent == f"{100 * level:.0f}" else f"{percent} % expected, "
        return f"({expected}give or take {100 * self.coverage_error(level):.0f} %)"

    def coverage_error(self, level: float, correlation: float = 0.5) -> float:
        """Standard error of the coverage.

        Forecasts from the same origin are dependent, so the error is estimated from differences
        between origins. A few origins may agree by chance: the error is at least the binomial error
        (Agresti and Coull, 1998) of forecasts with `correlation` within origins.
        """
        inside, groups = self.ours.inside[level], self.origins
        share = (inside.sum() + 2.0) / (len(inside) + 4.0)
        effective = self.count / (1.0 + correlation * max(0.0, self.count / len(groups) - 1.0))
        binomial_error = np.sqrt(share * (1.0 - share) / (effective + 4.0))
        if len(groups) < 2:
            return float(binomial_error)
        deviations = [np.sum(inside[self.known == g] - self.coverage(level)) for g in groups]
        squares = np.sum(np.square(deviations)) * len(groups) / (len(groups) - 1.0)
        return float(max(binomial_error, np.sqrt(squares) / len(inside)))

    @property
    def metrics(self) -> dict[str, float]:
        """Scores by name: past_values, error_ratio, crps_ratio, coverage_80 and coverage_95."""
        return {
            "past_values": self.count,
            "error_ratio": self.error_ratio,
            "crps_ratio": self.crps_ratio,
            "coverage_80": self.coverage(0.8),
            "coverage_95": self.coverage(0.95),
        }

    @property
    def error_ratio(self) -> float:
        """Mean absolute error, divided by the error of the seasonal-naive forecast."""
        return self._ratio(np.abs(self.ours.errors), np.abs(self.naive.errors))

    @property
    def lost_share(self) -> float:
        """Share of the origins at which the error was larger than that of seasonal naive."""
        ours, naive = np.abs(self.ours.errors), np.abs(self.naive.errors)
        return lost_share(self.known, ours, naive)

    @property
    def crps_ratio(self) -> float:
        """Mean CRPS, divided by the CRPS of the seasonal-naive forecast."""
        return self._ratio(self.ours.crps, self.naive.crps)

    def _ratio(self, ours: np.ndarray, naive: np.ndarray) -> float:
        """Ratio of means; NaN if the naive mean is below 1e-6 of the spread (rounding)."""
        reference = np.mean(naive)
        return float(np.mean(ours) / reference) if reference > 1e-6 * self.spread else np.nan

    def __str__(self) -> str:
        values = counted(self.count, "past value")
        held = f"80 % intervals held {100 * self.coverage(0.8):.0f} % of {values}"
        return f"{held} {self.expectation(0.8)}; error {compared(self.error_ratio)} seasonal naive"


def lost_share(known: np.ndarray, ours: np.ndarray, naive: np.ndarray) -> float:
    """Share of the origins with the larger mean of errors.

    Args:
        known: Number of known values at the origin of each forecast, (N,).
        ours: Absolute errors, (N,).
        naive: Absolute errors of the other forecasts, (N,).
    """
    _, origins = np.unique(known, return_inverse=True)
    return float(np.mean(np.bincount(origins, ours) > np.bincount(origins, naive)))


def compared(ratio: float) -> str:
    """Ratio to a reference in words, such as "31 % below" or "300 times that of"."""
    if not np.isfinite(ratio):
        return "not comparable with"
    if ratio >= 1.995:
        return f"{float(f'{ratio:.2g}'):,g} times that of"
    percent = 100.0 * (ratio - 1.0)
    if abs(percent) < 0.5:
        return "equal to that of"
    # 0.4 % of a reference is 99.6 % below it, not 100 %.
    share = min(abs(percent), 99.0) if percent < 0.0 else percent
    return f"{share:.0f} % {'below' if percent < 0.0 else 'above'}"


def score_past_origins(
    series: Series, combination: Combination, season: int
) -> RollingOriginScores | None:
    """Score the forecasts of a combination from earlier origins; None without origins.

    season: Season of the seasonal-naive forecast in steps.
    """
    if combination.past is None:
        return None
    y, on_grid = series.values[series.observed], series.on_grid()
    steps, ahead = series.calendar.steps()[series.observed], combination.ahead
    past = combination.past.with_errors(combination.errors(ahead.steps, ahead.known))
    quantiles = of_values = past.quantile(SCORED_PROBABILITIES)
    if combination.width is not None:
        past = combination.past.with_errors(combination.past_errors(ahead.steps, ahead.known))
        of_values = past.quantile(SCORED_PROBABILITIES)
    naive = []
    for origin in combination.origins:
        known_grid = on_grid[: steps[origin.count - 1] + 1]
        horizon = int(origin.steps[-1]) + 1
        reference = SeasonalNaive.from_values(known_grid, horizon, min(season, len(known_grid) - 1))
        at_steps = reference.quantile(SCORED_PROBABILITIES)[:, origin.steps]
        naive.append(score(at_steps, y[origin.ahead]))
    return RollingOriginScores(
        combination.reach,
        float(np.std(y)),
        score(quantiles, y[ahead.rows]),
        joined(naive),
        ahead.known,
        ahead.rows,
        combination.width is not None,
        expected_coverage(quantiles, of_values),
    )
