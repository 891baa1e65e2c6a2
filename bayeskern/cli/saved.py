"""Commands for saved forecasts: `update`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import bayeskern as bk
from bayeskern.cli.app import app
from bayeskern.cli.options import Reading
from bayeskern.cli.output import (
    print_written,
    require_not_input,
    require_target,
    say,
    write_report,
)
from bayeskern.core import files, validation
from bayeskern.series.new_values import new_values


@app.command
def update(
    saved: Path,
    new: str,
    *,
    reading: Reading = Reading(),  # noqa: B008
    id: str | None = None,
    level: list[float] = [0.8, 0.95],  # noqa: B006
    save: Path | None = None,
    report: Annotated[bool, Parameter(negative="--no-report")] = True,
    output: Path = Path("out"),
) -> None:
    """Continue a saved forecast after new values, without fitting again.

    Writes the same files as `forecast`, or forecasts.csv and report.html for a folder of forecasts,
    and saves the updated forecast.

    Args:
        saved: A file that `forecast --save` wrote, or a folder that `forecast-many --folder` wrote.
        new: A file with new values; rows of earlier times are skipped.
        id: Column that names the series, for a folder; by default the column that `forecast-many`
            used.
        level: Probability of an interval of a single forecast, such as 0.8; may be repeated.
        save: File or folder for the updated forecast; by default the saved one is replaced.
        report: Also write the report.
        output: Folder for the files.
    """
    levels, save = sorted({validation.level(p) for p in level}), save or saved
    require_target(output / "forecast.csv", new)
    require_not_input(save, new)
    loaded = bk.load(saved)
    if isinstance(loaded, bk.Posterior):
        raise ValueError(f"{saved} is a posterior, not a forecast: update needs a forecast.")
    if isinstance(loaded, bk.Forecasts):
        forecasts = loaded.update(new, id=id, **reading.options())
        say(forecasts)
        with files.together():
            written = [forecasts.export(output / "forecasts.csv"), save]
            if report:
                written.append(write_report(forecasts, output / "report.html", 0))
        # Last: after a failure, the next run repeats the update.
        forecasts.save(save)
    else:
        future = loaded.update(new_values(new, loaded.series, reading))
        say(bk.summary(future, level=levels[-1]))
        with files.together():
            written = [*future.export(output, levels), save]
            if report:
                written.append(write_report(future, output / "report.html", future.seed))
            future.save(save)
    print_written(written)
