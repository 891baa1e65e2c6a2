"""A forecast: its numbers, its components, and how to write them down."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.forecast.combine.components import component_names, components_at, effects_of
from bayeskern.forecast.combine.predictive import predictive_of
from bayeskern.forecast.combine.stacking import Combination, Part
from bayeskern.forecast.combine.updating import SPARE_STEPS_AFTER_UPDATE, likely_times, updated
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.evaluate.look_back import LookBack, look_back
from bayeskern.forecast.evaluate.verdict import assess_forecast
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.structure import Choices
from bayeskern.forecast.model.transformation import Scale, require_possible
from bayeskern.forecast.show import plot, wording
from bayeskern.forecast.show.printing import summary
from bayeskern.forecast.show.remarks import remarks_on
from bayeskern.forecast.show.totals import level_name, totals
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.inference import Posterior, Trust
from bayeskern.prediction.mixture import Quantiles
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture

LEVELS = (0.5, 0.8, 0.95)
# With fewer effective draws than this one of them decides.
MIN_EFFECTIVE_DRAWS = 2.0


@dataclass(frozen=True, eq=False)
class Forecast(Quantiles):
    """The predictive distribution of the next `horizon` values of a series.

    Quantiles are averages of those of the structures that were fitted, each averaged over its
    hyperparameters; those of counts are whole numbers. mean and sd are those of the values
    themselves, also where the logarithm was fitted. Returned by `forecast`.

    Attributes:
        series: The data as they were read, with their calendar.
        horizon: The number of steps ahead.
        choices: The structures that were weighed.
        combination: Those that the forecast is made of, with their weights and their forecasts from
            earlier origins; None for a constant series.
        seed: The seed.
        fit: The posterior by another method than averaging, where one was asked for.
        before: The forecast that was fitted, where values have come since by `update`.
    """

    series: Series
    horizon: int
    choices: Choices
    combination: Combination | None
    seed: int = 0
    fit: Posterior | None = None
    before: Forecast | None = None

    # -- what was fitted ----------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Part, ...]:
        """The structures with their draws and weights, the heaviest first."""
        return () if self.combination is None else self.combination.parts

    @property
    def seasons(self) -> dict[str, float]:
        """Name of a season -> its period, in years (steps, for plain numbers)."""
        return self.choices.seasons

    @property
    def leading(self) -> Fitted | None:
        """The most probable structure, fitted; None for a constant series."""
        return self.parts[0].fitted if self.parts else None

    @property
    def scale(self) -> Scale:
        """The scale of the most probable structure: the values as given, or their logarithm."""
        if self.leading is None:
            return Scale(False, float(self.series.values[self.series.observed][0]), 0.0)
        return self.leading.scale

    @property
    def described(self) -> str:
        """What the most probable structure describes, in words: "the values as given"."""
        seen = self.choices.likelihood
        if seen is not None and self.parts:
            return f"{seen.scale} of {seen.title}"
        if self.choices.ranks:
            return "the ranks of the values"
        return "the logarithm of the values" if self.scale.log else "the values as given"

    @property
    def model(self) -> GPRegression | LatentGP | None:
        """The model of the most probable structure; None for a constant series."""
        return None if self.leading is None else self.leading.model

    @cached_property
    def posterior(self) -> Posterior | None:
        """The hyperparameters of the most probable structure; None for a constant series."""
        if self.fit is not None or not self.parts:
            return self.fit
        return self.parts[0].draws.posterior(self.seed)

    @cached_property
    def weights(self) -> dict[str, dict[str, float]]:
        """How much of the forecast each choice makes up.

        Returns:
            Two dicts of names and weights, which sum to one: "trend" and "scale".
        """
        trends: dict[str, float] = {}
        logarithm = 0.0
        for part in self.parts:
            trend = part.structure.trend
            trends[trend] = trends.get(trend, 0.0) + part.weight
            logarithm += part.weight * part.structure.log
        ordered = sorted(trends.items(), key=lambda item: -item[1])
        return {
            "trend": dict(ordered),
            "scale": {"values": 1.0 - logarithm, "logarithm": logarithm},
        }

    @property
    def structure(self) -> str:
        """The structures of the forecast in words, with their weights."""
        of_scale = len(self.choices.logs) > 1
        said = wording.weighed(self.weights["trend"], self.weights["scale"] if of_scale else None)
        if not self.changes.size:
            return said
        return f"{said}; level and slope change at {', '.join(self.time_labels(self.changes))}"

    @property
    def changes(self) -> np.ndarray:
        """The first times after a change of level and slope, in the most probable structure."""
        at = self.leading.structure.changes if self.leading is not None else ()
        observed = self.series.times[self.series.observed]
        return observed[np.searchsorted(self.series.calendar.positions(observed), at)]

    # -- the numbers --------------------------------------------------------------------------

    @cached_property
    def times(self) -> np.ndarray:
        """The future times, shape (horizon,): naive UTC if the series has a time zone."""
        return self.series.calendar.future(self.horizon)

    @property
    def mean(self) -> np.ndarray:
        """The mean at each future time, shape (horizon,)."""
        return self._predictive.mean

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation at each future time, shape (horizon,)."""
        return self._predictive.sd

    def quantile(self, q) -> np.ndarray:
        """Quantiles at each future time.

        Args:
            q: A probability in (0, 1), or several.

        Returns:
            Shape (horizon,), or (len(q), horizon) for several.
        """
        return self._predictive.quantile(validation.probabilities(q))

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the future path.

        Args:
            n: How many paths.
            seed: The same seed gives the same paths.

        Returns:
            Shape (n, horizon).
        """
        n, seed = validation.positive_integer(n, "n"), validation.seed(seed)
        return self._predictive.sample(n, seed)

    def log_density(self, y) -> np.ndarray:
        """Log predictive density of the values that came true, time by time.

        Args:
            y: Those values, shape (horizon,).

        Returns:
            Shape (horizon,); -inf where the model rules a value out, at or below zero on the log
            scale, or beyond a bound. At a bound there is no density, but the log of the probability
            of just that value.
        """
        y = np.asarray(validation.targets(y, self.horizon))
        if not self.parts:
            return np.where(y == self.scale.shift, np.inf, -np.inf)
        return self._predictive.log_density(y)

    @cached_property
    def look_back(self) -> LookBack | None:
        """Forecasts from earlier origins of the series itself; None where it is too short."""
        if self.combination is None:
            return None
        return look_back(self._fitted_series, self.combination, self.season_in_steps)

    @property
    def _fitted_series(self) -> Series:
        """The series as it was when the structures were fitted."""
        return self.series if self.before is None else self.before.series

    @property
    def season_in_steps(self) -> int:
        """The season of the seasonal-naive forecast beside it, in steps; 1 for none."""
        step = self.series.calendar.step
        # The shortest season is the one with the most data behind it.
        return min((round(period / step) for period in self.choices.seasons.values()), default=1)

    @cached_property
    def trust(self) -> Trust:
        """How far to trust the forecast, and why: its fit, and what came true in the past."""
        if not self.parts:
            return Trust("not assessable", "The series is constant: nothing shows how it may vary.")
        seen, values = self.choices.likelihood, self.series.values
        # Values with a probability of their own: whole numbers, ties of ranks, bounds.
        tied = self.choices.ranks or np.isin(values, self.choices.bounds).any()
        whole = tied or (seen is not None and seen.whole)
        return assess_forecast(self.problem, self.look_back, self.horizon, whole)

    @cached_property
    def problem(self) -> str | None:
        """What is wrong with the numbers of the forecast, if anything is."""
        if self.fit is not None and self.fit.trust.verdict == "bad":
            return self.fit.trust.advice
        if self.before is not None and self.parts and self._effective < MIN_EFFECTIVE_DRAWS:
            return (
                f"The new values leave {self._effective:.1f} effective draws of the "
                "hyperparameters: forecast the longer series instead."
            )
        numbers = np.array([*self._table([0.95]).values()]) if self.parts else np.zeros(1)
        return None if np.all(np.isfinite(numbers)) else "Some numbers are not finite."

    @property
    def _effective(self) -> float:
        """How many draws of the hyperparameters it rests on; infinite for a point by choice."""
        if self.parts[0].draws.is_point:
            return np.inf
        return 1.0 / sum(part.weight**2 / part.draws.ess for part in self.parts)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What was noticed and done on the way."""
        return remarks_on(self)

    def update(self, values, times=None) -> Forecast:
        """Go on from new values, without fitting again.

        The structures and the draws of their hyperparameters stay, and are weighted by what they
        said of the new values. That does as long as the new values are few beside the old: `trust`
        says when too few draws are left.

        New values are cheap while they are fewer than 12 or a tenth of the series: each draw has
        the joint distribution of the next ones at hand. Beyond, and with robust noise or counts,
        it is computed anew at each draw.

        Args:
            values: The new values, (m,), NaN where one is missing; or a number.
            times: Their times, (m,); the next ones of the series if None.

        Returns:
            The forecast of as many steps from the end of the longer series.

        Raises:
            ValueError: For values or times that do not go on from the series.
        """
        if self.choices.effects is not None:
            raise ValueError(
                "update: regressors, events and holidays of the later future are not known here; "
                "forecast the longer series with them."
            )
        series = self.series.extended(values, times)
        lower, upper = self.choices.bounds
        new = series.values[len(self.series.values) :]
        if np.any(new < lower) or np.any(new > upper):
            raise ValueError(
                f"update: the new values reach beyond the bounds {lower:g} and {upper:g}; forecast "
                "the longer series with others."
            )
        if self.choices.likelihood is not None:
            added = np.flatnonzero(np.isfinite(new))
            later = series.times[len(self.series.values) :][added]
            require_possible(new[added], self.choices.likelihood, lambda: self.time_labels(later))
        if not self.parts:
            raise ValueError("a constant series taught nothing: forecast the longer one.")
        x = series.calendar.positions(series.times[series.observed])
        later = likely_times(series, self.horizon, self.choices, SPARE_STEPS_AFTER_UPDATE)
        parts = updated(self.parts, x, series.values[series.observed], *later)
        combination = replace(self.combination, parts=parts)
        return replace(
            self, series=series, combination=combination, fit=None, before=self.before or self
        )

    # -- components ---------------------------------------------------------------------------

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the additive terms, the one that carries the level first."""
        return component_names(self.parts[0].draws) if self.parts else ()

    def effects(self, level: float = 0.95):
        """What a unit more of each regressor does, or an event while it is there.

        In the units of the series, or as a factor where its logarithm was fitted: of the most
        probable structure, averaged over its hyperparameters. Effects with a kernel of their own
        are in `components`.

        Args:
            level: The probability of the central intervals.

        Returns:
            A pandas frame with a row for each regressor, event and holiday: median, lower, upper.

        Raises:
            ValueError: If the forecast has none.
        """
        import pandas as pd  # slow to import

        effects = self.choices.effects
        if effects is None or not self.parts:
            raise ValueError("this forecast has no regressors, events or holidays.")
        tail = 0.5 * (1.0 - validation.level(level))
        ends = effects_of(self.parts[0].draws, self.seed).quantile([0.5, tail, 1.0 - tail])
        columns = zip(("median", "lower", "upper"), ends, strict=True)
        return pd.DataFrame(
            dict(columns), index=pd.Index(effects.columns[: effects.linear], name="effect")
        )

    def decompose(self, times=None, level: float = 0.95) -> dict[str, dict[str, np.ndarray]]:
        """Every component at the given times, with its own uncertainty.

        The trend carries the level of the series, in its units. The others are differences from
        it, each about 0 over the observed times or, on the log scale, factors about 1; of shares,
        all are odds and factors of odds. Regressors
        and events have no effect at times for which they are not known.

        Args:
            times: Shape (n,): dates, datetimes, text or numbers; the future ones by default.
            level: The probability of the central intervals.

        Returns:
            Name of a component -> its "median", "lower" and "upper", each of shape (n,).

        Raises:
            ValueError: For a constant series, which has no components.
        """
        if not self.parts:
            raise ValueError("a constant series has no components.")
        tail = 0.5 * (1.0 - validation.level(level))
        x = self.series.calendar.positions(self.times if times is None else times)
        intervals = {}
        for name, part in self._components_at(x.tobytes()).items():
            median, lower, upper = part.quantile([0.5, tail, 1.0 - tail])
            intervals[name] = {"median": median, "lower": lower, "upper": upper}
        return intervals

    def _components_at(self, x: bytes) -> dict[str, QuantileAverage]:
        """Each component at the positions x, which are kept for other levels."""
        if x not in self._known_components:
            parts = components_at(self.parts[0].draws, self.seed, np.frombuffer(x))
            self._known_components[x] = parts
        return self._known_components[x]

    @cached_property
    def _known_components(self) -> dict[bytes, dict[str, QuantileAverage]]:
        return {}

    def component(self, name: str, times=None, level: float = 0.95) -> dict[str, np.ndarray]:
        """One of the components of `decompose`: its "median", "lower" and "upper"."""
        intervals = self.decompose(times, level)
        return intervals[validation.one_of("component", name, intervals)]

    # -- out ----------------------------------------------------------------------------------

    def to_frame(self, levels=LEVELS):
        """A pandas data frame with a row for each future time, indexed by it, in its time zone.

        Args:
            levels: The probabilities of the central intervals.

        Returns:
            Columns median, mean, sd and, for each level, lower_95 and upper_95.
        """
        import pandas as pd  # slow to import

        index, zone = pd.Index(self.times, name=self.series.time_name), self.series.calendar.tz
        if zone is not None:
            index = index.tz_localize("UTC").tz_convert(zone)
        return pd.DataFrame(self._table(levels), index=index)

    def totals(self, every: str, levels=LEVELS):
        """Sums over months or years, from joint draws, with what is known of a period already.

        Args:
            every: "hour", "day", "week", "month", "quarter" or "year".
            levels: The probabilities of the central intervals.

        Returns:
            A pandas frame with a row for each period of which all values are known or forecast,
            indexed by it: columns median, mean, sd and, for each level, lower_95 and upper_95.

        Raises:
            ValueError: If times are numbers or irregular, or if no period is whole.
        """
        return totals(self, every, levels, self.seed)

    def plot(self, ax=None, levels=LEVELS, whole: bool = False):
        """The history and the forecast with its intervals.

        Args:
            ax: The axes to draw in; a new figure if None.
            levels: The probabilities of the central intervals.
            whole: Whether to show all of the history, not only its last seasons.

        Returns:
            The figure.
        """
        return plot.forecast(self, ax, levels, whole)

    def plot_components(self, figure=None, level: float = 0.95):
        """Each component over history and future, with its own interval; returns the figure."""
        return plot.components(self, figure, level)

    def save(self, folder, levels=LEVELS) -> list[Path]:
        """Write forecast.csv, forecast.png and components.png; returns their paths."""
        folder = Path(folder)
        paths = [folder / "forecast.csv", folder / "forecast.png"]
        with atomic_write(paths[0]) as path:
            path.write_text(self.to_csv(levels), encoding="utf-8")
        with atomic_write(paths[1]) as path:
            self.plot(levels=levels).savefig(path)
        if self.components:
            paths.append(folder / "components.png")
            with atomic_write(paths[2]) as path:
                self.plot_components().savefig(path)
        return paths

    def to_csv(self, levels=LEVELS) -> str:
        """CSV text: a row for each future time, ten digits; the columns of `to_frame`.

        The column "verdict" says how far to trust them, and in the first row why.
        """
        table = self._table(levels)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([self.series.time_name, *table, "verdict"])
        verdict = f"{self.trust.verdict}: {self.trust.advice}"
        for time, *row in zip(self.time_labels(self.times), *table.values(), strict=True):
            writer.writerow([time, *(f"{x:.10g}" for x in row), verdict])
            verdict = self.trust.verdict
        return text.getvalue()

    def time_labels(self, times) -> list[str]:
        """Times as one writes them: a date where all are at midnight."""
        return self.series.calendar.labels(times)

    def _table(self, levels) -> dict[str, np.ndarray]:
        levels = [validation.level(level) for level in np.ravel(levels)]
        tails = [0.5 * (1.0 - level) for level in levels]
        # All quantiles at once, which takes hardly more time than one.
        median, *ends = self.quantile([0.5, *tails, *(1.0 - tail for tail in tails)])
        table = {"median": median, "mean": self.mean, "sd": self.sd}
        count = len(levels)
        for level, lower, upper in zip(levels, ends[:count], ends[count:], strict=True):
            name = level_name(level)
            table[f"lower_{name}"], table[f"upper_{name}"] = lower, upper
        return table

    # -- inside -------------------------------------------------------------------------------

    @cached_property
    def _predictive(self) -> QuantileAverage | ResponseMixture:
        """The predictive distribution at the future times."""
        if self.combination is None:
            zeros, ones = np.zeros((1, self.horizon)), np.eye(self.horizon)
            return QuantileAverage([1.0], [self.scale], zeros, zeros, correlation=lambda: ones)
        x = self.series.calendar.positions(self.times)
        return predictive_of(self.combination, x, np.arange(self.horizon), self.seed)

    def __repr__(self) -> str:
        return summary(self)
