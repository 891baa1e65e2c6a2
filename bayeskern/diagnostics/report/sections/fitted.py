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
from bayeskern.diagnostics.report import priors
from bayeskern.diagnostics.report.blocks import (
    Code,
    Figure,
    Heading,
    Missing,
    Table,
    Text,
    listed,
    of,
)
from bayeskern.diagnostics.report.sections import parameters_plots as plots
from bayeskern.diagnostics.report.style import svg

VERSIONS = ("bayeskern", "numpyro", "jax", "arviz", "numpy")
# A longer representation of a model hides the rest of the report.
MOST_TEXT = 6000


def fitted(subject) -> Iterator:
    if subject.posterior is None:
        yield Missing("Nothing was fitted: a series of one constant value leaves nothing to learn.")
    else:
        yield Heading("Model")
        yield from _model(subject)
        yield Heading("Priors")
        yield from _priors(subject)
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
    text, note = source(subject.posterior.target.model)
    if note:
        yield (Text if text else Missing)(note)
    if text:
        yield Code(text if len(text) < MOST_TEXT else f"{text[:MOST_TEXT]}\n...")


def source(model) -> tuple[str, str]:
    """The source of a model, or what stands for it; and a sentence about it, where one is due."""
    while isinstance(model, Messenger | partial):
        model = model.fn if isinstance(model, Messenger) else model.func
    kind = type(model)
    own = kind.__module__.partition(".")[0] == "bayeskern"
    if own:
        digits = re.sub(r"\d+\.\d{7,}", lambda x: f"{float(x[0]):.6g}", repr(model))
        said = textwrap.fill(digits, 84, subsequent_indent="    ", break_long_words=False)
        return said, f"A {kind.__name__} of bayeskern, with these parts:"
    try:
        found = inspect.getsource(model if inspect.isroutine(model) else kind)
    except (OSError, TypeError):
        name = getattr(model, "__qualname__", kind.__qualname__)
        return "", (
            f"The source of the model {name!r} cannot be had: it was not defined in a file that "
            "Python can still read."
        )
    return textwrap.dedent(found).rstrip(), ""


def _priors(subject) -> Iterator:
    if not subject.has_model:
        yield Missing("Without the model its priors cannot be shown.")
        return
    known = priors.priors(subject.posterior)
    if not known:
        yield Missing("Every value of the model is fixed, so there is no prior to show.")
        return
    yield Table(
        ("site", "prior", "shape"),
        tuple((p.site, p.text, " x ".join(map(str, p.shape)) or "one number") for p in known),
    )
    drawn = [d for p in known if (d := priors.density(subject, p)) is not None]
    if drawn:
        yield Figure(
            svg(plots.densities, drawn[: plots.MOST]),
            "Prior densities, of the first number of each site. Good: each puts its weight on "
            "values that you would believe before seeing the data, in the units of the model.",
        )
    left = [p.site for p in known if priors.density(subject, p) is None]
    if left:
        yield Missing(f"No density can be drawn for {listed(left)}: there is no proper prior.")


def _data(subject) -> Iterator:
    if subject.forecast is not None:
        yield from _series(subject.forecast)
        return
    rows = []
    groups = {"observed_data": "observed", "constant_data": "given"}
    for group, role in groups.items():
        for name, values in subject.tree.children.get(group, {}).items():
            rows.append(_described(str(name), role, np.asarray(values)))
    if rows:
        head = ("name", "role", "shape", "smallest", "mean", "largest", "distinct")
        yield Table(head, tuple(rows))
    else:
        yield Missing("The model has no data: nothing is observed.")
    names = getattr(getattr(subject.posterior.target, "model", None), "columns", None)
    design = getattr(getattr(subject.posterior.target, "model", None), "design", None)
    names = names or getattr(getattr(design, "value", None), "names", None)
    if names:
        yield Text(f"Columns, in order: {', '.join(map(str, names))}.")


def _described(name: str, role: str, values) -> tuple[str, ...]:
    x = values.astype(float)
    known = x[np.isfinite(x)]
    shape = " x ".join(map(str, x.shape)) or "one number"
    if not known.size:
        return (name, role, shape, "-", "-", "-", "-")
    stats = (number(known.min()), number(known.mean()), number(known.max()))
    return (name, role, shape, *stats, number(len(np.unique(known))))


def _series(f) -> Iterator:
    s = f.series
    y, labels = s.values[s.observed], f.time_labels(s.times[[0, -1]])
    rows = [
        ("values", f"{len(y)}{of(s.value_name)}"),
        ("from, to", f"{labels[0]} to {labels[1]}"),
        ("time axis", s.calendar.description),
        ("smallest, mean, largest", ", ".join(map(number, (y.min(), y.mean(), y.max())))),
        ("missing", str(int((~s.observed).sum()))),
        ("fitted to", "the logarithm of the values" if f.scale.log else "the values as given"),
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
    if p is not None:
        chains, count = next(iter(p.draws.values())).shape[:2]
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
