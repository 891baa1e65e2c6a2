"""Coherent forecasts: draws, quantiles, tables, figures and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.core.formatting import abbreviated, aligned, counted, number, short, suggestion
from bayeskern.core.plotting import concise_dates, figure, legend_below, legend_under, panels, tidy
from bayeskern.forecast.forecast_plot import first_shown
from bayeskern.forecast.predicted_series import LEVELS
from bayeskern.forecast.reconcile.coupling import Coupling
from bayeskern.forecast.reconcile.past import past_points, score_table
from bayeskern.forecast.reconcile.weights import Projector
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.plot import FORECAST_COLOR, HISTORY_COLOR, NAIVE_COLOR, NOTE_COLOR
from bayeskern.forecast.show.saving import csv_text, write_files
from bayeskern.forecast.show.totals import columns_of_table, totals
from bayeskern.prediction.mixture import Quantiles

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class CoherentForecast(Quantiles):
    """Forecast of one series of a hierarchy, as draws that add up across series.

    Attributes:
        name: Name of the series.
        level: Level of the hierarchy.
        base: Forecast before the reconciliation.
        draws: Joint draws of the future path, (D, horizon). Row d of all series is one joint draw.
    """

    name: Any
    level: str
    base: Forecast
    draws: np.ndarray

    @property
    def times(self) -> np.ndarray:
        """Future times, (horizon,)."""
        return self.base.times

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return self.base.horizon

    @property
    def mean(self) -> np.ndarray:
        """Mean at each future time, (horizon,)."""
        return self.draws.mean(axis=0)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation at each future time, (horizon,)."""
        return self.draws.std(axis=0, ddof=1)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles at each future time: (horizon,), or (len(q), horizon) for several q."""
        return np.quantile(self.draws, validation.probabilities(q), axis=0)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Draws of the future path, (n, horizon); the same seed gives draws that add up."""
        n, rng = validation.positive_integer(n, "n"), np.random.default_rng(validation.seed(seed))
        return self.draws[rng.choice(len(self.draws), n, replace=n > len(self.draws))]

    def to_frame(self, level: float | Sequence[float] = LEVELS) -> pd.DataFrame:
        """Data frame with the rows and columns of `Forecast.to_frame`.

        Args:
            level: Probabilities of the central intervals.
        """
        import pandas as pd  # slow to import

        series = self.base.series
        index = series.calendar.index(self.times, series.time_name)
        table = columns_of_table(level, self.quantile, self.mean, self.sd)
        return pd.DataFrame(table, index=index)

    def totals(self, every: str, levels: float | Sequence[float] = LEVELS) -> pd.DataFrame:
        """Sums over calendar periods, as `Forecast.totals`, which add up across series."""
        return totals(self.base.series, lambda: self.draws, self.mean, every, levels)

    def plot(self, ax: Axes | None = None, level: float = 0.8) -> Figure:
        """Plot the history, and the forecast before and after the reconciliation."""
        ax = figure().subplots() if ax is None else ax
        self._draw(ax, level)
        legend_under(ax)
        return cast("Figure", ax.figure)

    def _draw(self, ax: Axes, level: float) -> None:
        """Draw the series in axes, without a legend."""
        base, past = self.base, self.base.series
        start, wall = first_shown(base), past.calendar.wall
        x = wall(past.calendar.grid(0))[start:]
        ax.plot(x, past.on_grid()[start:], color=HISTORY_COLOR, linewidth=1.0, label="observed")
        future = wall(self.times)
        lower, upper = self.interval(level)
        label = f"reconciled, {100 * level:g} % interval"
        ax.fill_between(future, lower, upper, color=FORECAST_COLOR, alpha=0.25, linewidth=0)
        ax.plot(future, self.median, color=FORECAST_COLOR, linewidth=1.6, label=label)
        style = {"color": NAIVE_COLOR, "linewidth": 0.9}
        ax.plot(future, base.median, label="base forecast", **style)
        for end in base.interval(level):
            ax.plot(future, end, linestyle=":", **style)
        concise_dates(ax, np.concatenate([x, future]))
        # No math: names may contain dollar signs.
        ax.set_title(short(str(self.name), 40), loc="left", fontsize=11, parse_math=False)
        ax.set_title(short(self.level, 24), loc="right", fontsize=8.5, color=NOTE_COLOR)
        tidy(ax)

    def __repr__(self) -> str:
        return f"CoherentForecast({self.name!r}, {self.horizon} steps, {len(self.draws)} draws)"


