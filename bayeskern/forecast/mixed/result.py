"""Forecast of totals from two frequencies, and nowcast of the unfinished period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.core.plotting import concise_dates, figure, legend_below, legend_under, tidy
from bayeskern.forecast import forecast_plot
from bayeskern.forecast.combine.predictive import predictive_of
from bayeskern.forecast.evaluate.rolling_origin import RollingOriginScores, score_past_origins
from bayeskern.forecast.explain import moments
from bayeskern.forecast.forecast_text import predictive_format
from bayeskern.forecast.mixed.aligned import Aligned
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.predicted_series import LEVELS
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.plot import (
    HISTORY_COLOR,
    NOTE_COLOR,
    fan,
    plain_numbers,
    short_name,
)
from bayeskern.prediction.mixture import Quantiles
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.series.series import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IDENTITY = Scale(False, 0.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class MixedForecast(Forecast):
    """Forecast of totals over periods, from `forecast_mixed`.

    A `Forecast` of the totals, with the distribution of the unfinished period as `nowcast`. Past
    forecasts, components and conformal intervals describe totals over a period of average length:
    the mean of the finer values times their average number. The verdict rests on forecasts from
    earlier totals, without the finer values.

    Attributes:
        pair: The totals and the finer values on one grid.
    """

    pair: Aligned | None = None

    @property
    def _pair(self) -> Aligned:
        assert self.pair is not None
        return self.pair

    @cached_property
    def nowcast(self) -> Nowcast | None:
        """Distribution of the unfinished period; None if the totals are up to date."""
        return Nowcast(self) if self._observed.size else None

    @cached_property
    def _edges(self) -> np.ndarray:
        """First fine step of each future period, and the end, (horizon + 1,)."""
        count = int(self.series.calendar.steps()[-1]) + 1
        return self._pair.edges(count + self.horizon)[count:]

    @property
    def _observed(self) -> np.ndarray:
        """Fine values of the unfinished period, (k,)."""
        pair = self._pair
        return pair.fine.values[max(0, int(self._edges[0]) - pair.start) :]

    @cached_property
    def _predictive(self) -> QuantileAverage:
        x = self.series.calendar.positions(self.times)
        return self._totals_of(x, np.diff(self._edges), np.arange(self.horizon))

    def _totals_of(self, x: np.ndarray, counts: np.ndarray, steps: np.ndarray) -> QuantileAverage:
        """Distribution of the sums of `counts` (m,) fine steps at positions x (m,)."""
        assert self.combination is not None
        average = cast("QuantileAverage", predictive_of(self.combination, x, steps, self.seed))
        # Without a logarithm, the transformation of each structure is affine.
        scales = cast("list[Scale]", average.transformations)
        shifts = np.array([[scale.shift] for scale in scales])
        sizes = np.array([[scale.size] for scale in scales])
        share = counts / self._pair.mean_count
        return QuantileAverage(
            average.weights,
            [IDENTITY] * len(shifts),
            share * (shifts + sizes * average.means),
            share * sizes * average.sds,
            average.errors,
            average.bounds,
            average._correlation,
        )

    @property
    def fine(self) -> Series:
        """The finer values that were used."""
        return self._pair.fine

    def _rest(self) -> QuantileAverage:
        """Distribution of the unseen fine values of the unfinished period."""
        steps = self.choices.fine_steps
        assert steps is not None
        unseen = np.arange(self._pair.stop, self._edges[1])
        x, zeros = steps.positions(unseen), np.zeros(len(unseen), int)
        return self._totals_of(x, np.ones(len(unseen)), zeros)

    @cached_property
    def past_scores(self) -> RollingOriginScores | None:
        """Scores of forecasts of average-length totals from earlier totals alone."""
        assert self.combination is not None
        return score_past_origins(self._pair.adjusted, self.combination, self.season_in_steps)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the series and on the forecast."""
        nowcast = self.nowcast
        calibration = (
            "the model describes the values as given, since totals are sums; the verdict rests on "
            "past forecasts from totals alone"
        )
        return (*super().remarks, calibration, *([str(nowcast)] if nowcast is not None else []))

    def plot(
        self,
        ax: Axes | None = None,
        levels: float | Sequence[float] = LEVELS,
        whole: bool = False,
        backend: str = "matplotlib",
    ) -> Any:
        """Plot the totals with their forecast and, beside it, the unfinished period.

        Arguments and result are those of `Forecast.plot`. With `ax` or plotly, only the totals are
        drawn; `nowcast.plot()` shows the unfinished period.
        """
        if self.nowcast is None or ax is not None or backend != "matplotlib":
            return super().plot(ax, levels, whole, backend)
        fig = figure()
        # As wide as a report, which would scroll a wider figure.
        fig.set_size_inches(11.5, 4.6)
        left, right = fig.subplots(1, 2, width_ratios=(1.5, 1.0))
        forecast_plot.forecast(self, left, levels, whole)
        self.nowcast.plot(right, levels)
        # The note of a single panel would overlap the title; the legend is the same in both panels.
        left.set_title("", loc="right")
        for panel in (left, right):
            if (legend := panel.get_legend()) is not None:
                legend.remove()
        legend_below(fig, left)
        return fig

    def save(self, path: str | Path) -> NoReturn:
        """Not available: raises ValueError."""
        self._refuse("save")

    def update(self, values: Any, times: Any = None, regressors: Any = None) -> NoReturn:
        """Not available: raises ValueError."""
        self._refuse("update")

    def scenario(self, values: Mapping[str, Any] | None = None, /, **regressors: Any) -> NoReturn:
        """Not available: raises ValueError."""
        self._refuse("scenario")

    def _refuse(self, name: str) -> NoReturn:
        raise ValueError(
            f"{name} is not available for a mixed forecast: call forecast_mixed again with all "
            "totals and values."
        )

    @property
    def model(self) -> None:
        """None, because no model of a single frequency describes both."""
        return

    @property
    def posterior(self) -> None:
        """None, because the model has no target for the inference methods."""
        return


