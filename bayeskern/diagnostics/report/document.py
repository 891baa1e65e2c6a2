"""The report as a whole: sections in order, rendered to one HTML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from bayeskern.core import validation
from bayeskern.core.files import atomic_write, require_file
from bayeskern.core.formatting import counted
from bayeskern.core.progress import Progress
from bayeskern.diagnostics.report.blocks import Block, environment, missing
from bayeskern.diagnostics.report.figures.style import with_prefixed_ids
from bayeskern.diagnostics.report.sections.comparison import comparison
from bayeskern.diagnostics.report.sections.convergence import convergence
from bayeskern.diagnostics.report.sections.fit import fit
from bayeskern.diagnostics.report.sections.fitted import fitted
from bayeskern.diagnostics.report.sections.parameters import parameters
from bayeskern.diagnostics.report.sections.process import process
from bayeskern.diagnostics.report.sections.sensitivity import sensitivity
from bayeskern.diagnostics.report.sections.structures import structures
from bayeskern.diagnostics.report.sections.verdict import verdict
from bayeskern.diagnostics.report.subject import Subject, UnreadableError
from bayeskern.diagnostics.report.wording import of_series
from bayeskern.forecast.result import Forecast
from bayeskern.inference import Posterior

MAX_BYTES = 3_000_000
# Sections of a posterior, in order, after its verdict: id -> title and function.
SECTIONS: dict[str, tuple[str, Callable]] = {
    "fitted": ("What was fitted", fitted),
    "convergence": ("Convergence", convergence),
    "posterior": ("Posterior", parameters),
    "fit": ("Fit to the data", fit),
    "process": ("Function and components", process),
    "sensitivity": ("Sensitivity to the prior", sensitivity),
}
# Sections of a forecast: the forecast itself first, then its derivation.
FORECAST_SECTIONS: dict[str, tuple[str, Callable]] = {
    "process": ("Forecast and components", process),
    "structures": ("Structures", structures),
    "fit": ("Fit to the data", fit),
    "fitted": ("The series", fitted),
}


def report(
    posterior: Posterior | Mapping[str, Posterior] | Forecast,
    path: str | PathLike = "report.html",
    *,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Write a report on a posterior, several posteriors or a forecast to one HTML file.

    The verdict comes first. The sections after it cover the model and data, convergence, the
    posterior, the fit to the data, the function and its components, sensitivity to the prior, and
    the differences between several posteriors. A section that cannot be assessed gives the reason.
    The file needs no network and stays below 3 MB; the same seed gives the same file.

    Args:
        posterior: A `Posterior`, a dict of names and posteriors, or a `Forecast`.
        path: The file to write. An interrupted run leaves an existing file unchanged.
        seed: Seed of the additional draws that figures and checks need.
        progress: Whether to show a progress bar.

    Returns:
        The path of the file.

    Raises:
        TypeError: If `posterior` has another type.
        ValueError: If two posteriors have the same name, or a name is empty.
        OSError: If the file cannot be written.
    """
    subjects = _subjects(posterior, validation.seed(seed))
    path = require_file(path, "report.html")
    text = render(subjects, progress)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _subjects(posterior: Any, seed: int) -> list[Subject]:
    if isinstance(posterior, Forecast):
        return [Subject(None, "", seed, forecast=posterior)]
    if isinstance(posterior, Posterior):
        return [Subject(posterior, "", seed)]
    if (
        isinstance(posterior, dict)
        and posterior
        and all(isinstance(p, Posterior) for p in posterior.values())
    ):
        if len(posterior) == 1:
            return [Subject(next(iter(posterior.values())), "", seed)]
        return [Subject(p, name, seed) for name, p in _by_name(posterior).items()]
    raise TypeError(
        "posterior must be a posterior (from bk.infer), a dict of names and posteriors, or a "
        f"forecast (from bk.forecast); got {type(posterior).__name__}."
    )


def _by_name(posteriors: dict) -> dict[str, Posterior]:
    """Posteriors by name as text. Raises ValueError if a name is empty or not unique."""
    by_name: dict[str, Posterior] = {}
    for key, posterior in posteriors.items():
        name = str(key).strip()
        if not name or name in by_name:
            what = f"{name!r} twice" if name else f"the empty name {key!r}"
            raise ValueError(
                f"each posterior of a report needs a name of its own; got {what}. Name them as in "
                '{"laplace": p1, "nuts": p2}.'
            )
        by_name[name] = posterior
    return by_name


class Section(NamedTuple):
    """A part of the page that the contents link to."""

    id: str
    title: str
    blocks: list[Block]


class Chapter(NamedTuple):
    """Sections on one posterior; the only chapter has no name."""

    id: str
    name: str
    sections: list[Section]