@dataclass(frozen=True, eq=False, repr=False)
class CoherentForecasts(Mapping):
    """Forecasts that add up, by name, from `reconcile` or `reconcile_temporal`.

    A mapping: `reconciled["North"]` is a `CoherentForecast`.

    Attributes:
        series: Forecast of each series.
        method: Weights of the reconciliation.
        notes: Decisions made by the reconciliation.
    """

    series: dict[Any, CoherentForecast]
    method: str
    notes: tuple[str, ...]

    def __getitem__(self, name: Any) -> CoherentForecast:
        if name not in self.series:
            raise KeyError(f"there is no series {name!r}.{suggestion(name, self.series)}")
        return self.series[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.series)

    def __len__(self) -> int:
        return len(self.series)

    @property
    def levels(self) -> dict[str, list[Any]]:
        """Level -> names of its series."""
        levels: dict[str, list[Any]] = {}
        for name, series in self.series.items():
            levels.setdefault(series.level, []).append(name)
        return levels

    @cached_property
    def scores(self) -> pd.DataFrame | None:
        """Scores of rolling-origin forecasts by level; None if the series are too short."""
        return None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the reconciliation and on its scores."""
        remarks, scores = [*self.notes], self.scores
        negative = [
            name
            for name, s in self.series.items()
            if np.nanmin(s.base.series.values) >= 0.0 and np.mean(s.draws < 0.0) > 0.001
        ]
        if negative:
            remarks.append(
                f"{counted(len(negative), 'series')} without a negative value "
                f"({abbreviated(negative)}) have negative draws: nonnegative=True sets them to 0"
            )
        if scores is not None:
            worse = scores.index[scores["crps"] > 1.02 * scores["crps_base"]]
            if len(worse):
                remarks.append(
                    f"past forecasts of {', '.join(map(str, worse))} were less accurate after the "
                    "reconciliation"
                )
        return tuple(remarks)

    def to_frame(self, levels: float | Sequence[float] = LEVELS) -> pd.DataFrame:
        """Data frame with a row for each future time of each series.

        Args:
            levels: Probabilities of the central intervals.

        Returns:
            Columns level and series, the time, and the columns of `Forecast.to_frame`.
        """
        import pandas as pd  # slow to import

        frames = []
        for name, series in self.series.items():
            frame = series.to_frame(levels).reset_index()
            frame.insert(0, "series", name)
            frame.insert(0, "level", series.level)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def export(self, path: str | Path, levels: float | Sequence[float] = LEVELS) -> Path:
        """Write the frame as CSV; return its path.

        Args:
            path: Name of the file.
            levels: Probabilities of the central intervals.
        """
        path = Path(path)
        text = csv_text(self.to_frame(levels).set_index("level"))
        (written,) = write_files(path.parent, {path.name: text})
        return written

    def plot(self, names: Sequence[Any] | None = None, level: float = 0.8) -> Figure:
        """Plot forecasts before and after the reconciliation, in a panel for each series.

        Args:
            names: Series to show; the first six by default.
            level: Probability of the central intervals.
        """
        names = [*self.series][:6] if names is None else [*names]
        fig, axes = panels(len(names), 2)
        for ax, name in zip(axes, names, strict=True):
            self[name]._draw(ax, level)
        legend_below(fig, axes[0])
        return fig

    def __repr__(self) -> str:
        first = next(iter(self.series.values()))
        lines = [f"{len(self)} forecasts that add up, {len(first.draws)} draws, {self.method}"]
        lines += [f"  remark    {remark}" for remark in self.remarks]
        if self.scores is not None:
            lines += ["", *(f"  {line}" for line in score_lines(self.scores))]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Reconciled(CoherentForecasts):
    """Forecasts of a hierarchy of series that add up. Returned by `reconcile`.

    Attributes:
        projector: The hierarchy and the weights.
        coupling: Copula of the base forecasts.
        seed: Random seed.
    """

    projector: Projector
    coupling: Coupling
    seed: int

    @cached_property
    def scores(self) -> pd.DataFrame | None:
        """Mean scores of rolling-origin forecasts, before and after the reconciliation.

        Returns:
            A row for each level and one for all series, with the number of series and, for the base
            and the coherent forecasts, the mean CRPS of the series and the energy score of the
            joint forecast; lower is better. None if the series are too short.
        """
        bases = [series.base for series in self.series.values()]
        return score_table(past_points(bases, self.coupling), self.projector, self.seed)


def score_lines(scores: pd.DataFrame) -> list[str]:
    """Lines of a table of scores, with four digits."""
    header = ["level", *(name.replace("_", " ") for name in scores.columns)]
    rows = [[str(row[0]), *(number(x, 4) for x in row[1:])] for row in scores.itertuples()]
    return aligned([header, *rows])
