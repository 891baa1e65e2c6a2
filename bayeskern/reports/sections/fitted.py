"""Section on the model, its priors, the data and the versions of the software."""

from __future__ import annotations

import inspect
import platform
import re
import textwrap
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.formatting import counted, number
from bayeskern.protocols import columns_of, coords_of
from bayeskern.reports.blocks import Block, code, folded, missing, text
from bayeskern.reports.subject import Subject
from bayeskern.reports.wording import shape_text, wrap_code

block = partial(Block, "fitted")


def fitted(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Model, priors and data" of the report on one posterior."""
    yield from model_and_data(subject)
    yield from circumstances(subject.seed, fit_numbers(subject))


def model_and_data(subject: Subject) -> Iterator[Block]:
    """Priors and data, and the source of the model in a fold."""
    yield from _priors(subject)
    yield from _data(subject)
    yield from folded("Source of the model", _model(subject))


def fit_numbers(subject: Subject) -> dict[str, Any]:
    """Method, draws, seed and seconds of a fit, by name."""
    p = subject.posterior
    seed = "not kept; write it down beside the report" if p.seed is None else p.seed
    numbers: dict[str, Any] = {
        "method": p.method,
        "draws": f"{counted(p.shape[0], 'chain')} of {p.shape[1]:,}",
        "seed of the fit": seed,
    }
    return numbers | {f"seconds: {part}": f"{seconds:.2f}" for part, seconds in p.timing.items()}


def circumstances(seed: int, numbers: dict[str, Any]) -> Iterator[Block]:
    """Versions of the software, the seed of the report and other numbers, in a fold."""
    versions = {p: version(p) for p in ("bayeskern", "numpyro", "jax", "arviz", "numpy")}
    rows = {"Python": platform.python_version(), **versions, "seed of this report": seed, **numbers}
    yield from folded("Circumstances", [block("circumstances", rows=rows.items())])


def _model(subject: Subject) -> Iterator[Block]:
    if not subject.has_model:
        yield block("no_model")
        return
    words, note = source(subject.model)
    if note:
        yield text(note) if words else missing(note)
    if words:
        # A longer source would hide the rest of the report.
        yield code(words if len(words) < 6000 else f"{words[:6000]}\n...")


def source(model: Any) -> tuple[str, str]:
    """Source code or repr of a model, and a sentence about it; "" if unavailable."""
    while isinstance(model, Messenger | partial):
        model = model.fn if isinstance(model, Messenger) else model.func
    model_class = type(model)
    if model_class.__module__.partition(".")[0] == "bayeskern":
        parts = re.sub(r"\d+\.\d{7,}", lambda x: f"{float(x[0]):.6g}", repr(model))
        return wrap_code(parts, 84), f"A {model_class.__name__} of bayeskern, with these parts:"
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
    yield block(
        "priors", rows=[(p.site, p.text, shape_text(p.shape)) for p in subject.priors.values()]
    )


def _data(subject: Subject) -> Iterator[Block]:
    roles = {"observed_data": "observed", "constant_data": "given"}
    rows = [
        _description(str(name), role, np.asarray(values, float))
        for group, role in roles.items()
        for name, values in subject.group(group).items()
    ]
    yield block("data", rows=rows)
    # A linear model has names of features even if X has no column names.
    columns = subject.posterior.coords.get("feature")
    if columns is None:
        columns = columns_of(subject.model) or coords_of(subject.model).get("feature")
    if columns is not None:
        yield text(f"Columns, in order: {', '.join(map(str, columns))}.")


def _description(name: str, role: str, x: np.ndarray) -> tuple[str, ...]:
    finite = x[np.isfinite(x)]
    shape = shape_text(x.shape)
    if not finite.size:
        return (name, role, shape, "-", "-", "-", "-")
    stats = (number(finite.min()), number(finite.mean()), number(finite.max()))
    return (name, role, shape, *stats, number(len(np.unique(finite))))
