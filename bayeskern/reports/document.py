"""The report as a whole: sections in order, rendered to one HTML file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from bayeskern.core import validation
from bayeskern.core.files import atomic_write, require_file
from bayeskern.core.formatting import counted
from bayeskern.core.progress import Progress
from bayeskern.diagnostics.calibration.calibration import Calibration
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.forecast.many.collection import Forecasts
from bayeskern.forecast.result import Forecast
from bayeskern.formula.model import Regression
from bayeskern.inference import Posterior
from bayeskern.reports.blocks import Block, environment, missing
from bayeskern.reports.many import render_many
from bayeskern.reports.sections import comparison
from bayeskern.reports.sections import forecast as of_forecast
from bayeskern.reports.sections.answer import answer, estimates
from bayeskern.reports.sections.calibration import calibration as calibration_of
from bayeskern.reports.sections.convergence import convergence
from bayeskern.reports.sections.fit import fit
from bayeskern.reports.sections.fitted import (
    circumstances,
    fit_numbers,
    fitted,
    model_and_data,
)
from bayeskern.reports.sections.sensitivity import sensitivity
from bayeskern.reports.sections.verdict import evidence, verdict
from bayeskern.reports.style import with_prefixed_ids
from bayeskern.reports.subject import ForecastSubject, Subject
from bayeskern.reports.wording import listed, of_series

MAX_BYTES = 3_000_000
# Sections of a posterior, in order: id -> title and function. The answer comes first, then how far
# to trust it, then the diagnostics.
SECTIONS: dict[str, tuple[str, Callable]] = {
    "answer": ("Answer", answer),
    "verdict": ("How far to trust it", verdict),
    "fit": ("Fit to the data", fit),
    "sensitivity": ("Sensitivity to the prior", sensitivity),
    "convergence": ("Convergence", convergence),
    "calibration": ("Calibration of the method", calibration_of),
    "fitted": ("Model, priors and data", fitted),
}
# Sections that replace those above in the chapter on one of several posteriors.
OWN_SECTIONS: dict[str, tuple[str, Callable]] = {
    "answer": ("Estimates", estimates),
    "verdict": ("Evidence for the verdict", evidence),
}
# Sections on several posteriors together.
COMMON_SECTIONS: dict[str, tuple[str, Callable]] = {
    "answer": ("Answer", comparison.answer),
    "verdict": ("How far to trust each", comparison.trust),
    "comparison": ("Comparison", comparison.comparison),
}
# Sections of a forecast.
FORECAST_SECTIONS: dict[str, tuple[str, Callable]] = {
    "answer": ("Answer", of_forecast.answer),
    "verdict": ("How far to trust it", of_forecast.verdict),
    "process": ("Components", of_forecast.components),
    "fit": ("Fit to the data", of_forecast.fit),
    "structures": ("Structures", of_forecast.structures),
    "fitted": ("The series", of_forecast.series),
}


def report(
    posterior: Posterior | Mapping[str, Posterior] | Forecast | Forecasts,
    path: str | PathLike = "report.html",
    *,
    seed: int = 0,
    calibration: Calibration | Mapping[str, Calibration] | bool = False,
    title: str | None = None,
    progress: bool = True,
) -> Path:
    """Write a report on posteriors or forecasts to one HTML file.

    The answer comes first, with its picture and numbers, then the verdict on it. The sections after
    it cover the fit to the data, sensitivity to the prior, convergence, the model with its priors
    and data, and the differences between several posteriors. Details are folded, and are unfolded
    in print. A part that cannot be assessed gives the reason. The file needs no network and stays
    below 3 MB; the same seed gives the same file.

    Args:
        posterior: A `Posterior`, a dict of names and posteriors, a `Forecast`, or the `Forecasts`
            of many series: a table of all, the worst first, with links to their figures.
        path: The file to write. An interrupted run leaves an existing file unchanged.
        seed: Seed of the additional draws that figures and checks need.
        calibration: Result of `bk.calibrate(posterior)`, or of each posterior by name, to show in
            the report. True computes it: 200 fits of each posterior's method, which take minutes
            by NUTS.
        title: Heading of the page, such as the question; by default the name of the model or of
            the series.
        progress: True to show a progress bar.

    Returns:
        The path of the file.

    Raises:
        TypeError: If `posterior` or `calibration` has another type.
        ValueError: If two posteriors have the same name, or a name is empty; if a calibration
            belongs to no posterior of the report, or cannot be computed.
        OSError: If the file cannot be written.
    """
    seed = validation.seed(seed)
    if calibration is not False and isinstance(posterior, Forecast | Forecasts):
        raise TypeError(
            "calibration= is for posteriors; the report on a forecast has its rolling-origin "
            "evaluation."
        )
    if isinstance(posterior, Forecasts):
        path = require_file(path, "report.html")
        text = render_many(posterior, progress, title)
    else:
        subjects = _subjects(posterior, seed)
        path = require_file(path, "report.html")
        text = render(with_calibrations(subjects, calibration, progress), progress, title)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _subjects(posterior: Any, seed: int) -> list[Subject] | list[ForecastSubject]:
    if isinstance(posterior, Forecast):
        return [ForecastSubject(posterior, seed)]
    posteriors = {"posterior": posterior} if isinstance(posterior, Posterior) else posterior
    if (
        not isinstance(posteriors, dict)
        or not posteriors
        or not all(isinstance(p, Posterior) for p in posteriors.values())
    ):
        raise TypeError(
            "posterior must be a posterior (from bk.infer), a dict of names and posteriors, or a "
            f"forecast (from bk.forecast); got {type(posterior).__name__}."
        )
    if len(posteriors) == 1:
        return [Subject(p, "", seed) for p in posteriors.values()]
    names = [str(key).strip() for key in posteriors]
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(
            f"each posterior of a report needs a name of its own; got {names}. Name them as in "
            '{"laplace": p1, "nuts": p2}.'
        )
    return [Subject(p, name, seed) for name, p in zip(names, posteriors.values(), strict=True)]


def with_calibrations(
    subjects: Sequence[Subject] | Sequence[ForecastSubject],
    calibration: Calibration | Mapping[str, Calibration] | bool,
    progress: bool,
) -> Sequence[Subject] | Sequence[ForecastSubject]:
    """The subjects with their calibrations, computed if `calibration` is True.

    Raises as `report` does.
    """
    by_name = {subject.name: subject for subject in subjects if isinstance(subject, Subject)}
    if calibration is False:
        return subjects
    if calibration is True:
        calibrations: dict = {
            name: calibrate(subject.posterior, seed=subject.seed, progress=progress)
            for name, subject in by_name.items()
        }
    elif isinstance(calibration, Calibration):
        calibrations = {name: calibration for name in by_name if len(by_name) == 1}
    elif isinstance(calibration, dict):
        # A single posterior has no name in the report.
        names = list(by_name) if len(by_name) == 1 == len(calibration) else list(calibration)
        calibrations = dict(zip(names, calibration.values(), strict=True))
    else:
        calibrations = {"": calibration}
    if not all(isinstance(c, Calibration) for c in calibrations.values()):
        raise TypeError(
            "calibration must be True, a result of bk.calibrate, or a dict of names and such "
            f"results; got {type(calibration).__name__}."
        )
    unknown = [name for name in calibrations if name not in by_name]
    if unknown or not calibrations:
        raise ValueError(
            f"calibration needs the names of the posteriors ({', '.join(by_name)}), as in "
            '{"nuts": bk.calibrate(posterior)}' + f"; got {', '.join(map(str, unknown)) or 'none'}."
        )
    for name, result in calibrations.items():
        parameters = {p.plain for p in by_name[name].parameters}
        if parameters.isdisjoint(result.uniforms):
            raise ValueError(
                f"calibration ranks {listed(result.uniforms)}, and the posterior has "
                f"{listed(parameters)}: it is the result of another model."
            )
    return [replace(s, calibration=calibrations.get(name)) for name, s in by_name.items()]


class Section(NamedTuple):
    """A part of the page with an entry in the table of contents."""

    id: str
    title: str
    blocks: list[Block]

    @property
    def parts(self) -> list[tuple[str, list[Block]]]:
        """Title of each fold, or "" for none, and its consecutive blocks."""
        return [(fold, list(blocks)) for fold, blocks in groupby(self.blocks, lambda b: b.fold)]


class Chapter(NamedTuple):
    """Sections on one posterior; a single chapter has no name, several are folded.

    Attributes:
        id: Anchor of the chapter; "" for a single one.
        name: Name of the posterior.
        words: The verdict, for the title of the fold.
        sections: The sections.
    """

    id: str
    name: str
    words: str
    sections: list[Section]


def render(
    subjects: Sequence[Subject] | Sequence[ForecastSubject],
    progress: bool = False,
    title: str | None = None,
) -> str:
    """The HTML of a report."""
    several = [s for s in subjects if isinstance(s, Subject)] if len(subjects) > 1 else []
    first, with_model = [], True
    with Progress("report", sum(len(_sections(s, True)) for s in subjects), progress) as bar:
        if several:
            compared = comparison.Compared(several)
            first = [Section(i, t, _blocks(f, compared)) for i, (t, f) in COMMON_SECTIONS.items()]
            with_model = not compared.is_one_model
            if not with_model:
                blocks = _blocks(model_and_data, compared.best)
                first.append(Section("fitted", SECTIONS["fitted"][0], blocks))
        chapters = [
            _chapter(subject, f"p{i}" if several else "", with_model, bar)
            for i, subject in enumerate(subjects)
        ]
    sections = [section for chapter in chapters for section in chapter.sections]
    for i, block in enumerate(_with_figures([*first, *sections])):
        block.values["figure"] = with_prefixed_ids(block.values["figure"], f"f{i + 1}-")
    page = environment().get_template("report.html.j2")
    subtitle = "; ".join(map(_subtitle, subjects))
    title = title or _title(subjects[0], len(subjects))
    values = {"title": title, "subtitle": subtitle, "version": version("bayeskern")}
    text = page.render(first=first, chapters=chapters, **values)
    excess = len(text.encode("utf-8", "backslashreplace")) - MAX_BYTES
    if excess > 0:
        (first or chapters[0].sections)[0].blocks.append(missing(leave_out(sections, excess)))
        text = page.render(first=first, chapters=chapters, **values)
    return text


def _chapter(
    subject: Subject | ForecastSubject, id: str, with_model: bool, bar: Progress
) -> Chapter:
    sections = []
    for own_id, (title, section) in _sections(subject, not id).items():
        if own_id == "fitted" and not with_model:
            section = _circumstances
            title = "Circumstances of the fit"
        blocks = _blocks(section, subject)
        if blocks:
            sections.append(Section(f"{id}-{own_id}" if id else own_id, title, blocks))
        bar.advance()
    if not id or not isinstance(subject, Subject):
        return Chapter("", "", "", sections)
    return Chapter(id, subject.name, subject.posterior.trust.verdict, sections)


def _circumstances(subject: Subject) -> Iterator[Block]:
    """Circumstances of a fit; the model is described elsewhere."""
    return circumstances(subject.seed, fit_numbers(subject))


def _sections(subject: Subject | ForecastSubject, single: bool) -> dict[str, tuple[str, Callable]]:
    """Sections of the report on one subject, or of its chapter among several."""
    if isinstance(subject, Subject):
        shown = SECTIONS if single else SECTIONS | OWN_SECTIONS
        has_calibration = subject.calibration is not None
        return {k: v for k, v in shown.items() if k != "calibration" or has_calibration}
    # The forecast of a constant series has no structures and no fit.
    f = subject.forecast
    # The other sections need a process that is observed at single times.
    has_process = f.parts and f.choices.fine_steps is None
    ids = FORECAST_SECTIONS if has_process else ("answer", "verdict", "fitted")
    return {id: FORECAST_SECTIONS[id] for id in ids}


def _blocks(section: Callable[..., Iterator[Block]], subject: Any) -> list[Block]:
    """The blocks of a section; an error in it becomes its last block, and a RuntimeWarning."""
    blocks = []
    try:
        for block in section(subject):
            # Rendered here, so that an error of the template is caught too.
            block.html()
            blocks.append(block)
    except Exception as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        message = f"The rest of this section could not be made: {cause}"
        blocks.append(missing(message))
        warnings.warn(message, RuntimeWarning, stacklevel=1)
    return blocks


def _with_figures(sections: list[Section]) -> list[Block]:
    return [block for section in sections for block in section.blocks if block.has_figure]


def leave_out(sections: list[Section], excess: int) -> str:
    """Leave out the largest figures to save `excess` bytes; return a remark about it."""
    blocks = _with_figures(sections)
    # The remark takes at most 1,000 bytes, the text in place of a figure at most 600.
    excess, left_out = excess + 1000, 0
    for block in sorted(blocks, key=lambda block: -len(block.values["figure"])):
        if excess > 0:
            excess -= len(block.values["figure"]) - 600
            block.values["figure"] = None
            left_out += 1
    return (
        f"To keep this file below {MAX_BYTES / 1e6:g} MB, {left_out} of the {len(blocks)} figures "
        "on single posteriors are left out, the largest first, and replaced by a "
        "description. A report on fewer posteriors can show more."
    )


# -- the head of the page --------------------------------------------------------------------------


def _title(subject: Subject | ForecastSubject, count: int) -> str:
    if isinstance(subject, ForecastSubject):
        return f"Forecast{of_series(subject.forecast.series.name) or ' of a series'}"
    if count > 1:
        return f"{count} posteriors compared"
    if not subject.has_model:
        return "Report on a posterior"
    model = subject.model
    if isinstance(model, Regression):
        return model.title
    name = getattr(model, "__name__", None) or type(model).__name__
    module = getattr(model, "__module__", "__main__")
    is_plain = module in ("__main__", "builtins") or module.startswith("bayeskern")
    return f"Report on {name if is_plain else f'{module}.{name}'}"


def _subtitle(subject: Subject | ForecastSubject) -> str:
    if isinstance(subject, ForecastSubject):
        f = subject.forecast
        ahead, values = counted(f.horizon, "step"), counted(int(f.series.observed.sum()), "value")
        return f"{ahead} ahead, from {values}{of_series(f.series.value_name)}"
    p, name = subject.posterior, f"{subject.name}: " if subject.name else ""
    draws = "a point estimate" if p.is_point else f"{math.prod(p.shape):,} draws"
    return (
        f"{p.method}, {draws}" if subject.name == p.method else f"{name}method {p.method}, {draws}"
    )
