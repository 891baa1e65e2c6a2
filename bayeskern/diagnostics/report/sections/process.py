"""The function behind the data, taken apart: a Gaussian process, or a forecast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import ndtri

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import alike, number, three_digits
from bayeskern.diagnostics.report.blocks import (
    Code,
    Figure,
    Heading,
    Items,
    Missing,
    Table,
    Text,
)
from bayeskern.diagnostics.report.kernel_description import (
    InputAxis,
    describe,
    direction,
    rounded,
)
from bayeskern.diagnostics.report.processes import Process
from bayeskern.diagnostics.report.sections import process_plots as plots
from bayeskern.diagnostics.report.style import LEVELS, svg
from bayeskern.diagnostics.report.wording import folded, percent
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.show.plot import first_shown
from bayeskern.gp.latent.model import LatentGP
from bayeskern.kernels.components import component, component_names
from bayeskern.kernels.families import periodic
from bayeskern.protocols import columns_of

GRID, MAX_SLICES = 160, 6
# How many seasons are shown of a component that repeats.
SEASONS = 3
# How many steps of a forecast the table has.
FORECAST_ROWS = 8


def process(subject) -> Iterator:
    if subject.forecast is not None:
        yield from _forecast(subject)
        return
    if not subject.has_model:
        yield Missing("Without the model its functions cannot be computed.")
        return
    for observed in subject.processes:
        if len(subject.processes) > 1:
            yield Heading(f"Process {observed.site}")
        yield from _process(subject, observed)
    if subject.processes:
        return
    if isinstance(subject.model, LatentGP):
        yield from _latent(subject, subject.model)
    else:
        yield Missing(
            "The model has no Gaussian process with Gaussian noise, so there is no function to "
            "draw or to take apart."
        )


# -- a process with Gaussian noise -----------------------------------------------------------------


def _process(subject, process: Process) -> Iterator:
    names = tuple(map(str, columns_of(subject.model) or ()))
    axis = InputAxis("", tuple(np.ptp(process.X, axis=0)), names)
    slices = [
        (_input_name(axis, i), x, process.function(X).quantile)
        for i, (x, X) in enumerate(_grids(process.X))
    ]
    single = process.X.shape[1] == 1
    data = (process.X[:, 0], process.y) if single else None
    yield Figure(
        svg(plots.functions, slices, process.site, data),
        "The function without noise: median and bands at 50, 80 and 95 %. Good: it follows the "
        "data without chasing single points, and widens where there are none."
        if single
        else "The function along each input, the others at their medians; bands at 50, 80 and "
        "95 %.",
    )
    yield from _components(process, axis)
    yield Text("The kernel at the median of its hyperparameters:")
    kernel = rounded(process.kernels)
    yield Code(folded(repr(kernel)))
    yield Text("The solver of its covariance matrix, what it takes, and why no other was taken:")
    yield Code(repr(process.explain(kernel)))


def _input_name(axis: InputAxis, i: int) -> str:
    return axis.name(i) if len(axis.extent) > 1 or axis.names else "x"


def _grids(X):
    """Along each input, the others at their medians: values (GRID,) and points (GRID, d)."""
    medians = np.median(X, axis=0)
    for i in range(min(X.shape[1], MAX_SLICES)):
        low, high = X[:, i].min(), X[:, i].max()
        pad = 0.05 * (high - low)
        x = np.linspace(low - pad, high + pad, GRID)
        points = np.tile(medians, (GRID, 1))
        points[:, i] = x
        yield x, points


class Units(NamedTuple):
    """How numbers of the fit become numbers of the data, whose unit has a name."""

    scale: Scale
    name: str = ""

    @property
    def factor(self) -> bool:
        """Whether components multiply one another."""
        return self.scale.log

    def of_part(self, z):
        """The values of one component, which does not carry the level."""
        return Scale(self.scale.log, 0.0, self.scale.size).back(z)


PLAIN = Units(Scale(False, 0.0, 1.0))


def _components(process: Process, axis: InputAxis, units: Units = PLAIN) -> Iterator:
    if len(process.names) < 2:
        sentence = _sentence(process, process.names[0], axis, units, None)
        yield Items((("the function", sentence),))
        return
    at_data = process.components(process.X)
    names, noise = [*process.names], process.noise()
    variances = np.array([np.var(at_data[name].mean) for name in names])
    sentences = [_sentence(process, name, axis, units, at_data[name]) for name in names]
    if noise is not None:
        # It stands last, and a component may have the same name.
        names.append("noise")
        variances = np.append(variances, noise)
        sentences.append("no memory.")
    shares = variances / variances.sum()
    yield Heading("Components")
    yield Items(
        tuple(
            (name, f"{percent(share)} of the variance; {sentence}")
            for name, share, sentence in zip(names, shares, sentences, strict=True)
        )
    )
    if units is not PLAIN:
        # A forecast shows its components over time, past and future.
        return
    yield Figure(
        svg(plots.variance_shares, names, shares),
        "Shares of the variance over the data, of each component's mean. What is noise cannot be "
        "foretold.",
    )
    if process.X.shape[1] == 1:
        (x, X), *_ = _grids(process.X)
        parts = {name: (x, part.quantile) for name, part in process.components(X).items()}
        yield Figure(
            svg(plots.components, parts, x_label=axis.names[0] if axis.names else "x"),
            "Each component by itself, about zero over the data but for the first, which carries "
            "the level. Bands at 50, 80 and 95 %.",
        )


def _sentence(process: Process, name: str, axis: InputAxis, units: Units, part) -> str:
    """One component in words: what it does, where it went, and how certain that is.

    part: its prediction at the data, where it is not the whole function.
    """
    if name not in component_names(process.kernels):
        # Beside the kernel a forecast has a mean, and effects of regressors and events.
        if name == process.names[0]:
            return "the mean of the values."
        return f"an effect{_span(part, units)}."
    kernel = component(process.kernels, name)
    sentence = f"it {describe(kernel, axis)}"
    if process.X.shape[1] != 1:
        return f"{sentence}."
    if not _repeats(kernel):
        ends = np.array([[process.X.min()], [process.X.max()]])
        changes = units.of_part(process.changes(name, ends))
        return f"{sentence}; {direction(changes, units.name, units.factor)}."
    return f"{sentence}." if part is None else f"{sentence}{_span(part, units)}."


def _span(part, units: Units) -> str:
    """How far the mean of a component goes over the data."""
    low, high = units.of_part(np.array([part.mean.min(), part.mean.max()]))
    size = f"a factor of {number(high / low)}" if units.factor else number(high - low)
    return f"; from its lowest to its highest it spans {size}"


def _repeats(kernel) -> bool:
    """Whether the kernel has a part that repeats."""
    if isinstance(kernel, periodic.Periodic | periodic.Cosine):
        return True
    return any(_repeats(child) for _, child in kernel.children())


# -- a process seen through a likelihood -----------------------------------------------------------


def _latent(subject, model) -> Iterator:
    X = np.asarray(subject.posterior.target.args[0])
    axis = InputAxis("", tuple(np.ptp(X, axis=0)), tuple(map(str, model.columns or ())))
    slices = []
    for i, (x, points) in enumerate(_grids(X)):
        f = subject.posterior.predict(points, latent=True)
        # A likelihood of several latent functions has a prediction for each, by name.
        predictions = f if isinstance(f, dict) else {"": f}
        slices += [
            (f"{_input_name(axis, i)} {output}".strip(), x, prediction.quantile)
            for output, prediction in predictions.items()
        ]
    yield Figure(
        svg(plots.functions, slices[: 2 * MAX_SLICES], "latent function"),
        "The latent function, on the scale of the link, along each input with the others at their "
        "medians. Bands at 50, 80 and 95 %; where they hold zero, the sign is open.",
    )
    yield Missing(
        f"A {type(model).__name__} is not taken apart into components: that is done for a "
        "GPRegression, or a GaussianProcess that is observed, whose parts have a closed form."
    )
    flat, names = subject.posterior.flat, model.hyperparameters()
    medians = {name: three_digits(np.median(flat[name], axis=0)) for name in names if name in flat}
    kernels = model.at(medians).kernels
    for i, kernel in enumerate(kernels):
        title = "the function" if len(kernels) == 1 else f"function {i}"
        yield Items(((title, f"it {describe(_as_draws(kernel), axis)}."),))
        yield Code(folded(repr(kernel)))


def _as_draws(kernel):
    """The kernel as one draw of its hyperparameters."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], kernel)


