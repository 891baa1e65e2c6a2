"""The report as a whole: sections in their order, put into one HTML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bayeskern.core import validation
from bayeskern.core.files import atomic_write, require_file
from bayeskern.core.formatting import counted
from bayeskern.core.progress import Progress
from bayeskern.diagnostics.report.blocks import Figure, Missing, of
from bayeskern.diagnostics.report.sections.comparison import comparison
from bayeskern.diagnostics.report.sections.convergence import convergence
from bayeskern.diagnostics.report.sections.fit import fit
from bayeskern.diagnostics.report.sections.fitted import fitted
from bayeskern.diagnostics.report.sections.parameters import parameters
from bayeskern.diagnostics.report.sections.process import process
from bayeskern.diagnostics.report.sections.sensitivity import sensitivity
from bayeskern.diagnostics.report.sections.verdict import verdict
from bayeskern.diagnostics.report.size_limit import MOST, leave_out
from bayeskern.diagnostics.report.style import own_ids
from bayeskern.diagnostics.report.subject import Subject, UnreadableError
from bayeskern.inference import Posterior

# Of each posterior, in this order, after its verdict; of a forecast, what it predicts comes first.
SECTIONS: dict[str, tuple[str, Callable]] = {
    "fitted": ("What was fitted", fitted),
    "convergence": ("Convergence", convergence),
    "posterior": ("Posterior", parameters),
    "fit": ("Fit to the data", fit),
    "process": ("Function and components", process),
    "sensitivity": ("Sensitivity to the prior", sensitivity),
}


def report(posterior, path="report.html", *, seed: int = 0, progress: bool = True) -> Path:
    """Write a report on a posterior, on several by name, or on a forecast: one HTML file.

    The verdict stands first, then what was fitted, convergence, the posterior, the fit to the data,
    the function and its components, sensitivity to the prior, and for several posteriors how they
    differ. What cannot be assessed is said to be so. The file needs no network; the same seed gives
    the same file. Returns its path.

    Raises TypeError if it is none of these, ValueError if two posteriors have one name or one has
    none, OSError if the file cannot be written.
    """
    subjects = _subjects(posterior, validation.seed(seed))
    path = require_file(path, "report.html")
    text = render(subjects, progress)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _subjects(given, seed: int) -> list[Subject]:
    if hasattr(given, "series") and hasattr(given, "posterior"):
        return [Subject(given.posterior, "", seed, forecast=given)]
    if isinstance(given, Posterior):
        return [Subject(given, "", seed)]
    if isinstance(given, dict) and given and all(isinstance(p, Posterior) for p in given.values()):
        if len(given) == 1:
            return [Subject(*given.values(), "", seed)]
        return [Subject(p, name, seed) for name, p in _by_name(given).items()]
    raise TypeError(
        "report takes a posterior (of bk.infer), a dict of names and posteriors, or a forecast (of "
        f"bk.forecast); got {type(given).__name__}."
    )


def _by_name(given: dict) -> dict[str, Posterior]:
    found: dict[str, Posterior] = {}
    for key, posterior in given.items():
        name = str(key).strip()
        if not name or name in found:
            what = f"{name!r} twice" if name else f"the empty name {key!r}"
            raise ValueError(
                f"each posterior of a report takes a name of its own, got {what}: name them as in "
                '{"laplace": p1, "nuts": p2}.'
            )
        found[name] = posterior
    return found


class Section(NamedTuple):
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
    from importlib.metadata import version

    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    several = len(subjects) > 1
    with Progress("report", len(subjects) * len(SECTIONS), progress) as bar:
        chapters = [_chapter(s, i, several, bar) for i, s in enumerate(subjects)]
    # Made after the chapters, since it says what they could not have.
    first = [Section("verdict", "Verdict", [b for s in subjects for b in _made(verdict, s)])]
    if several:
        posteriors = {s.name: s.posterior for s in subjects}
        first.append(Section("comparison", "Comparison", _made(comparison, posteriors)))
    if not several:
        # Where it would stand, so that nobody looks for it.
        alone = _made(comparison, {"": subjects[0].posterior})
        chapters[0].sections.append(Section("comparison", "Comparison", alone))
    _number([*first, *(s for c in chapters for s in c.sections)])
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    about = {
        "title": _title(subjects),
        "subtitle": _subtitle(subjects),
        "contents": _contents(first, chapters),
        "version": version("bayeskern"),
    }
    page = partial(environment.get_template("report.html.j2").render, about, first=first)
    text = page(chapters=chapters)
    excess = len(text.encode("utf-8", "backslashreplace")) - MOST
    if excess > 0:
        remark = leave_out([s for c in chapters for s in c.sections], excess)
        first[0].blocks.append(Missing(remark))
        text = page(chapters=chapters)
    return text


def _chapter(subject: Subject, i: int, several: bool, bar: Progress) -> Chapter:
    prefix = f"p{i}-" if several else ""
    order = list(SECTIONS)
    if subject.forecast is not None:
        # What a forecast is read for stands before how it was made.
        order.sort(key=lambda id: id != "process")
    made = []
    for done, id in enumerate(order, i * len(order)):
        title, section = SECTIONS[id]
        bar.to(done, title)
        made.append(Section(prefix + id, title, _made(section, subject)))
    return Chapter(f"p{i}", subject.name if several else "", made)


def _made(section: Callable[..., Iterator], about) -> list:
    """The blocks of a section; one that fails says so, and the others are not lost with it."""
    blocks = []
    try:
        for block in section(about):
            blocks.append(block)
    except UnreadableError:
        # Why not, the verdict says once for all.
        blocks.append(Missing("The rest of this section needs what could not be had: see above."))
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        blocks.append(
            Missing(f"The rest of this section could not be made: {type(error).__name__}: {said}")
        )
    return blocks


def _number(sections: list[Section]) -> None:
    """Give the parts of each figure names of their own."""
    count = 0
    for section in sections:
        for i, block in enumerate(section.blocks):
            if isinstance(block, Figure):
                count += 1
                svg = own_ids(block.svg, f"f{count}-")
                section.blocks[i] = dataclasses.replace(block, svg=svg)


def _title(subjects) -> str:
    f = subjects[0].forecast
    if f is not None:
        return f"Forecast{of(f.series.name) or ' of a series'}"
    if len(subjects) > 1:
        return f"{len(subjects)} posteriors compared"
    target = subjects[0].posterior.target
    model = getattr(target, "model", None)
    name = getattr(model, "__name__", None) or type(model).__name__
    module = getattr(model, "__module__", "__main__")
    own = module in ("__main__", "builtins") or module.startswith("bayeskern")
    name = name if own else f"{module}.{name}"
    return f"Report on {name}" if target is not None else "Report on a posterior"


def _subtitle(subjects) -> str:
    f = subjects[0].forecast
    if f is not None:
        count = int(f.series.observed.sum())
        ahead, values = counted(f.horizon, "step"), counted(count, "value")
        return f"{ahead} ahead, from {values}{of(f.series.value_name)}"
    return ", ".join(f"{s.name + ': ' if s.name else ''}{_method(s.posterior)}" for s in subjects)


def _method(p) -> str:
    chains, count = next(iter(p.draws.values())).shape[:2]
    draws = f"{chains * count:,} draws" if chains * count > 1 else "a point"
    return f"method {p.method}, {draws}"


def _contents(first, chapters) -> list[tuple[str, str]]:
    found = [(s.id, s.title) for s in first]
    if len(chapters) > 1:
        return found + [(c.id, c.name) for c in chapters]
    return found + [(s.id, s.title) for s in chapters[0].sections]
