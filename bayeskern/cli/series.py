"""Commands for series: forecasts, backtests, anomalies, gaps and data sets."""

from __future__ import annotations

import importlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import bayeskern as bk
from bayeskern.cli.app import app
from bayeskern.cli.options import Modelling, Reading, Whole
from bayeskern.cli.output import (
    print_written,
    require_not_input,
    require_target,
    say,
    write_report,
)
from bayeskern.core import files, validation
from bayeskern.forecast.show.printing import number_format
from bayeskern.forecast.show.saving import csv_text, write_files


@app.command
def forecast(
    series: str,
    *,
    horizon: str,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    level: list[float] = [0.8, 0.95],  # noqa: B006
    change: list[str] | None = None,
    regressor: list[str] | None = None,
    recent: str | None = None,
    total: str | None = None,
    backtest: Whole = 0,
    save: Path | None = None,
    report: Annotated[bool, Parameter(negative="--no-report")] = True,
    output: Path = Path("out"),
) -> None:
    """Forecast a series and write a table, plots and a report.

    Writes forecast.csv, forecast.png, components.png and report.html.

    Args:
        series: A data set (see `bayeskern datasets`), or a file with times and values: CSV or
            similar text, Excel, Parquet, JSON.
        horizon: Number of steps; or "90 days", or "until 2025-12".
        level: Probability of an interval, such as 0.8; may be repeated.
        change: Date of a change of level and slope; may be repeated; "find" to search for changes.
        regressor: Column of a regressor; its future values are in rows without a value of the
            series. May be repeated.
        recent: File with recent values at a finer frequency, such as daily sales since the last
            of the monthly totals of the series.
        total: Also write totals.csv: sums per month, quarter or year, observed values included.
        backtest: Also score forecasts from this number of past dates.
        save: Also write the forecast to a file, such as sales.nc, for `bayeskern update`.
        report: Also write the report.
        output: Folder for the files.
    """
    levels = sorted({validation.level(p) for p in level})
    require_target(output / "forecast.csv", series)
    if recent is not None:
        excluded = {
            "--backtest": backtest or None,
            "--save": save,
            "--holidays": modelling.holidays,
            "--events": modelling.events,
            "--likelihood": modelling.likelihood,
        }
        for name, value in excluded.items():
            if value is not None:
                raise ValueError(f"--recent excludes {name}: leave out one of the two.")
    if save is not None:
        require_not_input(files.require_file(save, "forecast.nc"), series)
    # Imported while the model is fitted, to save time.
    slow_module = "bayeskern.reports" if report else "matplotlib.figure"
    threading.Thread(target=importlib.import_module, args=(slow_module,)).start()
    options = modelling.options("find" if change == ["find"] else change)
    data = bk.read_series(series, **reading.options(regressor))
    # The backtest comes first: it rejects bad input before the slower forecast is fitted.
    scores = bk.backtest(data, horizon, backtest, **options) if backtest else None
    if recent is None:
        future = bk.forecast(data, horizon, **options)
    else:
        shared = {name: options[name] for name in ("season", "trend", "model", "seed")}
        future = bk.forecast_mixed(data, recent, horizon, **shared)
    # Totals may raise an error, so they are computed before any file is written.
    sums = None if total is None else future.totals(total, levels)
    say(bk.summary(future, level=levels[-1]))
    if sums is not None:
        say(f"\n{sums.to_string(float_format=number_format(sums.to_numpy()))}")
    if scores is not None:
        say(f"\n{scores}")
    with files.together():
        written = future.export(output, levels)
        if sums is not None:
            written += write_files(output, {"totals.csv": csv_text(sums)})
        if report:
            written.append(write_report(future, output / "report.html", modelling.seed))
        if save is not None:
            future.save(save)
            written.append(save)
    print_written(written)