@dataclass(frozen=True, eq=False, repr=False)
class Nowcast(Quantiles):
    """Distribution of the total of the unfinished period.

    The total is the sum of the observed values and of the forecast of the rest.

    Attributes:
        forecast: The forecast, whose first step is the unfinished period.
    """

    forecast: MixedForecast

    @property
    def period(self) -> str:
        """The period in words, such as "November 2025"."""
        return moments(self.forecast, self.forecast.times[:1])[0]

    @property
    def observed(self) -> float:
        """Sum of the observed values of the period."""
        return float(np.sum(self.forecast._observed))

    @property
    def observed_count(self) -> int:
        """Number of observed values of the period."""
        return len(self.forecast._observed)

    @property
    def count(self) -> int:
        """Number of values of the whole period, observed or not."""
        return int(np.diff(self.forecast._edges[:2])[0])

    @property
    def share(self) -> float:
        """Share of the values of the period that are observed."""
        return self.observed_count / self.count

    @property
    def units(self) -> str:
        """Number of values of the period in words, such as "30 days"."""
        calendar = self.forecast.fine.calendar
        names = {"day": "day", "business": "business day"}
        is_month = "month" in calendar.kind and calendar.every == 1
        return counted(self.count, "month" if is_month else names.get(calendar.kind, "value"))

    @cached_property
    def rest(self) -> QuantileAverage:
        """Joint distribution of the remaining values of the period, (count - observed_count,)."""
        return self.forecast._rest()

    @property
    def mean(self) -> float:
        """Mean of the total."""
        return float(self.forecast.mean[0])

    @property
    def sd(self) -> float:
        """Standard deviation of the total."""
        return float(self.forecast.sd[0])

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles of the total, for one probability or several."""
        return self.forecast.quantile(q)[..., 0]

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the running total, from the first value to the whole period.

        Args:
            n: Number of paths.
            seed: Random seed.

        Returns:
            Shape (n, count); the last column is the total.
        """
        n, seed = validation.positive_integer(n, "n"), validation.seed(seed)
        observed = np.broadcast_to(self.forecast._observed, (n, self.observed_count))
        return np.cumsum(np.hstack([observed, self.rest.sample(n, seed)]), axis=1)

    def plot(self, ax: Axes | None = None, levels: float | Sequence[float] = LEVELS) -> Figure:
        """Plot observed and forecast values of the period, and the previous period.

        Args:
            ax: Axes to draw in; a new figure if None.
            levels: Probabilities of the central intervals.
        """
        ax = figure().subplots() if ax is None else ax
        fine, rest = self.forecast.fine, self.rest
        calendar, count = fine.calendar, self.count
        wall = calendar.wall(fine.times)
        # The previous period, for comparison.
        shown, begin = slice(-(self.observed_count + count), None), wall[-self.observed_count]
        x = calendar.wall(
            np.concatenate([fine.times[-1:], calendar.future(count - self.observed_count)])
        )
        fan(ax, x, fine.values[-1], rest, levels, linewidth=1.4)
        style = {"linewidth": 1.0, "marker": "o", "markersize": 2.6}
        ax.axvspan(begin, wall[-1], color=HISTORY_COLOR, alpha=0.07, linewidth=0)
        ax.plot(wall[shown], fine.values[shown], color=HISTORY_COLOR, label="observed", **style)
        concise_dates(ax, x)
        text = self.in_words
        title = f"{self.period}: {text['median']} (80 %: {text['interval']})"
        ax.set_title(title, loc="left", fontsize=12, parse_math=False)
        note = f"shaded: {text['observed']}"
        ax.text(0.01, 0.985, note, transform=ax.transAxes, va="top", fontsize=8.5, color=NOTE_COLOR)
        ax.set_ylabel(short_name(fine.value_name), parse_math=False)
        low, high = ax.get_ylim()
        # Room for the note.
        ax.set_ylim(low, high + 0.08 * (high - low))
        tidy(ax)
        plain_numbers(ax)
        legend_under(ax)
        return cast("Figure", ax.figure)

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        return {name: np.atleast_1d(value) for name, value in super()._columns(level).items()}

    @property
    def in_words(self) -> dict[str, str]:
        """Rounded numbers: "median", "interval" (80 %) and "observed"."""
        show = predictive_format(self.forecast)
        median, lower, upper, observed = (
            show(float(value)) for value in (*self.quantile([0.5, 0.1, 0.9]), self.observed)
        )
        observed = f"{observed} observed in {self.observed_count} of {self.units}"
        return {"median": median, "interval": f"{lower} to {upper}", "observed": observed}

    def __str__(self) -> str:
        text = self.in_words
        return (
            f"nowcast of {self.period}: {text['median']} (80 % interval {text['interval']}), of "
            f"which {text['observed']}"
        )

    __repr__ = __str__
