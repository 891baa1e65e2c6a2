"""A forecast: its numbers, its components, and how to write them down."""

from __future__ import annotations

import csv
import io
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.forecast import plot, uncompiled
from bayeskern.forecast.model import LEVEL
from bayeskern.forecast.scale import Scale
from bayeskern.forecast.series import Series
from bayeskern.gp import GPRegression
from bayeskern.gp.components import centered_components
from bayeskern.inference import Posterior, Trust
from bayeskern.kernels.components import component_names
from bayeskern.prediction.mixture import Prediction, Quantiles

LEVELS = (0.5, 0.8, 0.95)
# With fewer values than this the hyperparameters are hardly known.
FEW_VALUES = 10
# How wide the text is that people read.
WIDTH = 100


@dataclass(frozen=True, eq=False)
class Forecast(Quantiles):
    """The predictive distribution of the next `horizon` values of a series.

    Quantiles and intervals are exact for the fitted model, averaged over its hyperparameters. mean
    and sd are those of the values themselves, also where the logarithm was fitted. Returned by
    `forecast`.

    Attributes:
        series: The data as they were read, with their calendar.
        horizon: The number of steps ahead.
        seasons: Name of a season -> its period, in years (steps, for plain numbers).
        scale: The scale that was chosen: the values as given, or their logarithm.
        model: The model that was fitted; None for a constant series.
        posterior: The fit; None for a constant series.
    """

    series: Series
    horizon: int
    seasons: dict[str, float]
    scale: Scale
    model: GPRegression | None
    posterior: Posterior | None

    # -- the numbers --------------------------------------------------------------------------

    @cached_property
    def times(self) -> np.ndarray:
        """The future times, shape (horizon,): naive UTC if the series has a time zone."""
        return self.series.calendar.future(self.horizon)

    @property
    def mean(self) -> np.ndarray:
        """The mean at each future time, shape (horizon,)."""
        return self._moments[0]

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation at each future time, shape (horizon,)."""
        return self._moments[1]

    def quantile(self, q) -> np.ndarray:
        """Quantiles at each future time.

        Args:
            q: A probability in (0, 1), or several.

        Returns:
            Shape (horizon,), or (len(q), horizon) for several.
        """
        return self.scale.back(self._prediction.quantile(q))

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the future path.

        Args:
            n: How many paths.
            seed: The same seed gives the same paths.

        Returns:
            Shape (n, horizon).
        """
        return self.scale.back(self._prediction.sample(n, seed))

    def log_density(self, y) -> np.ndarray:
        """Log predictive density of the values that came true, time by time.

        Args:
            y: Those values, shape (horizon,).

        Returns:
            Shape (horizon,); -inf where the model rules a value out, at or below zero on the log
            scale.
        """
        y = np.asarray(validation.targets(y, self.horizon))
        if self.posterior is None:
            return np.where(y == self.scale.shift, np.inf, -np.inf)
        possible = self.scale.covers(y)
        y = np.where(possible, y, 1.0)
        density = self._prediction.log_density(self.scale.forward(y)) + self.scale.log_jacobian(y)
        return np.where(possible, density, -np.inf)

    @property
    def trust(self) -> Trust:
        """How far to trust the fit, and why."""
        if self.posterior is None:
            return Trust("not assessable", "The series is constant: nothing shows how it may vary.")
        return self.posterior.trust

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What was noticed and done on the way."""
        if self.posterior is None:
            constant = "the series is constant: the forecast is flat and its interval has no width"
            return (*self.series.remarks, constant)
        remarks, y = list(self.series.remarks), self.series.values[self.series.observed]
        if len(y) < FEW_VALUES and self.posterior.method in ("map", "mle"):
            remarks.append(
                f"with {len(y)} values, intervals built on a point estimate may be much too "
                "narrow: expect more misses than they promise"
            )
        if np.min(y) >= 0 and np.min(self.interval()[0]) < 0:
            advice = (
                "for counts, take a model of counts (BayesianGLM or LatentGP, Poisson likelihood)"
            )
            if np.min(y) > 0:
                advice = "if none can be, ask for a positive forecast (positive=True, --positive)"
            remarks.append(f"no value is negative, but the 95 % interval reaches there: {advice}")
        return tuple(remarks)

    # -- components ---------------------------------------------------------------------------

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the additive terms, the one that carries the level first."""
        if self.model is None:
            return ()
        names = component_names(self.model.kernel)
        return (LEVEL, *(name for name in names if name != LEVEL))

    def decompose(self, times=None, level: float = 0.95) -> dict[str, dict[str, np.ndarray]]:
        """Every component at the given times, with its own uncertainty.

        The trend carries the level of the series, in its units. The others are differences from
        it, each about 0 over the observed times or, on the log scale, factors about 1.

        Args:
            times: Shape (n,): dates, datetimes, text or numbers; the future ones by default.
            level: The probability of the central intervals.

        Returns:
            Name of a component -> its "median", "lower" and "upper", each of shape (n,).

        Raises:
            ValueError: For a constant series, which has no components.
        """
        if self.posterior is None:
            raise ValueError("a constant series has no components.")
        tail = 0.5 * (1.0 - validation.level(level))
        target = self.posterior.target
        X = self.series.calendar.positions(self.times if times is None else times)[:, None]
        parts = centered_components(target.model, self.posterior.flat, target.args, X, LEVEL)
        intervals = {}
        for name, part in parts.items():
            shift = self.scale.shift if name == LEVEL else 0.0
            scale = Scale(self.scale.log, shift, self.scale.size)
            median, lower, upper = scale.back(part.quantile([0.5, tail, 1.0 - tail]))
            intervals[name] = {"median": median, "lower": lower, "upper": upper}
        return intervals

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

    def plot(self, ax=None, levels=LEVELS):
        """The history and the forecast with its intervals; returns the figure."""
        return plot.forecast(self, ax, levels)

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
        """CSV text: a row for each future time, ten digits; the columns of `to_frame`."""
        table = self._table(levels)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([self.series.time_name, *table])
        for time, *row in zip(self.time_labels(self.times), *table.values(), strict=True):
            writer.writerow([time, *(f"{x:.10g}" for x in row)])
        return text.getvalue()

    def time_labels(self, times) -> list[str]:
        """Times as one writes them: a date where all are at midnight."""
        return self.series.calendar.labels(times)

    def _table(self, levels) -> dict[str, np.ndarray]:
        table = {"median": self.median, "mean": self.mean, "sd": self.sd}
        for level in np.ravel(levels):
            name = f"{100 * validation.level(level):g}".replace(".", "_")
            table[f"lower_{name}"], table[f"upper_{name}"] = self.interval(level)
        return table

    # -- inside -------------------------------------------------------------------------------

    @cached_property
    def _prediction(self) -> Prediction:
        """The prediction of z, on the scale that was fitted."""
        if self.posterior is None:
            zeros = np.zeros((1, self.horizon))
            return Prediction(
                lambda: zeros, lambda: (zeros, zeros), lambda key, n: np.zeros((n, self.horizon))
            )
        return uncompiled.predict(self.posterior, self.series.calendar.positions(self.times))

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        means, variances = self.scale.moments(*self._prediction.parts)
        return means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0))

    def __repr__(self) -> str:
        return summary(self)


