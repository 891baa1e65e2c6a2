"""The report as a whole: sections in their order, put into one HTML file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from bayeskern.core import validation
from bayeskern.core.files import atomic_write, require_file
from bayeskern.core.formatting import counted
from bayeskern.core.progress import Progress
from bayeskern.diagnostics.report.blocks import Figure, Missing
from bayeskern.diagnostics.report.sections.comparison import comparison
from bayeskern.diagnostics.report.sections.convergence import convergence
from bayeskern.diagnostics.report.sections.fit import fit
from bayeskern.diagnostics.report.sections.fitted import fitted
from bayeskern.diagnostics.report.sections.parameters import parameters
from bayeskern.diagnostics.report.sections.process import process
from bayeskern.diagnostics.report.sections.sensitivity import sensitivity
from bayeskern.diagnostics.report.sections.structures import structures
from bayeskern.diagnostics.report.sections.verdict import verdict
from bayeskern.diagnostics.report.size_limit import MAX_BYTES, leave_out
from bayeskern.diagnostics.report.style import with_prefixed_ids
from bayeskern.diagnostics.report.subject import Subject, UnreadableError
from bayeskern.diagnostics.report.wording import of_series
from bayeskern.forecast.result import Forecast
from bayeskern.inference import Posterior

# A name may have letters that UTF-8 has not.
ENCODING_ERRORS = "backslashreplace"
# Of each posterior, in this order, after its verdict.
SECTIONS: dict[str, tuple[str, Callable]] = {
    "fitted": ("What was fitted", fitted),
    "convergence": ("Convergence", convergence),
    "posterior": ("Posterior", parameters),
    "fit": ("Fit to the data", fit),
    "process": ("Function and components", process),
    "sensitivity": ("Sensitivity to the prior", sensitivity),
}
# Of a forecast: what it is read for stands before how it was made.
OF_FORECASTS: dict[str, tuple[str, Callable]] = {
    "process": ("Forecast and components", process),
    "structures": ("What was found", structures),
    "fit": ("Fit to the data", fit),
    "fitted": ("The series", fitted),
}


def report(posterior, path="report.html", *, seed: int = 0, progress: bool = True) -> Path:
    """Write a report on a posterior, on several by name, or on a forecast: one HTML file.

    The verdict stands first. Then come what was fitted, convergence, the posterior, the fit to the
    data, the function and its components, sensitivity to the prior, and for several posteriors how
    they differ. Where something cannot be assessed, the report says why. The file needs no network
    and stays below 3 MB; the same seed gives the same file.

    Args:
        posterior: A `Posterior`, a dict of names and posteriors, or a `Forecast`.
        path: The file to write. An interrupted run leaves an old one as it was.
        seed: Of the draws that figures and checks need beyond those of the posterior.
        progress: Whether to show a progress bar.

    Returns:
        The path of the file.

    Raises:
        TypeError: If `posterior` is none of these.
        ValueError: If two posteriors have the same name, or one has none.
        OSError: If the file cannot be written.
    """
    subjects = _subjects(posterior, validation.seed(seed))
    path = require_file(path, "report.html")
    text = render(subjects, progress)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors=ENCODING_ERRORS)
    return path


def _subjects(posterior, seed: int) -> list[Subject]:
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
            return [Subject(*posterior.values(), "", seed)]
        return [Subject(p, name, seed) for name, p in _by_name(posterior).items()]
    raise TypeError(
        "report takes a posterior (of bk.infer), a dict of names and posteriors, or a forecast (of "
        f"bk.forecast); got {type(posterior).__name__}."
    )


def _by_name(posteriors: dict) -> dict[str, Posterior]:
    """The posteriors by name as text. Raises ValueError where a name is empty or not unique."""
    by_name: dict[str, Posterior] = {}
    for key, posterior in posteriors.items():
        name = str(key).strip()
        if not name or name in by_name:
            what = f"{name!r} twice" if name else f"the empty name {key!r}"
            raise ValueError(
                f"each posterior of a report takes a name of its own, got {what}: name them as in "
                '{"laplace": p1, "nuts": p2}.'
            )
        by_name[name] = posterior
    return by_name


class Section(NamedTuple):
    """A part of the page that the contents link to."""

    id: str
    title: str
    blocks: list[Any]


class Chapter(NamedTuple):
    """The sections on one posterior; without a name where there is only one."""

    id: str
    name: str
    sections: list[Section]


def render(subjects: list[Subject], progress: bool = False) -> str:
    """The HTML of a report."""
    several = len(subjects) > 1
    with Progress("report", sum(len(_sections(s)) for s in subjects), progress) as bar:
        chapters = [_chapter(s, i, several, bar) for i, s in enumerate(subjects)]
    # Made after the chapters, since it says what they could not have.
    first = [Section("verdict", "Verdict", [b for s in subjects for b in _blocks(verdict, s)])]
    if subjects[0].forecast is None:
        posteriors = {s.name: s.posterior for s in subjects}
        compared = Section("comparison", "Comparison", _blocks(comparison, posteriors))
        # A single posterior is not compared, which its last section says.
        (first if several else chapters[0].sections).append(compared)
    sections = [section for chapter in chapters for section in chapter.sections]
    _make_ids_unique([*first, *sections])
    page = partial(_template().render, _about(subjects, first, chapters), first=first)
    text = page(chapters=chapters)
    excess = len(text.encode("utf-8", ENCODING_ERRORS)) - MAX_BYTES
    if excess > 0:
        first[0].blocks.append(Missing(leave_out(sections, excess)))
        text = page(chapters=chapters)
    return text


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _chapter(subject: Subject, i: int, several: bool, bar: Progress) -> Chapter:
    prefix = f"p{i}-" if several else ""
    order, sections = _sections(subject), []
    for done, (id, (title, section)) in enumerate(order.items(), i * len(order)):
        bar.to(done, title)
        sections.append(Section(prefix + id, title, _blocks(section, subject)))
    return Chapter(f"p{i}", subject.name if several else "", sections)


def _sections(subject: Subject) -> dict[str, tuple[str, Callable]]:
    """The sections of a report: id -> title and what makes it."""
    if subject.forecast is None:
        return SECTIONS
    # A constant series has a forecast, and nothing to say of how it was made.
    wanted = OF_FORECASTS if subject.forecast.parts else ("process", "fitted")
    return {id: OF_FORECASTS[id] for id in wanted}


def _blocks(section: Callable[..., Iterator], about) -> list:
    """The blocks of a section; one that fails says so, and the others are not lost with it."""
    blocks = []
    try:
        for block in section(about):
            blocks.append(block)
    except UnreadableError:
        # The verdict says why, once for all sections.
        blocks.append(Missing("The rest of this section needs what could not be had: see above."))
    except Exception as error:
        message = " ".join(str(error).split())[:300]
        blocks.append(
            Missing(
                f"The rest of this section could not be made: {type(error).__name__}: {message}"
            )
        )
    return blocks


def _make_ids_unique(sections: list[Section]) -> None:
    """Give the parts of each figure ids that no other figure has."""
    count = 0
    for section in sections:
        for i, block in enumerate(section.blocks):
            if isinstance(block, Figure):
                count += 1
                svg = with_prefixed_ids(block.svg, f"f{count}-")
                section.blocks[i] = dataclasses.replace(block, svg=svg)


# -- the head of the page --------------------------------------------------------------------------


def _about(subjects, first, chapters) -> dict:
    from importlib.metadata import version

    return {
        "title": _title(subjects),
        "subtitle": _subtitle(subjects),
        "contents": _contents(first, chapters),
        "version": version("bayeskern"),
    }


def _title(subjects) -> str:
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


def _subtitle(subjects) -> str:
    f = subjects[0].forecast
    if f is not None:
        count = int(f.series.observed.sum())
        ahead, values = counted(f.horizon, "step"), counted(count, "value")
        return f"{ahead} ahead, from {values}{of_series(f.series.value_name)}"
    return ", ".join(f"{s.name + ': ' if s.name else ''}{_method(s.posterior)}" for s in subjects)


def _method(p) -> str:
    draws = "a point" if p.is_point else f"{math.prod(p.shape):,} draws"
    return f"method {p.method}, {draws}"


def _contents(first, chapters) -> list[tuple[str, str]]:
    """The id and the name of what the page links to at its top."""
    contents = [(section.id, section.title) for section in first]
    if len(chapters) > 1:
        return contents + [(chapter.id, chapter.name) for chapter in chapters]
    return contents + [(section.id, section.title) for section in chapters[0].sections]
