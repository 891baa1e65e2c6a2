"""The function behind the data and its components: a Gaussian process, or a forecast."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from scipy.special import ndtri

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import alike, number, three_digits
from bayeskern.diagnostics.report.blocks import Block, code, heading
from bayeskern.diagnostics.report.figures import process as plots
from bayeskern.diagnostics.report.figures.style import drawn
from bayeskern.diagnostics.report.kernel_description import (
    InputAxis,
    describe,
    direction,
    rounded,
)
from bayeskern.diagnostics.report.processes import ForecastProcess, Process
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.diagnostics.report.wording import folded, percent
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.plot import first_shown
from bayeskern.gp.latent.model import LatentGP
from bayeskern.kernels.components import component, component_names
from bayeskern.kernels.families import periodic
from bayeskern.prediction.mixture import Prediction
from bayeskern.protocols import columns_of

block = partial(Block, "process")


def process(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Function and components", or "Forecast and components"."""
    if subject.forecast is not None:
        yield from _forecast(subject, subject.forecast)
        return
    if not subject.has_model:
        yield block("no_model")
        return
    for observed in subject.processes:
        if len(subject.processes) > 1:
            yield heading(f"Process {observed.site}")
        yield from _process(subject, observed)
    if subject.processes:
        return
    if isinstance(subject.model, LatentGP):
        yield from _latent(subject, subject.model)
    else:
        yield block("no_process")


# -- a process with Gaussian noise -----------------------------------------------------------------


def _process(subject: Subject, process: Process) -> Iterator[Block]:
    names = tuple(map(str, columns_of(subject.model) or ()))
    axis = InputAxis("", tuple(np.ptp(process.X, axis=0)), names)
    slices = [
        (_input_name(axis, i), x, process.function(X).quantile)
        for i, (x, X) in enumerate(_grids(process.X))
    ]
    single = process.X.shape[1] == 1
    data = (process.X[:, 0], process.y) if single else None
    figure = drawn(plots.functions, slices, process.site, data)
    yield block("function", figure=figure, single=single)
    yield from _components(process, axis, Scale(False, 0.0, 1.0))
    kernel = rounded(process.kernels)
    yield block("kernel", kernel=folded(repr(kernel)), solver=repr(process.explain(kernel)))


def _input_name(axis: InputAxis, i: int) -> str:
    return axis.name(i) if len(axis.extent) > 1 or axis.names else "x"