def summary(f: Forecast, rows: int = 6, level: float = 0.95) -> str:
    """What was inferred, the fit, and the next few values, for people to read.

    Args:
        f: The forecast.
        rows: How many future times to show; the last one is shown beside them.
        level: The probability of the intervals.

    Returns:
        Text of several lines.

    Examples:
        A constant series takes no fit:

        >>> from bayeskern.forecast.forecast import forecast
        >>> print(summary(forecast([3.0, 3.0, 3.0, 3.0], 2)))
        value: 4 values of value, 0 to 3
          time      integers, step 1
          seasons   none
          scale     as given
          fit       not assessable: The series is constant: nothing shows how it may vary.
          remark    the series is constant: the forecast is flat and its interval has no width
        <BLANKLINE>
          time  median   95 % interval
             4   3.000  3.000 to 3.000
             5   3.000  3.000 to 3.000
    """
    series = f.series
    first, last = f.time_labels(series.times[[0, -1]])
    count = int(series.observed.sum())
    lengths = [f"{period / series.calendar.step:.4g}" for period in f.seasons.values()]
    facts = [
        ("time", series.calendar.description),
        ("seasons", f"{' and '.join(lengths)} steps" if lengths else "none"),
        ("scale", "logarithm" if f.scale.log else "as given"),
        ("fit", f"{f.trust.verdict}: {f.trust.advice}"),
        *(("remark", remark) for remark in f.remarks),
    ]
    lines = [f"{series.name}: {count} values of {series.value_name}, {first} to {last}"]
    for name, text in facts:
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12
        )
    return "\n".join([*lines, "", *_value_lines(f, rows, level)])


def _value_lines(f: Forecast, rows: int, level: float) -> list[str]:
    """The first future values and the last one, in columns."""
    lower, upper = f.interval(level)
    labels, median = f.time_labels(f.times), f.median
    show = _format(f.series.values[f.series.observed])
    cells = [[f.series.time_name, "median", f"{100 * level:g} % interval"]]
    for i in range(f.horizon):
        if i < rows or i == f.horizon - 1:
            cells.append([labels[i], show(median[i]), f"{show(lower[i])} to {show(upper[i])}"])
        elif i == rows:
            cells.append(["...", "", ""])
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )
    return [f"  {line}".rstrip() for line in lines]


def _format(values: np.ndarray):
    """How to write numbers so that about four figures of the spread of the series show."""
    spread = float(np.ptp(values)) or float(np.max(np.abs(values))) or 1.0
    digits = int(3 - np.floor(np.log10(spread)))
    return "{:.4g}".format if digits > 9 or digits < -9 else f"{{:,.{max(digits, 0)}f}}".format
