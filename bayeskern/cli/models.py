"""Commands for models: `models`, `fit`, `compare` and `report`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import bayeskern as bk
from bayeskern import gallery
from bayeskern.cli.app import app
from bayeskern.cli.options import Whole
from bayeskern.cli.output import print_written, require_not_input, say, write_report
from bayeskern.core import files, validation
from bayeskern.core.verdict import WIDTH
from bayeskern.diagnostics.priors import exact_marginals
from bayeskern.inference import METHODS
from bayeskern.inference import load as load_posterior

NAMES = ", ".join(METHODS)
Methods = Annotated[list[str], Parameter(consume_multiple=True)]


@app.command
def models() -> None:
    """List the models that come with bayeskern."""
    for name in gallery.names():
        say(f"{name:<20}{gallery.title(name)}")


@app.command
def fit(
    model: str,
    *,
    method: Annotated[str, Parameter(help=f"One of {NAMES}.")] = "auto",
    seed: Whole = 0,
    output: Path = Path("out"),
    report: bool = False,
) -> None:
    """Fit a model, print a verdict on the result, and write posterior.nc.

    Args:
        model: A name (see `bayeskern models`), or a Python file with a function problem().
        seed: Random seed.
        output: Folder for the files.
        report: Also write report.html.
    """
    validation.one_of("method", method, METHODS)
    files.require_writable(output)
    path = gallery.find(model)
    problem = gallery.load(path)
    with gallery.blame(path):
        posterior = problem.fit(method, seed=seed)
    # Saved first: an error in the output below must not lose the fit.
    written = [output / "posterior.nc"]
    posterior.save(written[0])
    say(verdict_text(f"{path.stem} by {posterior.method}", posterior))
    say(f"\n{summary_text(posterior)}")
    if exact := exact_marginals(posterior):
        say(f"\n{_wrapped(exact)}")
    if report:
        written.append(write_report(posterior, output / "report.html", seed, gallery.title(path)))
    print_written(written)


@app.command
def compare(
    model: str,
    *,
    methods: Annotated[Methods, Parameter(help=f"Any of {NAMES}.")] = [  # noqa: B006
        "laplace",
        "svi",
        "importance",
        "nuts",
    ],
    seed: Whole = 0,
    report: Path | None = None,
) -> None:
    """Fit a model by several methods and compare the results.

    Args:
        model: A name (see `bayeskern models`), or a Python file with a function problem().
        seed: Random seed.
        report: Also write a report to this HTML file.
    """
    if not methods:
        raise ValueError(f"methods is empty; choose from {NAMES}.")
    for method in methods:
        validation.one_of("methods", method, METHODS)
        if methods.count(method) > 1:
            raise ValueError(f"methods: {method} is given twice; give each method once.")
    path = gallery.find(model)
    if report is not None:
        files.require_file(report, "report.html")
        require_not_input(report, path)
    problem = gallery.load(path)
    posteriors, failures = {}, {}
    for method in methods:
        try:
            with gallery.blame(path):
                posteriors[method] = problem.fit(method, seed=seed)
        except (ValueError, ArithmeticError) as error:
            failures[method] = error
    if not posteriors:
        first = failures[methods[0]]
        if len(methods) > 1 and len({*map(str, failures.values())}) == 1:
            # If all methods fail with one error, the mistake is in the model.
            raise first
        reasons = "; ".join(f"{m}: {str(error).rstrip('.')}" for m, error in failures.items())
        raise ValueError(reasons) from first
    for method, posterior in posteriors.items():
        say(verdict_text(method, posterior))
    for method, error in failures.items():
        say(_wrapped(f"{method}: left out. {error}"))
    say(f"\n{bk.compare(posteriors)}")
    if report is not None:
        print_written([write_report(posteriors, report, seed, gallery.title(path))])


@app.command
def report(
    *posteriors: Path,
    model: str | None = None,
    output: Path = Path("report.html"),
    seed: Whole = 0,
) -> None:
    """Write a report on saved posteriors, or on saved forecasts.

    Args:
        posteriors: A file such as out/posterior.nc, several posteriors to compare, a saved
            forecast, or a folder of forecasts.
        model: The fitted model, as for `bayeskern fit`, for sections that need it.
        output: The HTML file.
        seed: Random seed.
    """
    files.require_file(output, "report.html")
    if not posteriors:
        raise ValueError("no posterior given; give a file, such as out/posterior.nc.")
    require_not_input(output, *posteriors, *([] if model is None else [gallery.find(model)]))
    fitted = None if model is None else gallery.load(model).model
    if len(posteriors) == 1 and fitted is None:
        # A forecast, or a folder of forecasts, has a report too.
        subject = bk.load(posteriors[0])
        if not isinstance(subject, bk.Posterior):
            say(repr(subject))
            print_written([write_report(subject, output, seed)])
            return
    loaded = {str(path): load_posterior(path, model=fitted) for path in posteriors}
    stems = [path.stem for path in posteriors]
    if len({*stems}) == len(posteriors):
        loaded = dict(zip(stems, loaded.values(), strict=True))
    for name, posterior in loaded.items():
        say(verdict_text(name, posterior))
    subject = loaded if len(loaded) > 1 else next(iter(loaded.values()))
    title = "" if model is None else gallery.title(model)
    print_written([write_report(subject, output, seed, title)])


def verdict_text(name: str, posterior: bk.Posterior) -> str:
    """Verdict with its advice, and the attempted methods if there are several."""
    trust, seconds = posterior.trust, posterior.timing["total"]
    lines = [_wrapped(f"{name}: {trust.verdict} ({seconds:.1f} s). {trust.advice}")]
    if len(posterior.attempts) > 1:
        attempts = ", ".join(f"{a.method} {a.verdict}" for a in posterior.attempts)
        lines.append(_wrapped(f"Tried: {attempts}."))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent="  ")


def summary_text(posterior: bk.Posterior) -> str:
    """The first 30 rows of the summary table."""
    table = posterior.summary()
    more = f"\n... and {len(table) - 30} more rows" if len(table) > 30 else ""
    return table.head(30).to_string() + more