@app.command
def forecast_many(
    series: str,
    *,
    horizon: str,
    id: str | None = None,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    level: list[float] = [0.8, 0.95],  # noqa: B006
    regressor: list[str] | None = None,
    verdict: Annotated[bool, Parameter(negative="--no-verdict")] = True,
    workers: Whole | None = None,
    scheduler: str | None = None,
    learn_priors: bool = False,
    folder: Path | None = None,
    resume: bool = False,
    output: Path = Path("out"),
) -> None:
    """Forecast all series of a file on all cores, and write forecasts.csv.

    A series that cannot be forecast has a row with the reason. A Parquet file gives
    forecasts.parquet instead.

    Args:
        series: A file with a row for each value of each series.
        horizon: Number of steps; or "90 days", or "until 2025-12".
        id: Column that names the series; by default unique_id.
        level: Probability of an interval; may be repeated.
        regressor: Column of a regressor; its future values are in rows without a value of the
            series. May be repeated.
        verdict: Compute the verdict of each forecast.
        workers: Number of processes; by default one per core.
        scheduler: Address of a Dask scheduler, tcp://host:8786; "local" to start one here.
        learn_priors: First learn priors from all series, which helps short series that are alike.
        folder: Also write each forecast to this folder as soon as it is finished, for `bayeskern
            update` and `bk.load`.
        resume: Continue a run that was stopped; its forecasts in the folder are not fitted again.
        output: Folder for the file.
    """
    target = output / ("forecasts.parquet" if series.endswith(".parquet") else "forecasts.csv")
    require_target(target, series)
    options = modelling.options() | {"id": id, **reading.options(regressor)}
    options |= {"workers": workers, "scheduler": scheduler}
    storage = {"folder": folder, "resume": resume}
    if learn_priors:
        priors = bk.learn_priors(series, **options)
        options["model"] = replace(options["model"], priors=priors)
    forecasts = bk.forecast_many(
        series, horizon, level=sorted({*level}), verdict=verdict, **options, **storage
    )
    say(forecasts)
    print_written([forecasts.export(target)])


@app.command
def backtest(
    series: str,
    *,
    horizon: str,
    cutoffs: Whole = 3,
    cutoff: list[str] | None = None,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    regressor: list[str] | None = None,
    output: Path = Path("out"),
) -> None:
    """Score forecasts from past dates, and write backtest.csv and backtest.png.

    Args:
        series: A data set or a file.
        horizon: Number of steps; or "90 days".
        cutoffs: Number of past dates, `horizon` steps apart.
        cutoff: Last date that a forecast may use; replaces --cutoffs; may be repeated.
        regressor: Column of a regressor, which forecasts may use; may be repeated.
        output: Folder for the files.
    """
    require_target(output / "backtest.csv", series)
    data = bk.read_series(series, **reading.options(regressor))
    scores = bk.backtest(data, horizon, cutoff or cutoffs, **modelling.options())
    say(scores)
    print_written(scores.export(output))


@app.command
def anomalies(
    series: str,
    *,
    level: float = 0.999,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    output: Path = Path("out"),
) -> None:
    """Find values that are improbable given all others.

    Writes anomalies.csv and anomalies.png.

    Args:
        series: A data set or a file.
        level: Values outside the central interval of this probability are anomalies.
        output: Folder for the files.
    """
    require_target(output / "anomalies.csv", series)
    data = bk.read_series(series, **reading.options())
    result = bk.anomalies(data, level, **modelling.options())
    say(result)
    print_written(result.export(output))


@app.command
def fill_gaps(
    series: str,
    *,
    level: float = 0.95,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    regressor: list[str] | None = None,
    output: Path = Path("out"),
) -> None:
    """Predict missing values from all others; write filled.csv and filled.png.

    Args:
        series: A data set or a file.
        level: Probability of the central intervals.
        regressor: Column of a regressor, with a value in each row; may be repeated.
        output: Folder for the files.
    """
    require_target(output / "filled.csv", series)
    data = bk.read_series(series, **reading.options(regressor))
    result = bk.fill_gaps(data, level, **modelling.options())
    say(result)
    print_written(result.export(output))


@app.command
def datasets() -> None:
    """List the series that come with bayeskern."""
    for name in bk.datasets.names():
        data = bk.datasets.load(name)
        say(f"{name:<12}{len(data.values):>5} values  {data.title}")
