"""Section on the model, its priors, the data and the versions of the software."""

from __future__ import annotations

import inspect
import platform
import re
import textwrap
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.formatting import number
from bayeskern.diagnostics.report.blocks import Block, code, heading, missing, text
from bayeskern.diagnostics.report.figures import parameters as plots
from bayeskern.diagnostics.report.figures.style import drawn
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.diagnostics.report.wording import folded, shape_text
from bayeskern.protocols import columns_of, coords_of

block = partial(Block, "fitted")


def fitted(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "What was fitted"."""
    if subject.forecast is None:
        yield heading("Model")
        yield from _model(subject)
        yield heading("Priors")
        yield from _priors(subject)
    elif not subject.forecast.parts:
        yield block("constant_series")
    yield heading("Data")
    yield from _data(subject)
    yield heading("Circumstances")
    yield block(
        "circumstances",
        python=platform.python_version(),
        versions={p: _version(p) for p in ("bayeskern", "numpyro", "jax", "arviz", "numpy")},
        subject=subject,
        p=None if subject.forecast is not None else subject.posterior,
    )


def _model(subject: Subject, max_letters: int = 6000) -> Iterator[Block]:
    """max_letters: a longer source hides the rest of the report."""
    if not subject.has_model:
        yield block("no_model")
        return
    words, note = source(subject.model)
    if note:
        yield text(note) if words else missing(note)
    if words:
        yield code(words if len(words) < max_letters else f"{words[:max_letters]}\n...")


def source(model: Any) -> tuple[str, str]:
    """Source code of a model, or its parts, if available; and a sentence about it."""
    while isinstance(model, Messenger | partial):
        model = model.fn if isinstance(model, Messenger) else model.func
    model_class = type(model)
    if model_class.__module__.partition(".")[0] == "bayeskern":
        parts = re.sub(r"\d+\.\d{7,}", lambda x: f"{float(x[0]):.6g}", repr(model))
        return folded(parts, 84), f"A {model_class.__name__} of bayeskern, with these parts:"
    try:
        lines = inspect.getsource(model if inspect.isroutine(model) else model_class)
    except (OSError, TypeError):
        name = getattr(model, "__qualname__", model_class.__qualname__)
        return "", (
            f"The source of the model {name!r} is not available: it was not defined in a file that "
            "Python can still read."
        )
    return textwrap.dedent(lines).rstrip(), ""


def _priors(subject: Subject) -> Iterator[Block]:
    if not subject.has_model:
        yield block("no_priors_without_model")
        return
    if not subject.priors:
        yield block("no_priors")
        return
    rows = [(p.site, p.text, shape_text(p.shape)) for p in subject.priors]
    densities = {p.site: subject.prior_density(p) for p in subject.priors}
    curves = [density for density in densities.values() if density is not None]
    yield block("priors", rows=rows)
    if curves:
        figure = drawn(plots.densities, curves[:12])
        yield block("prior_densities", figure=figure)
    without = [site for site, density in densities.items() if density is None]
    if without:
        yield block("no_density", sites=without)


def _data(subject: Subject) -> Iterator[Block]:
    if subject.forecast is not None:
        s = subject.forecast.series
        yield block("series", f=subject.forecast, s=s, y=s.values[s.observed])
        return
    roles = {"observed_data": "observed", "constant_data": "given"}
    rows = [
        _description(str(name), role, np.asarray(values, float))
        for group, role in roles.items()
        for name, values in subject.group(group).items()
    ]
    yield block("data", rows=rows)
    # A linear model names its features even if the columns have no names.
    columns = columns_of(subject.model) or coords_of(subject.model).get("feature")
    if columns:
        yield text(f"Columns, in order: {', '.join(map(str, columns))}.")


def _description(name: str, role: str, x: np.ndarray) -> tuple[str, ...]:
    finite = x[np.isfinite(x)]
    shape = shape_text(x.shape)
    if not finite.size:
        return (name, role, shape, "-", "-", "-", "-")
    stats = (number(finite.min()), number(finite.mean()), number(finite.max()))
    return (name, role, shape, *stats, number(len(np.unique(finite))))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not known"
