"""The forecast of a series: scenarios, updates, tables, plots and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core import netcdf, validation
from bayeskern.core.files import require_file
from bayeskern.core.formatting import counted
from bayeskern.forecast import forecast_plot
from bayeskern.forecast.combine.future_effects import continued, scenario_of
from bayeskern.forecast.combine.updating import SPARE_STEPS_AFTER_UPDATE, likely_times, updated
from bayeskern.forecast.conformal import ConformalIntervals, conformal
from bayeskern.forecast.explain import explain
from bayeskern.forecast.forecast_text import summary, value_table
from bayeskern.forecast.model.transformation import require_all, require_possible
from bayeskern.forecast.predicted_series import LEVELS, PredictedSeries
from bayeskern.forecast.saved.file import FORMAT, contents
from bayeskern.forecast.saved.state import fields_of
from bayeskern.forecast.show import html
from bayeskern.forecast.show.record import finite, plain, series_facts, times_as_text
from bayeskern.forecast.show.saving import csv_text, write_files
from bayeskern.forecast.show.totals import totals
from bayeskern.inference.posterior.load import restored
from bayeskern.series.new_values import new_values

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Number of joint draws for totals.
TOTAL_DRAWS = 4_000


@dataclass(frozen=True, eq=False)
class Forecast(PredictedSeries):
    """Predictive distribution of the next `horizon` values, as `forecast` returns it.

    Quantiles are weighted averages of the quantiles of the fitted structures, each averaged over
    its hyperparameters. For counts and shares they are the quantiles of a mixture over structures
    and draws of their hyperparameters. mean and sd are on the scale of the values, even if the
    logarithm was fitted.

    Attributes:
        before: Forecast before the first `update`; None if it was not updated.
    """

    before: Forecast | None = None

    def scenario(self, values: Mapping[str, Any] | None = None, /, **regressors: Any) -> Forecast:
        """Forecast for other future values of regressors and events.

        Nothing is fitted again: the structures, the draws of their hyperparameters and all other
        regressors stay the same. `compare_scenarios` shows the differences between scenarios.

        Args:
            values: Name of a regressor or event -> its future values, for names that are not Python
                identifiers, such as `{"unit price": 4.5}`.
            **regressors: Future values by name: a number; one number for each future time; a pandas
                Series indexed by time, whose other times are ignored; or dates, for a regressor of
                zeros and ones and for events. Uncertain values are draws of shape (S, horizon), or
                (S, 1) if they are the same at all times; a distribution of SciPy or NumPyro, of
                independent values or of the whole path; or a `Forecast` of the regressor, whose
                joint draws are used. Rows of several arrays of draws belong together.

        Returns:
            The forecast in the scenario. With uncertain regressors it is a mixture over their
            draws; its components are computed at the mean of the regressors.

        Raises:
            ValueError: If the forecast has no effects, a name is unknown, or values do not suit the
                horizon or are not finite.

        Examples:
            ```python
            cheaper = forecast.scenario(price=0.9 * price, promotion=["2025-11-28"])
            weather = bk.forecast(temperature, forecast.horizon)
            forecast.scenario(temperature=weather)
            ```
        """
        values = {**(values or {}), **regressors}
        series, combination = scenario_of(
            self.combination, self.series, self.horizon, values, self.seed
        )
        choices = combination.choices
        return replace(self, series=series, combination=combination, choices=choices)

    def update(self, values: Any, times: Any = None, regressors: Any = None) -> Forecast:
        """Continue the forecast after new values, without fitting again.

        The structures and the draws of their hyperparameters are reweighted by the likelihood of
        the new values. This suffices if the new values are few relative to the old ones; `trust`
        reports when too few effective draws are left.

        Up to max(12, a tenth of the series) new values are cheap, because each draw stores the
        joint distribution of the next values. For more values, for robust noise and for counts it
        is recomputed for each draw.

        Args:
            values: New values, (m,), NaN where missing; or a number; or a file, a frame or a
                series with times, whose values after the end of the series are used.
            times: Times of the new values, (m,); the next times of the series if None.
            regressors: Regressors and events by name, at the times of the new values and over the
                horizon after them, (m + horizon,), in the forms of `scenario`; or a frame of them.
                Known values need not be repeated: a frame, or a series indexed by time, may contain
                the other times only. Holidays are always known.

        Returns:
            The forecast of the `horizon` values after the longer series.

        Raises:
            ValueError: If the values or times do not continue the series, or a regressor is
                unknown.
        """
        if self.combination is None:
            raise ValueError("a constant series has no fit to update: forecast the longer series.")
        remarks: tuple[str, ...] = ()
        if times is None:
            times, values, remarks = new_values(values, self.series)
        series = self.series.extended(values, times).with_remarks(*remarks)
        (lower, upper), new = self.choices.bounds, series.values[len(self.series.values) :]
        added = np.flatnonzero(np.isfinite(new))
        y, times = new[added], series.times[len(self.series.values) :][added]

        def labels() -> list[str]:
            return self.time_labels(times)

        require_all(
            (y >= lower) & (y <= upper),
            y,
            labels,
            f"values must lie between {lower:g} and {upper:g}",
        )
        if self.choices.likelihood is not None:
            require_possible(y, self.choices.likelihood, labels)
        combination = continued(
            self.combination, self.series, series, self.horizon, regressors, self.seed
        )
        choices = combination.choices
        x = series.calendar.positions(series.times[series.observed])
        next_times = likely_times(series, self.horizon, choices, SPARE_STEPS_AFTER_UPDATE)
        parts = updated(combination.parts, x, series.values[series.observed], *next_times)
        return replace(
            self,
            series=series,
            choices=choices,
            combination=replace(combination, parts=parts),
            method_posterior=None,
            before=self.before or self,
        )

    def conformal(self, level: float = 0.95) -> ConformalIntervals:
        """Conformal intervals from the errors of rolling-origin forecasts, by step ahead.

        Each step uses the k-th largest of n past errors, with k = ceil((n + 1) level), scaled to
        the size of future errors, which was learned from many series. If these past errors and the
        future ones are exchangeable, an interval has at least this coverage, even if the model is
        wrong; errors of a time series are dependent, so the coverage is approximate.

        Args:
            level: Probability of the intervals.

        Returns:
            The intervals, the Bayesian intervals beside them, and a remark if the two disagree by
            more than chance. The ends are infinite at steps with fewer than level / (1 - level)
            past errors.

        Raises:
            ValueError: If no step has enough past errors for the level.
        """
        return conformal(self, level)

    # -- output -------------------------------------------------------------------------------

    def totals(self, every: str, levels: float | Sequence[float] = LEVELS) -> pd.DataFrame:
        """Sums over calendar periods, from joint draws, including known values.

        Args:
            every: "minute", "hour", "day", "week", "month", "quarter" or "year".
            levels: Probabilities of the central intervals.

        Returns:
            A row for each complete period that ends within the horizon, with the columns of
            `to_frame`.

        Raises:
            ValueError: If times are numbers or irregular, or if no period is complete.
        """

        def paths() -> np.ndarray:
            return self.sample(TOTAL_DRAWS, self.seed)

        return totals(self.series, paths, self.mean, every, levels)

    def plot(
        self,
        ax: Axes | None = None,
        levels: float | Sequence[float] = LEVELS,
        whole: bool = False,
        backend: str = "matplotlib",
    ) -> Any:
        """Plot the history and the forecast with its intervals.

        Args:
            ax: Axes of matplotlib to draw in; a new figure if None.
            levels: Probabilities of the central intervals.
            whole: Show the whole history, rather than its last seasons.
            backend: "matplotlib"; or "plotly" for a figure to zoom into, with the numbers under
                the pointer.

        Returns:
            A Figure of matplotlib, or of plotly.graph_objects.

        Raises:
            ImportError: If plotly is not installed.
            ValueError: If the backend is unknown, or does not draw in axes.
        """
        if validation.one_of("backend", backend, ("matplotlib", "plotly")) == "matplotlib":
            return forecast_plot.forecast(self, ax, levels, whole)
        if ax is not None:
            raise ValueError('ax belongs to matplotlib: leave it out, or use backend="matplotlib".')
        return forecast_plot.interactive(self, levels, whole)

    def plot_components(
        self, figure: Figure | None = None, level: float = 0.95, whole: bool = False
    ) -> Figure:
        """Plot the components over history and future, with central intervals.

        All panels have one time axis. Cycles of a smooth trend are drawn as a part of it, because
        the series determines the sum of the two better than each of them.

        Args:
            figure: Figure to draw in; a new figure if None.
            level: Probability of the central intervals.
            whole: Show the whole history, rather than the last 40 periods of the shortest season.
        """
        return forecast_plot.components(self, figure, level, whole)

    def export(self, folder: str | Path, levels: float | Sequence[float] = LEVELS) -> list[Path]:
        """Write forecast.csv, forecast.png and components.png; return their paths."""
        contents = {"forecast.csv": self.to_csv(levels), "forecast.png": self.plot(levels=levels)}
        if self.components:
            contents["components.png"] = self.plot_components()
        return write_files(folder, contents)

    def save(self, path: str | Path) -> None:
        """Write the forecast to a netCDF file, which `bk.load` and xarray can read.

        The loaded forecast predicts, updates, plots and reports like this one. Nothing is fitted
        again, and nothing is pickled.

        Args:
            path: Name of the file, such as "sales.nc". It is written completely or not at all.

        Raises:
            OSError: If the path is a folder or cannot be written to.
            ValueError: If a kernel of the user contains a function, or the suffix is that of a
                table or a picture, which `export` writes.
        """
        if Path(path).suffix in (".csv", ".png", ".html", ".parquet", ".xlsx"):
            raise ValueError(
                f"save writes a file for bk.load, such as 'sales.nc', not {str(path)!r}. For "
                "tables and pictures, use export(folder)."
            )
        require_file(path, "forecast.nc")
        netcdf.write(contents(self), path, "forecast.nc")

    def to_csv(self, levels: float | Sequence[float] = LEVELS) -> str:
        """CSV text with a row for each future time and the columns of `to_frame`.

        Numbers have ten digits. The column "verdict" holds the verdict; the first row adds its
        reason.
        """
        import pandas as pd  # slow to import

        verdict = self.trust.verdict
        reasons = [f"{verdict}: {self.trust.advice}", *[verdict] * (self.horizon - 1)]
        index = pd.Index(self.time_labels(self.times), name=self.series.time_name)
        return csv_text(pd.DataFrame({**self._table(levels), "verdict": reasons}, index=index))

    def to_dict(self, levels: float | Sequence[float] = LEVELS) -> dict[str, Any]:
        """Plain Python values, ready for JSON and for experiment trackers.

        Args:
            levels: Probabilities of the central intervals.

        Returns:
            Dictionary of text, numbers, lists and dictionaries. Numbers that are not finite are
            None. Keys:

            - version: version of bayeskern.
            - series: name, values and times (names of the columns), frequency, time_zone, count of
              observed values, first and last time.
            - model: horizon, seed, seasons, scale, structure, likelihood; numbers or text.
            - weights: weights of the trends and of the scales.
            - verdict, advice, remarks: `trust.verdict`, `trust.advice` and a list of sentences.
            - metrics: name -> finite number, the evidence of the verdict, such as coverage_80.
            - forecast: name -> list with an entry for each step: times, median, mean, sd, lower_95,
              upper_95, ... Times are ISO 8601 text, with the offset if there is a time zone;
              numbers if the times of the series are numbers.
        """
        lengths = [self.series.calendar.in_words(period) for period in self.seasons.values()]
        likelihood = self.choices.likelihood
        return plain(
            {
                "version": version("bayeskern"),
                "series": series_facts(self.series),
                "model": {
                    "horizon": self.horizon,
                    "seed": self.seed,
                    "seasons": " and ".join(lengths) or "none",
                    "scale": self.described,
                    "structure": self.structure if self.parts else "constant",
                    "likelihood": None if likelihood is None else likelihood.title,
                },
                "weights": self.weights,
                "verdict": self.trust.verdict,
                "advice": self.trust.advice,
                "remarks": self.remarks,
                "metrics": finite(self.trust.evidence),
                "forecast": {"times": times_as_text(self.series, self.times)} | self._table(levels),
            }
        )

    def explain(self) -> str:
        """Three sentences on the level, the trend and season, and the uncertainty."""
        return explain(self)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        """The forecast in a notebook: words, a picture and the next values."""
        head, cells, left_out = value_table(self, 12)
        note = f"{counted(left_out, 'step')} left out before the last one" if left_out else ""
        return html.page(
            f"{self.series.name}: {counted(self.horizon, 'step')} ahead",
            self.plot(),
            html.table(head, cells, note),
            self.remarks,
            words=[explain(self), f"Verdict: {self.trust.verdict}. {self.trust.advice}"],
        )


def forecast_in(stored: netcdf.Stored) -> Forecast:
    """The forecast in the contents of a file.

    Raises:
        ValueError: The file has another format, a newer version, or other structures.
    """
    state = stored.state(FORMAT)
    before = None
    if state["before"] is not None:
        before = Forecast(**fields_of(state["before"], None))
    forecast = Forecast(**fields_of(state["fitted"], before), before=before)
    if state["fit"] is None or forecast.leading is None:
        return forecast
    groups = stored.groups.children["fit"]
    posterior = restored(state["fit"], groups, forecast.leading.target)
    return replace(forecast, method_posterior=posterior)