def _grids(
    X: np.ndarray, count: int = 160, max_inputs: int = 6
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Values (count,) and points (count, d) along each input, the others at their medians."""
    medians = np.median(X, axis=0)
    for i in range(min(X.shape[1], max_inputs)):
        low, high = X[:, i].min(), X[:, i].max()
        pad = 0.05 * (high - low)
        x = np.linspace(low - pad, high + pad, count)
        points = np.tile(medians, (count, 1))
        points[:, i] = x
        yield x, points


def _components(
    process: Process | ForecastProcess, axis: InputAxis, scale: Scale
) -> Iterator[Block]:
    """Components in words and in figures; scale: from values of the fit to units of the data."""
    if len(process.names) < 2:
        sentence = _sentence(process, process.names[0], axis, scale, None)
        yield Block("blocks", "items", pairs=[("the function", sentence)])
        return
    at_data = process.components(process.X)
    names, noise = [*process.names], process.noise()
    variances = np.array([np.var(at_data[name].mean) for name in names])
    sentences = [_sentence(process, name, axis, scale, at_data[name]) for name in names]
    if noise is not None:
        # The noise stands last, since a component may have the same name.
        names.append("noise")
        variances = np.append(variances, noise)
        sentences.append("no memory.")
    shares = variances / variances.sum()
    rows = zip(names, shares, sentences, strict=True)
    pairs = [(name, f"{percent(share)} of the variance; {words}") for name, share, words in rows]
    yield heading("Components")
    yield Block("blocks", "items", pairs=pairs)
    if isinstance(process, ForecastProcess):
        # The components of a forecast are shown over past and future.
        return
    yield block("shares", figure=drawn(plots.variance_shares, names, shares))
    if process.X.shape[1] == 1:
        (x, X), *_ = _grids(process.X)
        parts = {name: (x, part.quantile) for name, part in process.components(X).items()}
        label = axis.names[0] if axis.names else "x"
        yield block("components", figure=drawn(plots.components, parts, x_label=label))


def _sentence(
    process: Process | ForecastProcess,
    name: str,
    axis: InputAxis,
    scale: Scale,
    part: Prediction | None,
) -> str:
    """A component in words: its behaviour, its change over the data, and how certain that is.

    part: prediction of the component at the data; None for the whole function.
    """
    if name not in component_names(process.kernels):
        # A forecast also has a mean, and effects of regressors and events.
        if part is None or name == process.names[0]:
            return "the mean of the values."
        return f"an effect{_span(part, scale)}."
    kernel = component(process.kernels, name)
    sentence = f"it {describe(kernel, axis)}"
    if process.X.shape[1] != 1:
        return f"{sentence}."
    if not _repeats(kernel):
        ends = np.array([[process.X.min()], [process.X.max()]])
        changes = _centred(scale).back(process.changes(name, ends))
        return f"{sentence}; {direction(changes, scale.log)}."
    return f"{sentence}." if part is None else f"{sentence}{_span(part, scale)}."


def _centred(scale: Scale) -> Scale:
    """The scale of a component that does not carry the level."""
    return Scale(scale.log, 0.0, scale.size)


def _span(part: Prediction, scale: Scale) -> str:
    """Range of the mean of a component over the data."""
    low, high = _centred(scale).back(np.array([part.mean.min(), part.mean.max()]))
    size = f"a factor of {number(high / low)}" if scale.log else number(high - low)
    return f"; from its lowest to its highest it spans {size}"


def _repeats(kernel: Any) -> bool:
    """True if a part of the kernel is periodic."""
    if isinstance(kernel, periodic.Periodic | periodic.Cosine):
        return True
    return any(_repeats(child) for _, child in kernel.children())


# -- a process with a likelihood -------------------------------------------------------------------


def _latent(subject: Subject, model: LatentGP) -> Iterator[Block]:
    X = np.asarray(subject.target.args[0])
    axis = InputAxis("", tuple(np.ptp(X, axis=0)), tuple(map(str, model.columns or ())))
    slices = []
    for i, (x, points) in enumerate(_grids(X)):
        f = subject.posterior.predict(points, latent=True)
        # Each latent function of a likelihood has a prediction by name.
        predictions = f if isinstance(f, dict) else {"": f}
        slices += [
            (f"{_input_name(axis, i)} {output}".strip(), x, prediction.quantile)
            for output, prediction in predictions.items()
        ]
    figure = drawn(plots.functions, slices[:12], "latent function")
    yield block("latent", figure=figure, model=type(model).__name__)
    flat, names = subject.posterior.flat, model.hyperparameters()
    medians = {name: three_digits(np.median(flat[name], axis=0)) for name in names if name in flat}
    kernels = model.at(medians).kernels
    for i, kernel in enumerate(kernels):
        name = "the function" if len(kernels) == 1 else f"function {i}"
        single_draw = jax.tree.map(lambda leaf: np.asarray(leaf)[None], kernel)
        sentence = f"it {describe(single_draw, axis)}."
        yield Block("blocks", "items", pairs=[(name, sentence)])
        yield code(folded(repr(kernel)))


# -- a forecast ------------------------------------------------------------------------------------


def _forecast(subject: Subject, f: Forecast) -> Iterator[Block]:
    yield block("forecast", figure=drawn(plots.forecast, f, first_shown(f)))
    yield _values(f)
    if not f.parts:
        yield block("constant_series")
        return
    process = subject.forecast_process
    axis = InputAxis(f.series.calendar.unit, (float(np.ptp(process.X)),))
    yield from _components(process, axis, f.scale)
    yield _components_over_time(f)


def _values(f: Forecast, max_rows: int = 8) -> Block:
    """Table of medians and intervals at some of the steps."""
    lower, upper = f.interval(0.95)
    steps = np.unique(evenly(f.horizon, max_rows))
    values = np.stack([f.median, lower, upper], axis=1)[steps]
    # All cells have the decimals of the narrowest interval.
    spread = np.min(values[:, 2] - values[:, 1]) / (2.0 * ndtri(0.975))
    likelihood = f.choices.likelihood
    if likelihood is not None and likelihood.whole:
        cells = [f"{value:,.0f}" for value in values.ravel()]
    else:
        cells = alike(values.ravel(), spread, 5)
    labels = f.time_labels(f.times)
    rows = [(labels[step], *cells[3 * i : 3 * i + 3]) for i, step in enumerate(steps)]
    return block("values", time=f.series.time_name, rows=rows)


def _components_over_time(f: Forecast, seasons: int = 3) -> Block:
    """The components over history and future, in the units of the data.

    seasons: number of periods shown of a seasonal component.
    """
    calendar = f.series.calendar
    times = calendar.grid(f.horizon)
    by_level = {level: f.decompose(times, level) for level in COVERAGES}
    now, parts = len(times) - f.horizon, {}
    for name in f.components:
        shown = slice(0, len(times))
        if name in f.seasons:
            steps = max(4, int(np.ceil(seasons * f.seasons[name] / calendar.step)))
            shown = slice(max(0, now - steps), min(len(times), now + steps))
        quantiles = {0.5: by_level[0.5][name]["median"][shown]}
        for level in COVERAGES:
            tail = round(0.5 * (1.0 - level), 6)
            quantiles[tail] = by_level[level][name]["lower"][shown]
            quantiles[round(1.0 - tail, 6)] = by_level[level][name]["upper"][shown]
        # The default argument binds the values of this turn of the loop.
        parts[name] = (calendar.wall(times[shown]), lambda q, of=quantiles: of[round(q, 6)])
    last = calendar.wall(f.series.times[-1:])[0]
    figure = drawn(plots.components, parts, last, None, f.series.time_name)
    return block("components_over_time", figure=figure, factors=f.scale.log)
