"""The Gaussian process behind the data and its components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import jax
import numpy as np
from matplotlib.figure import Figure

from bayeskern.core.formatting import number, short, three_digits
from bayeskern.core.plotting import BLUE
from bayeskern.core.verdict import VERDICTS
from bayeskern.forecast.model.transformation import Scale
from bayeskern.gp.latent.model import LatentGP
from bayeskern.gp.regression import GPRegression
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component, component_names
from bayeskern.kernels.description import InputAxis
from bayeskern.prediction.mixture import Prediction, Quantiles
from bayeskern.protocols import columns_of
from bayeskern.reports.blocks import Block, folded, heading, text
from bayeskern.reports.kernel_description import direction, rounded
from bayeskern.reports.processes import ForecastProcess, Process
from bayeskern.reports.style import (
    INK,
    RULE,
    as_svg,
    bands,
    legend_above,
    panels,
    points,
)
from bayeskern.reports.subject import Subject
from bayeskern.reports.wording import percent, wrap_code

block = partial(Block, "process")
# The verdict on a prediction factors the covariance matrix once for each of a thousand further
# draws, which takes seconds beyond this number of rows.
MAX_CHECKED_ROWS = 200
# Function from a probability to the quantile at each point.
Quantile = Callable[[float], np.ndarray]


def has_function(subject: Subject) -> bool:
    """True if the model has a function to draw."""
    return bool(subject.processes) or isinstance(subject.model, LatentGP)


def process(subject: Subject) -> Iterator[Block]:
    """Functions of a model, and their components in words, figures and kernels."""
    for observed in subject.processes:
        if len(subject.processes) > 1:
            yield heading(f"Process {observed.site}")
        yield from _process(subject, observed)
    if not subject.processes:
        yield from _latent(subject, subject.model)


# -- a process with Gaussian noise -----------------------------------------------------------------


def _process(subject: Subject, process: Process) -> Iterator[Block]:
    axis = _axis(process.X, columns_of(subject.model))
    grids, left_out = _grids(process.X, axis, [process.kernels])
    slices = [(name, x, process.function(X).quantile) for name, x, X in grids]
    single = process.X.shape[1] == 1
    data = (process.X[:, 0], process.y) if single else None
    figure = as_svg(functions, slices, process.site, data)
    yield block("function", figure=figure, single=single)
    yield from left_out
    if isinstance(subject.model, GPRegression) and len(process.X) <= MAX_CHECKED_ROWS:
        X_new = np.concatenate([X for _, _, X in grids])
        prediction = subject.posterior.predict(X_new, latent=True)
        if isinstance(prediction, Quantiles):
            yield verdict_on([prediction])
    identity = Scale(log=False, shift=0.0, size=1.0)
    if len(process.names) > 1:
        yield heading("Components")
    yield from component_blocks(process, axis, identity)
    if single and len(process.names) > 1:
        ((name, x, X),) = grids
        parts = {key: (x, part.quantile) for key, part in process.components(X).items()}
        figure = as_svg(components, parts, x_label=name)
        yield from folded("Components", [block("components", figure=figure)])
    kernel = wrap_code(repr(rounded(process.kernels)))
    yield from folded("Kernel", [block("kernel", kernel=kernel)])


def _axis(X: np.ndarray, columns: Sequence | None) -> InputAxis:
    names = tuple(c if isinstance(c, str) else str(c) for c in columns or ())
    return InputAxis("", tuple(np.ptp(X, axis=0)), names)


def _grids(
    X: np.ndarray, axis: InputAxis, kernels: Sequence[Kernel]
) -> tuple[list[tuple[str, np.ndarray, np.ndarray]], list[Block]]:
    """(label, values, points) along each input, the others at medians, and a remark.

    Inputs of levels, such as the number of an output, are fixed at levels of the data, most
    frequent first. If there are no others, the values are the levels. The remark says how many
    functions the figure has no room for.
    """
    d, most = X.shape[1], 6  # More panels would make the figure too long.
    levels = [
        i for i in range(d) if any(part.of_levels for k in kernels for part in k.rough_parts(i, d))
    ]
    numbers = [i for i in range(d) if i not in levels]
    combinations, counts = np.unique(X[:, levels], axis=0, return_counts=True)
    frequent = combinations[np.argsort(-counts, kind="stable")]
    grids = []
    for i in numbers or levels:
        x, fixed = np.unique(X[:, i]), [j for j in levels if j != i]
        if numbers:
            pad = 0.05 * (x[-1] - x[0])
            x = np.linspace(x[0] - pad, x[-1] + pad, 160)
        for values in frequent if numbers else frequent[:1]:
            rows = np.tile(np.median(X, axis=0), (len(x), 1))
            rows[:, levels] = values
            rows[:, i] = x
            label = axis.name(i) if d > 1 or axis.names else "x"
            at = [f"{axis.name(j)} = {axis.value(j, rows[0, j])}" for j in fixed]
            grids.append((", ".join([label, *at]), x, rows))
    left_out = f"The first {most} of {len(grids)} such functions are drawn."
    return grids[:most], [text(left_out)] if len(grids) > most else []


def component_blocks(
    process: Process | ForecastProcess, axis: InputAxis, scale: Scale
) -> Iterator[Block]:
    """Components in words, with their shares of the variance.

    scale: Transformation from values of the fit to units of the data.
    """
    if len(process.names) < 2:
        sentence = _sentence(process, process.names[0], axis, scale, None)
        yield Block("blocks", "items", pairs=[("the function", sentence)])
        return
    parts, noise = process.components(process.X), process.noise()
    variances = [float(np.var(parts[name].mean)) for name in process.names]
    sentences = [_sentence(process, name, axis, scale, parts[name]) for name in process.names]
    names = [*process.names]
    if noise is not None:
        # Lists instead of a dict, because a component may also be named "noise".
        names, variances = [*names, "noise"], [*variances, noise]
        sentences.append("independent from one value to the next.")
    shares = np.array(variances) / np.sum(variances)
    rows = zip(names, shares, sentences, strict=True)
    pairs = [(name, f"{percent(share)} of the variance; {words}") for name, share, words in rows]
    yield Block("blocks", "items", pairs=pairs)


def _sentence(
    process: Process | ForecastProcess,
    name: str,
    axis: InputAxis,
    scale: Scale,
    part: Prediction | None,
) -> str:
    """Behaviour of a component, and its change over the data, in words.

    part: Prediction of the component at the data; None for the whole function.
    """
    if name not in component_names(process.kernels):
        # A forecast also has a mean, and effects of regressors and events.
        if part is None or name == process.names[0]:
            return "the mean of the values."
        return f"an effect{_span(part, scale)}."
    kernel = component(process.kernels, name)
    sentence = f"it {kernel.describe(axis)}"
    if process.X.shape[1] != 1:
        return f"{sentence}."
    if not any(isinstance(k, Kernel) and k.is_wave for k in kernel.nodes()):
        ends = np.array([[process.X.min()], [process.X.max()]])
        changes = _centred(scale).back(process.changes(name, ends))
        return f"{sentence}; {direction(changes, scale.log)}."
    return f"{sentence}." if part is None else f"{sentence}{_span(part, scale)}."


def _centred(scale: Scale) -> Scale:
    """Scale without its shift, for a component without the level of the data."""
    return Scale(scale.log, 0.0, scale.size)


def _span(part: Prediction, scale: Scale) -> str:
    """Range of the mean of a component over the data."""
    low, high = _centred(scale).back(np.array([part.mean.min(), part.mean.max()]))
    size = f"a factor of {number(high / low)}" if scale.log else number(high - low)
    return f"; from its lowest to its highest value it spans {size}"


# -- a process with a likelihood -------------------------------------------------------------------


def _latent(subject: Subject, model: LatentGP) -> Iterator[Block]:
    X = np.asarray(subject.posterior.known_target.args[0])
    axis = _axis(X, model.columns)
    slices, predicted = [], []
    grids, left_out = _grids(X, axis, model.kernels)
    for name, x, X_new in grids:
        f = subject.posterior.predict(X_new, latent=True)
        # If a likelihood has several latent functions, `predict` returns a dict of name ->
        # prediction.
        predictions = f if isinstance(f, dict) else {"": f}
        predicted += predictions.values()
        slices += [(f"{name} {k}".strip(), x, p.quantile) for k, p in predictions.items()]
    figure = as_svg(functions, slices[:12], "latent function")
    yield block("latent", figure=figure, model=type(model).__name__)
    yield from left_out
    yield verdict_on(predicted)
    flat, names = subject.posterior.flat, model.hyperparameters()
    medians = {name: three_digits(np.median(flat[name], axis=0)) for name in names if name in flat}
    kernels = model.at(medians).kernels
    for i, kernel in enumerate(kernels):
        name = "the function" if len(kernels) == 1 else f"function {i}"
        single_draw = jax.tree.map(lambda leaf: np.asarray(leaf)[None], kernel)
        sentence = f"it {single_draw.describe(axis)}."
        yield Block("blocks", "items", pairs=[(name, sentence)])
        yield from folded("Kernel", [block("kernel", kernel=wrap_code(repr(kernel)))])


def verdict_on(predictions: Sequence[Quantiles]) -> Block:
    """The worst verdict on predictions, as a remark."""
    trust = max((p.trust for p in predictions), key=lambda trust: VERDICTS.index(trust.verdict))
    return text(f"Verdict on the mean and the sd of this function: {trust.verdict}. {trust.advice}")


# -- figures ---------------------------------------------------------------------------------------


def functions(
    slices: Sequence[tuple[str, np.ndarray, Quantile]],
    y_label: str,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> Figure:
    """Plot the function along each input.

    Args:
        slices: (name, x, quantile) of each input.
        y_label: Label of the y axis.
        data: (x, y), if there is one input.
    """
    columns = 1 if len(slices) == 1 else 2
    fig, axes = panels(len(slices), columns=columns, height=2.8 if columns == 1 else 2.0)
    for ax, (name, x, quantile) in zip(axes, slices, strict=True):
        _fan(ax, x, quantile)
        ax.set_xlabel(short(name, 24))
    axes[0].set_ylabel(short(y_label, 24))
    if data is not None:
        points(axes[0], *data, color=INK, size=6, alpha=0.55, label="observed")
    legend_above(fig, axes[0])
    return fig


def _fan(ax, x: np.ndarray, quantile: Quantile) -> None:
    """Median and bands along x."""
    bands(ax, x, quantile)
    ax.plot(x, quantile(0.5), color=BLUE, label="median")
    ax.margins(x=0.01)


def components(parts: Mapping[str, tuple[np.ndarray, Quantile]], x_label: str) -> Figure:
    """Plot each component, name -> (x, quantile), in a panel with a line at 0."""
    fig, axes = panels(len(parts), columns=1, height=1.45)
    for ax, (name, (x, quantile)) in zip(axes, parts.items(), strict=True):
        ax.axhline(0.0, color=RULE, linewidth=0.8, zorder=0)
        _fan(ax, x, quantile)
        ax.set_title(short(name, 24))
    axes[-1].set_xlabel(short(x_label, 24))
    legend_above(fig, axes[0])
    return fig
