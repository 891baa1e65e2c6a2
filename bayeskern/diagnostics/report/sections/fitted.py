"""What was fitted: the model as it was written, its priors, its data, and what it took."""

from __future__ import annotations

import inspect
import platform
import re
import textwrap
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.formatting import number
from bayeskern.diagnostics.report.blocks import Code, Figure, Heading, Missing, Table, Text
from bayeskern.diagnostics.report.priors import prior_density
from bayeskern.diagnostics.report.sections import parameters_plots as plots
from bayeskern.diagnostics.report.style import svg
from bayeskern.diagnostics.report.wording import folded, listed, of_series, shape_text
from bayeskern.protocols import columns_of, coords_of

VERSIONS = ("bayeskern", "numpyro", "jax", "arviz", "numpy")
# A longer representation of a model hides the rest of the report.
MAX_LETTERS = 6000


def fitted(subject) -> Iterator:
    if subject.forecast is None:
        yield Heading("Model")
        yield from _model(subject)
        yield Heading("Priors")
        yield from _priors(subject)
    elif not subject.forecast.parts:
        yield Missing("Nothing was fitted: a series of one constant value leaves nothing to learn.")
    yield Heading("Data")
    yield from _data(subject)
    yield Heading("Circumstances")
    yield from _circumstances(subject)


def _model(subject) -> Iterator:
    if not subject.has_model:
        yield Missing(
            "The posterior was read from a file, which does not keep the model's source; give "
            "bk.load(path, model=...) to see it here."
        )
        return
    text, note = source(subject.model)
    if note:
        yield (Text if text else Missing)(note)
    if text:
        yield Code(text if len(text) < MAX_LETTERS else f"{text[:MAX_LETTERS]}\n...")


def source(model) -> tuple[str, str]:
    """The source of a model or its parts, if they can be had; and a sentence on what that is."""
    while isinstance(model, Messenger | partial):
        model = model.fn if isinstance(model, Messenger) else model.func
    model_class = type(model)
    if model_class.__module__.partition(".")[0] == "bayeskern":
        parts = re.sub(r"\d+\.\d{7,}", lambda x: f"{float(x[0]):.6g}", repr(model))
        return folded(parts, 84), f"A {model_class.__name__} of bayeskern, with these parts:"
    try:
        text = inspect.getsource(model if inspect.isroutine(model) else model_class)
    except (OSError, TypeError):
        name = getattr(model, "__qualname__", model_class.__qualname__)
        return "", (
            f"The source of the model {name!r} cannot be had: it was not defined in a file that "
            "Python can still read."
        )
    return textwrap.dedent(text).rstrip(), ""


def _priors(subject) -> Iterator:
    if not subject.has_model:
        yield Missing("Without the model its priors cannot be shown.")
        return
    if not subject.priors:
        yield Missing("Every value of the model is fixed, so there is no prior to show.")
        return
    yield Table(
        ("site", "prior", "shape"),
        tuple((p.site, p.text, shape_text(p.shape)) for p in subject.priors),
    )
    densities = {p.site: prior_density(subject, p) for p in subject.priors}
    drawn = [density for density in densities.values() if density is not None]
    if drawn:
        yield Figure(
            svg(plots.densities, drawn[: plots.MAX_DENSITIES]),
            "Prior densities, of the first number of each site. Good: each puts its weight on "
            "values that you would believe before seeing the data, in the units of the model.",
        )
    without = [site for site, density in densities.items() if density is None]
    if without:
        yield Missing(f"No density can be drawn for {listed(without)}: there is no proper prior.")


def _data(subject) -> Iterator:
    if subject.forecast is not None:
        yield from _series(subject.forecast)
        return
    roles = {"observed_data": "observed", "constant_data": "given"}
    rows = [
        _description(str(name), role, np.asarray(values))
        for group, role in roles.items()
        for name, values in subject.tree.children.get(group, {}).items()
    ]
    if rows:
        head = ("name", "role", "shape", "smallest", "mean", "largest", "distinct")
        yield Table(head, tuple(rows))
    else:
        yield Missing("The model has no data: nothing is observed.")
    # A linear model names its features too where the columns have no names.
    columns = columns_of(subject.model) or coords_of(subject.model).get("feature")
    if columns:
        yield Text(f"Columns, in order: {', '.join(map(str, columns))}.")


def _description(name: str, role: str, values) -> tuple[str, ...]:
    x = values.astype(float)
    finite = x[np.isfinite(x)]
    shape = shape_text(x.shape)
    if not finite.size:
        return (name, role, shape, "-", "-", "-", "-")
    stats = (number(finite.min()), number(finite.mean()), number(finite.max()))
    return (name, role, shape, *stats, number(len(np.unique(finite))))


def _series(f) -> Iterator:
    s = f.series
    y, labels = s.values[s.observed], f.time_labels(s.times[[0, -1]])
    rows = [
        ("values", f"{len(y)}{of_series(s.value_name)}"),
        ("from, to", f"{labels[0]} to {labels[1]}"),
        ("time axis", s.calendar.description),
        ("smallest, mean, largest", ", ".join(map(number, (y.min(), y.mean(), y.max())))),
        ("missing", str(int((~s.observed).sum()))),
        ("fitted to", f.described),
        ("horizon", f"{f.horizon} steps"),
    ]
    yield Table(("series", s.name), tuple(rows))


def _circumstances(subject) -> Iterator:
    from importlib.metadata import PackageNotFoundError, version

    rows = [("Python", platform.python_version())]
    for package in VERSIONS:
        try:
            rows.append((package, version(package)))
        except PackageNotFoundError:
            rows.append((package, "not known"))
    rows.append(("seed of this report", str(subject.seed)))
    p = subject.posterior
    if subject.forecast is not None:
        rows.append(("seed of the forecast", str(subject.forecast.seed)))
    if p is not None:
        chains, count = p.shape
        rows.append(("method", p.method))
        rows.append(("draws", f"{chains} chain{'s' * (chains > 1)} of {count:,}"))
        if p.seed is not None:
            rows.append(("seed of the fit", str(p.seed)))
        rows += [(f"seconds: {part}", f"{seconds:.2f}") for part, seconds in p.timing.items()]
    yield Table(("what", "value"), tuple(rows))
    if p is not None and p.seed is None:
        yield Text("The seed of the fit was not kept; write it down beside the report.")
    if p is not None and p.attempts:
        yield Table(
            ("tried", "seconds", "verdict", "why"),
            tuple((a.method, f"{a.seconds:.1f}", a.verdict, a.reason) for a in p.attempts),
            "What method='auto' tried, in order.",
        )
