"""Forecast a series: read it, choose the scale, fit the model, and keep what was found."""

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
from bayeskern.forecast import plot
from bayeskern.forecast.model import (
    Scale,
    default_kernel,
    default_noise,
    is_constant,
    name_seasons,
    require_ordinary,
    require_positive,
)
from bayeskern.forecast.reading import read_series
from bayeskern.forecast.series import Series
from bayeskern.gp import GPRegression
from bayeskern.gp.components import centred_components
from bayeskern.inference import MAP, Posterior, Trust, infer
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.prediction.mixture import Prediction

# Series are filled up to a multiple of this with masked rows, so that series of nearly the same
# length share their compiled functions.
BUCKET = 32
LEVELS = (0.5, 0.8, 0.95)
# Dense covariances of more values than this take gigabytes each and a step of the fit minutes.
MOST_VALUES = 10_000
# Nor can more steps be of use; as many as this from 1000 values take gigabytes too.
MOST_STEPS = 100_000
# With fewer values than this the hyperparameters are hardly known.
FEW_VALUES = 10
# How wide the text is that people read.
WIDTH = 100
# The component that carries the level of the series.
LEVEL = "trend"


def forecast(
    series,
    horizon: int,
    season=None,
    kernel: Kernel | None = None,
    method="map",
    *,
    times=None,
    time: str | None = None,
    value: str | None = None,
    positive: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Forecast:
    """Forecast the next `horizon` steps of a series, with uncertainty.

    series: a data set's name ("co2"), a CSV path, a pandas or polars frame or series, or an
    array; times: its times, where it brings none; time, value: the columns of a file or a frame.
    season: steps in a season, or several; None infers them from the dates; 0 for none.
    kernel: your own, for y standardised and time in years since the first observation (steps for
    plain numbers); None for trend + seasons + cycles. method: how to fit (see `infer`).
    positive: keep the forecast above zero, by fitting the logarithm.

    Raises ValueError, naming the column and the row, on bad input.
    """
    horizon = validation.positive_integer(horizon, "horizon")
    series = read_series(series, times, time, value)
    seasons = name_seasons(series.calendar, season)
    y = series.values[series.observed]
    if len(y) > MOST_VALUES:
        raise ValueError(
            f"{series.value_name} has {len(y)} values; at most {MOST_VALUES} can be fitted. "
            "Aggregate them (hours to days, say), or give the last part of the series."
        )
    require_within_reach(series, horizon, len(y))
    if positive:
        require_positive(y, series.calendar.labels(series.times[series.observed]))
    if is_constant(y):
        return Forecast(series, horizon, seasons, Scale(False, float(y[0]), 0.0), None, None)
    require_ordinary(y)
    t = series.calendar.positions(series.times[series.observed])
    if kernel is None:
        unit = max([*seasons.values()], default=series.calendar.step)
        kernel = default_kernel(seasons, unit, center=float(np.mean(t)))
    model = GPRegression(kernel, default_noise())
    mode, fits = MAP(starts=1, jacobian=True), {}
    for log in (True,) if positive else (False, True) if np.all(y > 0) else (False,):
        scale = Scale.of(y, log)
        data = _padded(t, scale.forward(y))
        posterior = infer(model, *data, method=mode, seed=seed, progress=progress)
        evidence = posterior.optimum.log_density + float(np.sum(scale.log_jacobian(y)))
        fits[scale] = (posterior, evidence if np.isfinite(evidence) else -np.inf)
    best = max(fits, key=lambda scale: fits[scale][1])
    posterior = fits[best][0]
    if method != "map":
        # The scale is chosen by the modes; only the chosen one is worth another method.
        data = _padded(t, best.forward(y))
        posterior = infer(model, *data, method=method, seed=seed, progress=progress)
    return Forecast(series, horizon, seasons, best, model, posterior)


def require_within_reach(series: Series, horizon: int, count: int) -> None:
    """Raise ValueError where so many steps from `count` values need too much memory, or years."""
    most = min(MOST_STEPS, MOST_VALUES**2 // count)
    if horizon > most:
        raise ValueError(
            f"horizon is {horizon}; from {count} values at most {most} steps can be forecast. "
            "Take fewer, or longer steps (days for hours, say)."
        )
    if series.calendar.unit == "years":
        last = series.times[-1].astype("M8[Y]").astype(int) + 1970
        if last + horizon * series.calendar.step >= 9999:
            raise ValueError(f"horizon: {horizon} steps go beyond the year 9999; take fewer.")


def _padded(t, z):
    """X, y and the mask that tells the real rows from those that fill up the bucket."""
    n = len(t)
    size = -(-n // BUCKET) * BUCKET
    X, y, mask = np.zeros(size), np.zeros(size), np.arange(size) < n
    X[:n], y[:n] = t, z
    return X, y, mask


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is known of the next `horizon` values of a series.

    series: the data as they were read; scale: the scale that was chosen; posterior: the fit (None
    for a constant series). Quantiles and intervals are exact for the fitted model; mean and sd
    are those of the values themselves, also where the logarithm was fitted.
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
        """The future times: (horizon,)."""
        return self.series.calendar.future(self.horizon)

    @property
    def median(self) -> np.ndarray:
        return self.quantile(0.5)

    @property
    def mean(self) -> np.ndarray:
        return self._moments[0]

    @property
    def sd(self) -> np.ndarray:
        return self._moments[1]

    def quantile(self, q) -> np.ndarray:
        """Quantiles at each future time: (horizon,), or (len(q), horizon) for several."""
        return self.scale.back(self._prediction.quantile(q))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval (lower, upper) of a new observation."""
        lower, upper = self._prediction.interval(level)
        return self.scale.back(lower), self.scale.back(upper)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the future path: (n, horizon)."""
        return self.scale.back(self._prediction.sample(n, seed))

    def log_density(self, y) -> np.ndarray:
        """Log predictive density of the values that came true: (horizon,).

        -inf where the model rules a value out: at or below zero on the log scale.
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
        """Every component at `times` (the future by default): its median, lower and upper.

        The trend carries the level of the series, in its units. The others are differences from
        it, each about 0 over the observed times or, on the log scale, factors about 1.
        """
        if self.posterior is None:
            raise ValueError("a constant series has no components.")
        tail = 0.5 * (1.0 - validation.level(level))
        target = self.posterior.target
        X = self.series.calendar.positions(self.times if times is None else times)[:, None]
        parts = centred_components(target.model, self.posterior.flat, target.args, X, LEVEL)
        found = {}
        for name, part in parts.items():
            shift = self.scale.shift if name == LEVEL else 0.0
            back = Scale(self.scale.log, shift, self.scale.size).back
            quantiles = back(part.quantile([0.5, tail, 1.0 - tail]))
            found[name] = dict(zip(("median", "lower", "upper"), quantiles, strict=True))
        return found

    def component(self, name: str, times=None, level: float = 0.95) -> dict[str, np.ndarray]:
        """One of the components of `decompose`."""
        found = self.decompose(times, level)
        return found[validation.one_of("component", name, found)]

    # -- out ----------------------------------------------------------------------------------

    def to_frame(self, levels=LEVELS):
        """A pandas data frame: a row for each future time, indexed by it, in its time zone."""
        import pandas as pd

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
        """CSV text: a row for each future time, ten digits."""
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

    def _table(self, levels) -> dict:
        table = {"median": self.median, "mean": self.mean, "sd": self.sd}
        for level in np.ravel(levels):
            name = f"{100 * validation.level(level):g}".replace(".", "_")
            table[f"lower_{name}"], table[f"upper_{name}"] = self.interval(level)
        return table

    # -- inside -------------------------------------------------------------------------------

    @cached_property
    def _prediction(self) -> Prediction:
        if self.posterior is None:
            zeros = np.zeros((1, self.horizon))
            return Prediction(
                lambda: zeros, lambda: (zeros, zeros), lambda key, n: np.zeros((n, self.horizon))
            )
        return self._predict(self.times)

    def _predict(self, times) -> Prediction:
        return self.posterior.predict(self.series.calendar.positions(times))

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        means, variances = self.scale.moments(*self._prediction.parts)
        return means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0))

    def __repr__(self) -> str:
        return summary(self)


def _format(values):
    """How to write numbers so that about four figures of the spread of the series show."""
    spread = float(np.ptp(values)) or float(np.max(np.abs(values))) or 1.0
    digits = int(3 - np.floor(np.log10(spread)))
    return "{:.4g}".format if digits > 9 or digits < -9 else f"{{:,.{max(digits, 0)}f}}".format


def summary(f: Forecast, rows: int = 6, level: float = 0.95) -> str:
    """What was inferred, the fit, and the next few values, for people to read."""
    s = f.series
    labels = f.time_labels(s.times[[0, -1]])
    lengths = [f"{period / s.calendar.step:.4g}" for period in f.seasons.values()]
    facts = [
        ("time", s.calendar.description),
        ("seasons", f"{' and '.join(lengths)} steps" if lengths else "none"),
        ("scale", "logarithm" if f.scale.log else "as given"),
        ("fit", f"{f.trust.verdict}: {f.trust.advice}"),
        *(("remark", remark) for remark in f.remarks),
    ]
    lines = [
        f"{s.name}: {int(s.observed.sum())} values of {s.value_name}, {labels[0]} to {labels[1]}"
    ]
    for name, text in facts:
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12
        )
    lower, upper = f.interval(level)
    future, median = f.time_labels(f.times), f.median
    show = _format(s.values[s.observed])
    cells = [[s.time_name, "median", f"{100 * level:g} % interval"]]
    for i in range(f.horizon):
        if i < rows or i == f.horizon - 1:
            cells.append([future[i], show(median[i]), f"{show(lower[i])} to {show(upper[i])}"])
        elif i == rows:
            cells.append(["...", "", ""])
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    lines.append("")
    for row in cells:
        line = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {line}".rstrip())
    return "\n".join(lines)
