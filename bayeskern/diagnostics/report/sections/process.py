"""The function behind the data, taken apart: a Gaussian process, or a forecast."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bayeskern.core.formatting import alike, number
from bayeskern.diagnostics.report.blocks import (
    Code,
    Figure,
    Heading,
    Items,
    Missing,
    Table,
    Text,
    percent,
)
from bayeskern.diagnostics.report.kernel_description import (
    Axis,
    describe,
    direction,
    rounded,
    three_digits,
)
from bayeskern.diagnostics.report.processes import Process
from bayeskern.diagnostics.report.sections import process_plots as plots
from bayeskern.diagnostics.report.style import svg
from bayeskern.forecast.model import Scale
from bayeskern.kernels import periodic
from bayeskern.kernels.components import component

GRID, SLICES = 160, 6
# How many seasons are shown of a component that repeats.
SEASONS = 3


def process(subject) -> Iterator:
    if subject.forecast is not None:
        yield from _forecast(subject)
        return
    if not subject.has_model:
        yield Missing("Without the model its functions cannot be computed.")
        return
    found = subject.processes
    for one in found:
        if len(found) > 1:
            yield Heading(f"Process {one.site}")
        yield from _process(subject, one)
    if found:
        return
    model = subject.posterior.target.model
    if hasattr(model, "kernels") and hasattr(model, "likelihood"):
        yield from _latent(subject, model)
    else:
        yield Missing(
            "The model has no Gaussian process with Gaussian noise, so there is no function to "
            "draw or to take apart."
        )


# -- a process with Gaussian noise -----------------------------------------------------------------


def _process(subject, one: Process) -> Iterator:
    names = getattr(subject.posterior.target.model, "columns", None) or ()
    axis = Axis("", tuple(np.ptp(one.X, axis=0)), tuple(map(str, names)))
    grids = _grids(one.X)
    found = [
        (axis.name(i) if one.X.shape[1] > 1 or names else "x", x, one.function(X).quantile)
        for i, (x, X) in enumerate(grids)
    ]
    single = one.X.shape[1] == 1
    data = (one.X[:, 0], one.y) if single else None
    yield Figure(
        svg(plots.functions, found, one.site, "f", data),
        "The function without noise: median and bands at 50, 80 and 95 %. Good: it follows the "
        "data without chasing single points, and widens where there are none."
        if single
        else "The function along each input, the others at their medians; bands at 50, 80 and "
        "95 %.",
    )
    yield from _decomposed(one, axis)
    yield Text("The kernel at the median of its hyperparameters:")
    yield Code(_folded(rounded(one.kernels)))


def _grids(X):
    """Along each input, the others at their medians: values (GRID,) and points (GRID, d)."""
    middle = np.median(X, axis=0)
    for i in range(min(X.shape[1], SLICES)):
        low, high = X[:, i].min(), X[:, i].max()
        pad = 0.05 * (high - low)
        x = np.linspace(low - pad, high + pad, GRID)
        points = np.tile(middle, (GRID, 1))
        points[:, i] = x
        yield x, points


class Units(NamedTuple):
    """How numbers of the fit become those of the data: back(values), and whether as factors."""

    scale: Scale
    name: str = ""

    @property
    def factor(self) -> bool:
        return self.scale.log

    def of_level(self, z):
        return self.scale.back(z)

    def of_part(self, z):
        return Scale(self.scale.log, 0.0, self.scale.size).back(z)


PLAIN = Units(Scale(False, 0.0, 1.0))


def _decomposed(one: Process, axis: Axis, units: Units = PLAIN) -> Iterator:
    if len(one.names) < 2:
        yield Items((("the function", _sentence(one, one.names[0], axis, units, None)),))
        return
    at_data = one.components(one.X)
    spread = {name: float(np.var(part.mean)) for name, part in at_data.items()}
    whole = sum(spread.values()) + one.noise()
    shares = {name: spread[name] / whole for name in spread}
    yield Heading("Components")
    sentences = []
    for name in one.names:
        does = _sentence(one, name, axis, units, at_data[name])
        sentences.append((name, f"{percent(shares[name])} of the variance; {does}"))
    sentences.append(("noise", f"{percent(one.noise() / whole)} of the variance; no memory."))
    yield Items(tuple(sentences))
    names = [*shares, "noise"]
    yield Figure(
        svg(plots.shares, names, [*shares.values(), one.noise() / whole]),
        "Shares of the variance over the data, of each component's mean. What is noise cannot be "
        "foretold.",
    )
    if one.X.shape[1] == 1 and units is PLAIN:
        (x, X), *_ = _grids(one.X)
        parts = {name: (x, part.quantile) for name, part in one.components(X).items()}
        yield Figure(
            svg(plots.components, parts, x_label=axis.names[0] if axis.names else "x"),
            "Each component by itself, about zero over the data but for the first, which carries "
            "the level. Bands at 50, 80 and 95 %.",
        )


def _sentence(one: Process, name: str, axis: Axis, units: Units, part) -> str:
    """One component in words: what it does, and where it went, and how certain that is."""
    kernel = component(one.kernels, name)
    says = f"it {describe(kernel, axis)}"
    if one.X.shape[1] != 1:
        return f"{says}."
    if _waves(kernel):
        if part is not None:
            low, high = units.of_part(np.array([part.mean.min(), part.mean.max()]))
            size = f"a factor of {number(high / low)}" if units.factor else number(high - low)
            says += f"; from its lowest to its highest it spans {size}"
        return f"{says}."
    ends = np.array([[one.X.min()], [one.X.max()]])
    changes = units.of_part(one.changes(name, ends))
    return f"{says}; {direction(changes, units.name, units.factor)}."


def _waves(kernel) -> bool:
    """Whether the kernel has a part that repeats."""
    own = isinstance(kernel, periodic.Periodic | periodic.Cosine)
    return own or any(_waves(k) for _, k in kernel.children())


# -- a process seen through a likelihood -----------------------------------------------------------


def _latent(subject, model) -> Iterator:
    X = np.asarray(subject.posterior.target.args[0])
    names = tuple(map(str, model.columns or ()))
    axis = Axis("", tuple(np.ptp(X, axis=0)), names)
    grids = list(_grids(X))
    found = []
    for i, (x, points) in enumerate(grids):
        f = subject.posterior.predict(points, latent=True)
        outputs = f.items() if hasattr(f, "items") else [("", f)]
        for output, one in outputs:
            label = axis.name(i) if X.shape[1] > 1 or names else "x"
            found.append((f"{label} {output}".strip(), x, one.quantile))
    yield Figure(
        svg(plots.functions, found[: 2 * SLICES], "latent function", "f"),
        "The latent function, on the scale of the link, along each input with the others at their "
        "medians. Bands at 50, 80 and 95 %; where they hold zero, the sign is open.",
    )
    yield Missing(
        f"A {type(model).__name__} is not taken apart into components: that is done for a "
        "GPRegression, or a GaussianProcess that is observed, whose parts have a closed form."
    )
    flat = subject.posterior.flat
    known = model.hyperparameters()
    middle = {name: three_digits(np.median(flat[name], axis=0)) for name in known if name in flat}
    fitted = model.at(middle)
    for i, kernel in enumerate(fitted.kernels):
        stacked = _one_draw(kernel)
        title = "the function" if len(fitted.kernels) == 1 else f"function {i}"
        yield Items(((title, f"it {describe(stacked, axis)}."),))
        yield Code(_folded(kernel))


def _folded(kernel) -> str:
    return textwrap.fill(repr(kernel), 88, subsequent_indent="    ", break_long_words=False)


def _one_draw(kernel):
    import jax

    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], kernel)


# -- a forecast ------------------------------------------------------------------------------------


def _forecast(subject) -> Iterator:
    f = subject.forecast
    yield Figure(
        svg(plots.forecast, f, _first_shown(f)),
        "History and forecast: median and bands at 50, 80 and 95 % for new observations. Good: the "
        "bands widen with the horizon, and the forecast goes on as the history went.",
    )
    yield _values(f)
    if f.posterior is None:
        yield Missing("A constant series has no components.")
        return
    (one,) = subject.processes
    unit = f.series.calendar.unit
    axis = Axis(unit, (float(np.ptp(one.X)),))
    yield from _decomposed(one, axis, Units(f.scale))
    yield from _components_of(f)
    note = "years" if unit == "years" else "steps"
    yield Text(
        f"The kernel at the median of its hyperparameters, for time in {note} since the first "
        "observation and values brought to mean 0 and sd 1:"
    )
    yield Code(_folded(rounded(one.kernels)))


def _first_shown(f) -> int:
    steps = int(f.series.calendar.steps()[-1]) + 1
    season = max(f.seasons.values(), default=0.0) / f.series.calendar.step
    return max(0, steps - int(max(5 * f.horizon, 3 * season, 30)))


def _values(f) -> Table:
    lower, upper = f.interval(0.95)
    median, labels = f.median, f.time_labels(f.times)
    rows = np.unique(np.linspace(0, f.horizon - 1, min(f.horizon, 8)).round().astype(int))
    values = np.stack([median, lower, upper], axis=1)[rows]
    # The narrowest interval says how many decimals all of them have.
    spread = np.min(values[:, 2] - values[:, 1]) / (2.0 * ndtri(0.975))
    cells = np.reshape(alike(values.ravel(), spread, 5), values.shape)
    return Table(
        (f.series.time_name, "median", "95 % from", "to"),
        tuple((labels[i], *row) for i, row in zip(rows, cells.tolist(), strict=True)),
    )


def _components_of(f) -> Iterator:
    """The components over history and future, in the units of the data."""
    calendar = f.series.calendar
    times = calendar.grid(f.horizon)
    window = {name: _window(f, name, len(times)) for name in f.components}
    levels = (0.5, 0.8, 0.95)
    found = {level: f.decompose(times, level) for level in levels}
    parts = {}
    for name in f.components:
        low, high = window[name]
        own = {0.5: found[0.5][name]["median"][low:high]}
        for level in levels:
            tail = round(0.5 * (1.0 - level), 6)
            own[tail] = found[level][name]["lower"][low:high]
            own[round(1.0 - tail, 6)] = found[level][name]["upper"][low:high]
        parts[name] = (calendar.wall(times[low:high]), lambda q, own=own: own[round(q, 6)])
    now = calendar.wall(f.series.times[-1:])[0]
    yield Figure(
        svg(plots.components, parts, now, None, f.series.time_name),
        "Each component over history and future (shaded); the trend carries the level, the others "
        + ("are factors about 1." if f.scale.log else "are differences from it."),
    )


def _window(f, name, count) -> tuple[int, int]:
    """A season is shown for a few of its periods around the last observation."""
    period = f.seasons.get(name)
    if period is None:
        return 0, count
    steps = max(4, int(np.ceil(SEASONS * period / f.series.calendar.step)))
    now = count - f.horizon
    return max(0, now - steps), min(count, now + steps)