# -- a forecast ------------------------------------------------------------------------------------


def _forecast(subject) -> Iterator:
    f = subject.forecast
    yield Figure(
        svg(plots.forecast, f, first_shown(f)),
        "History and forecast: median and bands at 50, 80 and 95 % for new observations. Good: the "
        "bands widen with the horizon, and the forecast goes on as the history went.",
    )
    yield _values(f)
    if not f.parts:
        yield Missing("A constant series has no components.")
        return
    (process,) = subject.processes
    unit = f.series.calendar.unit
    yield from _components(process, InputAxis(unit, (float(np.ptp(process.X)),)), Units(f.scale))
    yield _components_over_time(f)


def _values(f) -> Table:
    lower, upper = f.interval(0.95)
    median, labels = f.median, f.time_labels(f.times)
    rows = np.unique(evenly(f.horizon, FORECAST_ROWS))
    values = np.stack([median, lower, upper], axis=1)[rows]
    # The narrowest interval says how many decimals all of them have.
    spread = np.min(values[:, 2] - values[:, 1]) / (2.0 * ndtri(0.975))
    seen = f.choices.likelihood
    if seen is not None and seen.whole:
        cells = np.reshape([f"{v:,.0f}" for v in values.ravel()], values.shape)
    else:
        cells = np.reshape(alike(values.ravel(), spread, 5), values.shape)
    return Table(
        (f.series.time_name, "median", "95 % from", "to"),
        tuple((labels[i], *row) for i, row in zip(rows, cells.tolist(), strict=True)),
    )


def _components_over_time(f) -> Figure:
    """The components over history and future, in the units of the data."""
    calendar = f.series.calendar
    times = calendar.grid(f.horizon)
    by_level = {level: f.decompose(times, level) for level in LEVELS}
    parts = {}
    for name in f.components:
        shown = _window(f, name, len(times))
        quantiles = {0.5: by_level[0.5][name]["median"][shown]}
        for level in LEVELS:
            tail = round(0.5 * (1.0 - level), 6)
            quantiles[tail] = by_level[level][name]["lower"][shown]
            quantiles[round(1.0 - tail, 6)] = by_level[level][name]["upper"][shown]
        # The default argument binds the values of this turn of the loop.
        parts[name] = (calendar.wall(times[shown]), lambda q, of=quantiles: of[round(q, 6)])
    now = calendar.wall(f.series.times[-1:])[0]
    return Figure(
        svg(plots.components, parts, now, None, f.series.time_name),
        "Each component over history and future (shaded); the trend carries the level, the others "
        + ("are factors about 1." if f.scale.log else "are differences from it."),
    )


def _window(f, name: str, count: int) -> slice:
    """The steps that are shown: of a season a few periods around the last observation."""
    period = f.seasons.get(name)
    if period is None:
        return slice(0, count)
    steps = max(4, int(np.ceil(SEASONS * period / f.series.calendar.step)))
    now = count - f.horizon
    return slice(max(0, now - steps), min(count, now + steps))