def render(subjects: list[Subject], progress: bool = False) -> str:
    """The HTML of a report."""
    several = len(subjects) > 1
    with Progress("report", sum(len(_sections(s)) for s in subjects), progress) as bar:
        chapters = [_chapter(s, i, several, bar) for i, s in enumerate(subjects)]
    # Made after the chapters, since the verdict names what they lack.
    first = [Section("verdict", "Verdict", [b for s in subjects for b in _blocks(verdict, s)])]
    if subjects[0].forecast is None:
        posteriors = {s.name: s.posterior for s in subjects}
        compared = Section("comparison", "Comparison", _blocks(comparison, posteriors))
        # The last section of a single posterior says that it is not compared.
        (first if several else chapters[0].sections).append(compared)
    sections = [section for chapter in chapters for section in chapter.sections]
    for i, block in enumerate(_with_figures([*first, *sections])):
        block.figure.svg = with_prefixed_ids(block.figure.svg, f"f{i + 1}-")
    page = environment().get_template("report.html.j2")
    values = {
        "title": _title(subjects),
        "subtitle": _subtitle(subjects),
        "first": first,
        "chapters": chapters,
        "version": version("bayeskern"),
    }
    text = page.render(values)
    excess = len(text.encode("utf-8", "backslashreplace")) - MAX_BYTES
    if excess > 0:
        first[0].blocks.append(missing(leave_out(sections, excess)))
        text = page.render(values)
    return text


def _chapter(subject: Subject, i: int, several: bool, bar: Progress) -> Chapter:
    prefix = f"p{i}-" if several else ""
    order, sections = _sections(subject), []
    for done, (id, (title, section)) in enumerate(order.items(), i * len(order)):
        bar.to(done, title)
        sections.append(Section(prefix + id, title, _blocks(section, subject)))
    return Chapter(f"p{i}", subject.name if several else "", sections)


def _sections(subject: Subject) -> dict[str, tuple[str, Callable]]:
    """Sections of the report on one subject: id -> title and function."""
    if subject.forecast is None:
        return SECTIONS
    # The forecast of a constant series has no structures and no fit.
    wanted = FORECAST_SECTIONS if subject.forecast.parts else ("process", "fitted")
    return {id: FORECAST_SECTIONS[id] for id in wanted}


def _blocks(section: Callable[..., Iterator[Block]], about: Any) -> list[Block]:
    """The blocks of a section; an error in it becomes a block of its own."""
    blocks = []
    try:
        for block in section(about):
            # An error of the template is one of this section, too.
            block.html()
            blocks.append(block)
    except UnreadableError:
        # The verdict gives the reason, once for all sections.
        blocks.append(missing("The rest of this section cannot be made: see the reason above."))
    except Exception as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        blocks.append(missing(f"The rest of this section could not be made: {message}"))
    return blocks


def _with_figures(sections: list[Section]) -> list[Any]:
    """The blocks that have a figure."""
    return [b for section in sections for b in section.blocks if b.figure is not None]


def leave_out(sections: list[Section], excess: int) -> str:
    """Leave out the largest figures of sections to save `excess` bytes; a remark about it."""
    figures = [block.figure for block in _with_figures(sections)]
    # The remark takes at most 1,000 bytes, the caption in the place of a figure at most 600.
    excess += 1000
    for figure in sorted(figures, key=lambda figure: -len(figure.svg)):
        if excess <= 0:
            break
        figure.left_out = True
        excess -= len(figure.svg) - 600
    return (
        f"To keep this file below {MAX_BYTES / 1e6:g} MB, {sum(f.left_out for f in figures)} of "
        f"the {len(figures)} figures on single posteriors are left out, the largest first; a "
        "description stands in the place of each. A report on fewer posteriors can show more."
    )


# -- the head of the page --------------------------------------------------------------------------


def _title(subjects: list[Subject]) -> str:
    f = subjects[0].forecast
    if f is not None:
        return f"Forecast{of_series(f.series.name) or ' of a series'}"
    if len(subjects) > 1:
        return f"{len(subjects)} posteriors compared"
    if not subjects[0].has_model:
        return "Report on a posterior"
    model = subjects[0].model
    name = getattr(model, "__name__", None) or type(model).__name__
    module = getattr(model, "__module__", "__main__")
    is_plain = module in ("__main__", "builtins") or module.startswith("bayeskern")
    return f"Report on {name if is_plain else f'{module}.{name}'}"


def _subtitle(subjects: list[Subject]) -> str:
    f = subjects[0].forecast
    if f is not None:
        count = int(f.series.observed.sum())
        ahead, values = counted(f.horizon, "step"), counted(count, "value")
        return f"{ahead} ahead, from {values}{of_series(f.series.value_name)}"
    return ", ".join(f"{s.name + ': ' if s.name else ''}{_method(s.posterior)}" for s in subjects)


def _method(p: Posterior) -> str:
    draws = "a point" if p.is_point else f"{math.prod(p.shape):,} draws"
    return f"method {p.method}, {draws}"
