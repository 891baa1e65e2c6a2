"""Fitted structures of a series: their weights, components and effects."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.cache import ResultCache
from bayeskern.forecast.combine.components import component_names, components_at, effects_of
from bayeskern.forecast.combine.stacking import Combination, Part
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model.kernels import GIVEN
from bayeskern.forecast.model.structure import StructureChoices
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.model.trends import ALL_TRENDS, in_words
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.inference import Posterior
from bayeskern.prediction.mixture import Quantiles, central_probabilities
from bayeskern.series.series import Series

if TYPE_CHECKING:
    import pandas as pd

# Cache of the latest components, which reports show at several levels.
_components = ResultCache(4)


@dataclass(frozen=True, eq=False, repr=False)
class FittedSeries:
    """A series with its fitted structures: all that a forecast is computed from.

    Attributes:
        series: The series, with its calendar.
        horizon: Number of steps.
        choices: Options of the compared structures.
        combination: The structures with their weights and their forecasts from earlier origins;
            None for a constant series.
        seed: Random seed.
        method_posterior: Posterior by the method of `StructuralModel(method=...)`; None by default
            and for "map".
    """

    series: Series
    horizon: int
    choices: StructureChoices
    combination: Combination | None
    seed: int = 0
    method_posterior: Posterior | None = None

    @cached_property
    def times(self) -> np.ndarray:
        """Future times, (horizon,); naive UTC if the series has a time zone."""
        return self.series.calendar.future(self.horizon)

    @property
    def season_in_steps(self) -> int:
        """Shortest season in steps, for the seasonal-naive benchmark; 1 without seasons."""
        step = self.series.calendar.step
        return min((round(period / step) for period in self.choices.seasons.values()), default=1)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Structures with their draws, largest weight first; empty for a constant series."""
        return () if self.combination is None else self.combination.parts

    @property
    def seasons(self) -> dict[str, float]:
        """Name of a season -> period, in years, or in steps if times are numbers."""
        return self.choices.seasons

    @property
    def leading(self) -> FittedStructure | None:
        """Fitted structure with the largest weight; None for a constant series."""
        return self.parts[0].fitted if self.parts else None

    @property
    def scale(self) -> Scale:
        """Scale of the leading structure: values, logarithm or ranks, standardised."""
        if self.leading is None:
            return Scale(False, float(self.series.values[self.series.observed][0]), 0.0)
        return self.leading.scale

    @property
    def described(self) -> str:
        """Modelled quantity in words, such as "the logarithm of the values"."""
        likelihood = self.choices.likelihood
        if likelihood is not None and self.parts:
            return f"{likelihood.scale} of {likelihood.title}"
        if self.choices.ranks:
            return "the ranks of the values"
        return "the logarithm of the values" if self.scale.log else "the values as given"

    @property
    def is_discrete(self) -> bool:
        """True if single values have positive probability.

        Such values are counts, ranks, and values at a bound.
        """
        choices = self.choices
        whole = choices.likelihood is not None and choices.likelihood.whole
        return choices.ranks or whole or bool(np.isin(self.series.values, choices.bounds).any())

    @property
    def model(self) -> GPRegression | LatentGP | None:
        """Model of the leading structure; None for a constant series."""
        return None if self.leading is None else self.leading.model

    @cached_property
    def posterior(self) -> Posterior | None:
        """Posterior of the hyperparameters of the leading structure; None if constant."""
        if self.method_posterior is not None or not self.parts:
            return self.method_posterior
        return self.parts[0].draws.posterior(self.seed)

    @cached_property
    def weights(self) -> dict[str, dict[str, float]]:
        """Weights of the trends and of the scales in the forecast.

        Returns:
            {"trend": {name: weight}, "scale": {name: weight}}; the weights of each sum to one.
        """
        trends: dict[str, float] = defaultdict(float)
        for part in self.parts:
            trends[part.structure.trend] += part.weight
        logarithm = float(sum(part.weight * part.structure.log for part in self.parts))
        return {
            "trend": dict(sorted(trends.items(), key=lambda item: -item[1])),
            "scale": {"values": 1.0 - logarithm, "logarithm": logarithm},
        }

    @property
    def structure(self) -> str:
        """The structures and their weights, in words."""
        trends = [
            f"{in_words(name)} {100.0 * weight:.0f} %"
            for name, weight in self.weights["trend"].items()
            if name != GIVEN and weight >= 0.05
        ]
        text = ", ".join(trends) or "the kernel as given"
        if len(self.choices.logs) > 1:
            text += f"; logarithm {100.0 * self.weights['scale']['logarithm']:.0f} %"
        return text + self._changes_in_words()

    def _changes_in_words(self) -> str:
        """Times of the changes and their probability; empty without changes."""
        if not self.changes.size:
            return ""
        trend, _, changes = self.parts[0].structure
        share = sum(part.weight for part in self.parts if part.structure.changes == changes)
        what = "level and slope change" if ALL_TRENDS[trend].changes_slope else "level changes"
        probability = "" if share > 0.995 else f" (probability {100.0 * share:.0f} %)"
        return f"; {what} at {', '.join(self.time_labels(self.changes))}{probability}"

    @property
    def changes(self) -> np.ndarray:
        """First observed time after each change point of the leading structure."""
        positions = self.leading.structure.changes if self.leading is not None else ()
        observed = self.series.times[self.series.observed]
        return observed[
            np.searchsorted(self.series.calendar.positions(observed), sorted(positions))
        ]

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the additive components; the first carries the level of the series."""
        return component_names(self.parts[0].draws) if self.parts else ()

    def time_labels(self, times: np.ndarray) -> list[str]:
        """Times as text: dates if all are at midnight."""
        return self.series.calendar.labels(times)

    @property
    def effective_draws(self) -> float:
        """Effective number of hyperparameter draws; infinite for a point estimate."""
        if self.parts[0].draws.is_point:
            return np.inf
        return 1.0 / sum(part.weight**2 / part.draws.ess for part in self.parts)

    def effects(self, level: float = 0.95) -> pd.DataFrame:
        """Effect of one unit of each regressor, or of an event or holiday.

        The structure with the largest weight determines the effects, averaged over its
        hyperparameters. They are in the units of the series, or factors if its logarithm was
        fitted. `decompose` shows effects that have a kernel of their own.

        Args:
            level: Probability of the central intervals.

        Returns:
            A row for each regressor, event and holiday, with columns median, lower and upper for
            one unit; and the median effect "per sd" of a regressor over the series, and "per 10 %"
            of its mean if all its values are positive.

        Raises:
            ValueError: If the forecast has no effects.
        """
        import pandas as pd  # slow to import

        effects = self.choices.effects
        if effects is None or not self.parts:
            raise ValueError("this forecast has no regressors, events or holidays.")
        by_change = effects_of(self.parts[0].draws, self.seed)
        index = pd.Index(effects.columns[: effects.linear], name="effect")
        table = median_and_interval(by_change.pop("per unit"), level)
        table |= {name: effect.median for name, effect in by_change.items()}
        return pd.DataFrame(table, index=index)

    def decompose(self, times: Any = None, level: float = 0.95) -> dict[str, dict[str, np.ndarray]]:
        """Components of the leading structure at given times, with their intervals.

        The leading structure has the largest weight.

        The trend carries the level of the series, in its units. The other components have mean
        near 0 over the observed times or, if the logarithm was fitted, are factors near 1. For
        shares, the trend is in odds and the other components are factors of the odds. Regressors
        and events have no effect at times where they are unknown.

        Args:
            times: Dates, datetimes, text or numbers, (n,); the future times by default.
            level: Probability of the central intervals.

        Returns:
            Name of a component -> {"median", "lower", "upper"}, (n,) each.

        Raises:
            ValueError: For a constant series, which has no components.
        """
        if not self.parts:
            raise ValueError("a constant series has no components.")
        x = self.series.calendar.positions(self.times if times is None else times)
        draws, seed = self.parts[0].draws, self.seed
        components = _components.recall(
            (draws, seed, x.tobytes()), lambda: components_at(draws, seed, x)
        )
        return {name: median_and_interval(part, level) for name, part in components.items()}

    def component(self, name: str, times: Any = None, level: float = 0.95) -> dict[str, np.ndarray]:
        """One component of `decompose`: its "median", "lower" and "upper"."""
        intervals = self.decompose(times, level)
        return intervals[validation.one_of("component", name, intervals)]


def median_and_interval(prediction: Quantiles, level: float) -> dict[str, np.ndarray]:
    """Median of a prediction and ends of its central interval, (m,) each."""
    quantiles = prediction.quantile(central_probabilities(level))
    return dict(zip(("median", "lower", "upper"), quantiles, strict=True))
