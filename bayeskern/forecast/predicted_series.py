"""A series with the predictive distribution of its next values, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.forecast.combine.candidates import CHANGE_MARGIN
from bayeskern.forecast.combine.predictive import predictive_of
from bayeskern.forecast.evaluate.chance import chance_below_naive
from bayeskern.forecast.evaluate.past_tails import PastTails
from bayeskern.forecast.evaluate.rolling_origin import RollingOriginScores, score_past_origins
from bayeskern.forecast.evaluate.verdict import assess_forecast
from bayeskern.forecast.fitted_series import FittedSeries
from bayeskern.forecast.show.printing import number_format
from bayeskern.forecast.show.totals import columns_of_table
from bayeskern.inference import Trust
from bayeskern.prediction.average_mixture import AverageMixture
from bayeskern.prediction.mixture import Quantiles
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture

if TYPE_CHECKING:
    import pandas as pd

# Probabilities of the central intervals in tables and plots.
LEVELS = (0.5, 0.8, 0.95)


@dataclass(frozen=True, eq=False, repr=False)
class PredictedSeries(FittedSeries, Quantiles):
    """A fitted series with the predictive distribution of its next `horizon` values.

    Attributes:
        before: The series before the first update; None if it was not updated.
    """

    before: PredictedSeries | None = None

    @property
    def mean(self) -> np.ndarray:
        """Predictive mean at each future time, (horizon,)."""
        return self._predictive.mean

    @property
    def sd(self) -> np.ndarray:
        """Predictive standard deviation at each future time, (horizon,)."""
        return self._predictive.sd

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Predictive quantiles at each future time.

        Args:
            q: A probability in (0, 1), or several.

        Returns:
            Shape (horizon,), or (len(q), horizon) for several probabilities.
        """
        return self._predictive.quantile(validation.probabilities(q))

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the future path.

        Args:
            n: Number of paths.
            seed: Random seed.

        Returns:
            Shape (n, horizon).
        """
        n, seed = validation.positive_integer(n, "n"), validation.seed(seed)
        return self._predictive.sample(n, seed)

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Log predictive density of values, by time.

        Args:
            y: Values at the future times, (horizon,).

        Returns:
            Shape (horizon,); -inf for impossible values: zero or less if the logarithm was fitted,
            or beyond a bound. At a bound, the log of its probability.
        """
        y = np.asarray(validation.targets(y, self.horizon))
        if not self.parts:
            return np.where(y == self.scale.shift, np.inf, -np.inf)
        return self._predictive.log_density(y)

    @cached_property
    def past_scores(self) -> RollingOriginScores | None:
        """Scores of rolling-origin forecasts; None if the series is too short."""
        if self.combination is None:
            return None
        # `update` does not refit: the earlier origins belong to the fitted series.
        series = self.series if self.before is None else self.before.series
        return score_past_origins(series, self.combination, self.season_in_steps)

    @cached_property
    def trust(self) -> Trust:
        """Verdict on the forecast, from its fit and the scores of past forecasts."""
        if not self.parts:
            return Trust("not assessable", "The series is constant: nothing shows how it may vary.")
        chance = chance_below_naive(
            self.past_scores,
            self.series,
            self.season_in_steps,
            self.quantile([0.1, 0.5, 0.9]),
            self.choices.learned.reliability,
        )
        return assess_forecast(self.problem, self.past_scores, self.horizon, chance)

    @cached_property
    def problem(self) -> str | None:
        """Reason not to use the fit or its predictions; None if there is none."""
        posterior = self.method_posterior
        if posterior is not None and posterior.trust.verdict == "bad":
            return posterior.trust.advice
        # With fewer than two effective draws, a single draw dominates the forecast.
        if self.before is not None and self.parts and self.effective_draws < 2.0:
            return (
                f"The new values leave {self.effective_draws:.1f} effective draws of the "
                "hyperparameters: forecast the longer series instead."
            )
        numbers = np.array([*self._table([0.95]).values()]) if self.parts else np.zeros(1)
        return None if np.all(np.isfinite(numbers)) else "Some predictions are not finite."

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the series and on the forecast."""
        if not self.parts:
            constant = "the series is constant: the forecast is flat and its interval has no width"
            return (*self.series.remarks, constant)
        remarks, y = list(self.series.remarks), self.series.values[self.series.observed]
        # Ten values barely determine the hyperparameters.
        if len(y) <= 10:
            consequence = "the intervals rest on the priors more than on the series"
            if self.parts[0].draws.is_point:
                consequence = "intervals built on a point estimate may be much too narrow"
            remarks.append(f"with {len(y)} values, {consequence}")
        if self.choices.ranks:
            zeros = int(np.sum(y == 0.0))
            remarks.append(
                f"{zeros} of {len(y)} values are 0: the model is fitted to the ranks of the "
                "values, so that the forecast stays within the range of the observed values"
            )
        if self.choices.find_changes and not self.changes.size:
            searched = len(y) >= 2 * CHANGE_MARGIN
            result = "searched, and none found" if searched else "too few values to search for them"
            remarks.append(f"changes of level and slope: {result}")
        effects = self.choices.effects
        if effects is not None and effects.unseen:
            remarks.append(
                f"{', '.join(effects.unseen)}: not observed in the series, so the forecast assumes "
                "no effect"
            )
        if self.choices.likelihood is not None:
            return tuple(remarks)
        tails, scores = PastTails.from_series(self), self.past_scores
        if tails is not None and scores is not None:
            test = tails.test(0.8)
            # Intervals that follow past errors, called too wide, held no more of the next values
            # than others (benchmarks.interval_coverage).
            remark = test.remark() if test.is_narrow or not scores.is_adapted else None
            remarks += [remark] if remark else []
        outlier = self._outlier()
        if outlier:
            advice = (
                ""
                if self.choices.robust
                else "; otherwise use StructuralModel(robust=True) (--robust)"
            )
            remarks.append(
                f"{outlier} is far from its leave-one-out prediction: leave it out if it is an "
                f"error{advice}"
            )
        # Larger counts are approximately continuous.
        if np.min(y) >= 0 and np.median(y) <= 10.0 and np.array_equal(y, np.round(y)):
            remarks.append(
                "the values are small counts, but the model is for continuous values: try "
                "likelihood='negative_binomial' (--likelihood negative_binomial)"
            )
        if np.min(y) >= 0 and np.min(self.interval()[0]) < 0:
            advice = "set a bound (StructuralModel(lower=0), --lower 0)"
            if np.min(y) > 0 and self.choices.fine_steps is None:
                advice = "model the logarithm (StructuralModel(log=True), --positive)"
            remarks.append(
                "no value is negative, but the 95 % interval has negative values: if these are "
                f"impossible, {advice}"
            )
        return tuple(remarks)

    def _outlier(self) -> str | None:
        """Value and time of the largest leave-one-out residual; None if below five sds.

        Fewer than one in a million normal errors exceed five sds.
        """
        fitted = self.parts[0].fitted
        means, variances, _ = fitted.density.loo(fitted.mode[None])
        distance = np.abs(fitted.scale.forward(fitted.y) - means[0]) / np.sqrt(variances[0])
        # The finer values of a mixed forecast follow the totals, and their times are not in the
        # series.
        distance = distance[: int(self.series.observed.sum())]
        worst = int(np.argmax(distance))
        if not distance[worst] > 5.0:
            return None
        label = self.time_labels(self.series.times[self.series.observed][[worst]])[0]
        return f"{number_format(fitted.y)(fitted.y[worst])} at {label}"

    def to_frame(self, levels: float | Sequence[float] = LEVELS) -> pd.DataFrame:
        """Data frame with a row for each future time.

        Args:
            levels: Probabilities of the central intervals.

        Returns:
            Columns median, mean, sd and, for each level, such as 0.95, lower_95 and upper_95. The
            index holds the times in the zone of the series.
        """
        import pandas as pd  # slow to import

        index = self.series.calendar.index(self.times, self.series.time_name)
        return pd.DataFrame(self._table(levels), index=index)

    def _table(self, levels: float | Sequence[float]) -> dict[str, np.ndarray]:
        """Columns of `to_frame` by name, (horizon,) each."""
        return columns_of_table(levels, self.quantile, self.mean, self.sd)

    @cached_property
    def _predictive(self) -> QuantileAverage | AverageMixture | ResponseMixture:
        """Predictive distribution at the future times."""
        if self.combination is None:
            zeros, unit = np.zeros((1, self.horizon)), partial(np.eye, self.horizon)
            return QuantileAverage([1.0], [self.scale], zeros, zeros, correlation=unit)
        x = self.series.calendar.positions(self.times)
        return predictive_of(self.combination, x, np.arange(self.horizon), self.seed)
