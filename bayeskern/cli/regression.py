"""The command `regress`: a regression of a table by a formula."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import bayeskern as bk
from bayeskern.cli.app import app
from bayeskern.cli.models import NAMES, summary_text, verdict_text
from bayeskern.cli.options import Whole
from bayeskern.cli.output import print_written, require_target, say, write_report
from bayeskern.core import files, validation
from bayeskern.formula.averages import average_sentences
from bayeskern.formula.build import families
from bayeskern.inference import METHODS


@app.command
def regress(
    data: Path,
    *formula: str,
    family: Annotated[str, Parameter(help=f"One of {', '.join(families())}.")] = "gaussian",
    method: Annotated[str, Parameter(help=f"One of {NAMES}.")] = "auto",
    seed: Whole = 0,
    output: Path = Path("out"),
    report: Annotated[bool, Parameter(negative="--no-report")] = True,
) -> None:
    """Fit a regression to a table, print its effects with a verdict, and write a report.

    Writes posterior.nc, effects.csv and report.html.

    Args:
        data: A CSV, Parquet or Excel file.
        formula: A formula such as "y ~ x + (1 | group)"; further ones are for parameters of the
            family, such as "sigma ~ x".
        family: Distribution of the response.
        method: Inference method.
        seed: Random seed.
        output: Folder for the files.
        report: Also write the report.
    """
    validation.one_of("method", method, METHODS)
    if not formula:
        raise ValueError('there is no formula; give one, such as "y ~ x + (1 | group)".')
    require_target(output / "effects.csv", str(data))
    model = bk.regression(formula, data, family)
    posterior = bk.infer(model, method=method, seed=seed)
    # Saved first: an error in the output below must not lose the fit.
    written = [output / "posterior.nc", output / "effects.csv"]
    posterior.save(written[0])
    with files.atomic_write(written[1]) as temporary:
        posterior.summary().to_csv(temporary)
    say(verdict_text(model.title, posterior))
    say("\n" + "\n".join([*model.sentences(posterior.flat), *average_sentences(posterior)]))
    say(f"\n{summary_text(posterior)}")
    if report:
        written.append(write_report(posterior, output / "report.html", seed, model.title))
    print_written(written)
