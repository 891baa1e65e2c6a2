"""The command line.

`bayeskern forecast`, `forecast-many`, `backtest`, `anomalies` and `datasets` are for series;
`models`, `fit`, `compare` and `report` are for models. The docstring of a command is its `--help`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

import bayeskern as bk
from bayeskern import gallery
from bayeskern.core import files, validation
from bayeskern.forecast.show.printing import number_format
from bayeskern.forecast.show.saving import write_files
from bayeskern.inference import METHODS
from bayeskern.inference.verdict import WIDTH

app = App(
    name="bayeskern",
    help="""Forecasts with honest uncertainty, and Bayesian models with a verdict on each result.

    Any command takes --debug, which shows the traceback of an error.
    """,
    version=bk.__version__,
    version_flags=["--version"],
    default_parameter=Parameter(negative=()),
)


def _parse_whole(kind: Any, tokens: Sequence[Any]) -> int:
    # cyclopts would convert 2.5 to 2.
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"wanted a whole number, got {tokens[0].value!r}") from None


Whole = Annotated[int, Parameter(converter=_parse_whole)]


@Parameter(name="*")
@dataclass
class Reading:
    """Options for reading a file.

    Attributes:
        time: Time column; guessed by default.
        value: Value column; required if there are several.
        every: Aggregate to one value per minute, hour, day, week, month, quarter or year.
        by: How values are aggregated: sum, mean or last.
        date_format: Format of the dates, such as %d/%m/%Y, if they are ambiguous.
        decimal: Decimal mark, a point or a comma, if the numbers are ambiguous.
        sheet: Sheet of a workbook.
        encoding: Encoding of a text file; by default UTF-8, or else Windows-1252.
    """

    time: str | None = None
    value: str | None = None
    every: str | None = None
    by: str | None = None
    date_format: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    encoding: str | None = None


@Parameter(name="*")
@dataclass
class Modelling:
    """Options for modelling a series.

    Attributes:
        season: Length of a season in steps, such as 12; may be repeated; 0 for none. By default
            inferred from the dates.
        positive: Keep the forecast above zero.
        lower: Smallest possible value.
        upper: Largest possible value.
        likelihood: For counts, poisson, negative_binomial or zero_inflated; for shares, beta.
        trend: Use this trend only: slope, drift, reverting or smooth. By default all are averaged.
        log: --log models only the logarithm of the values, --no-log only the values. By default
            both are averaged.
        robust: Limit the effect of outliers, by Student t noise.
        holidays: Country code, such as DE; each public holiday of the country has an effect.
        holiday_window: Numbers of days before and after a holiday that have effects, such as 1 2.
        seed: Random seed.
    """

    season: list[float] | None = None
    positive: bool = False
    lower: float | None = None
    upper: float | None = None
    likelihood: str | None = None
    trend: str | None = None
    log: Annotated[bool | None, Parameter(negative="--no-log")] = None
    robust: bool = False
    holidays: str | None = None
    holiday_window: tuple[int, int] = (0, 0)
    seed: Whole = 0

    def options(self, changes: str | list[str] | None = None) -> dict[str, Any]:
        """Arguments of `forecast`, with change points for its model."""
        if self.positive and self.log is False:
            raise ValueError(
                "--positive models the logarithm, --no-log the values as they are; give one."
            )
        model = bk.StructuralModel(
            log=True if self.positive else self.log,
            changes=changes,
            robust=self.robust,
            holiday_window=self.holiday_window,
            lower=self.lower,
            upper=self.upper,
        )
        names = ("season", "trend", "holidays", "likelihood", "seed")
        return {"model": model, **{name: getattr(self, name) for name in names}}


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
    total: str | None = None,
    backtest: Whole = 0,
    report: Annotated[bool, Parameter(negative="--no-report")] = True,
    output: Path = Path("out"),
) -> None:
    """Forecast a series and write forecast.csv, forecast.png, components.png and report.html.

    Args:
        series: A data set (see `bayeskern datasets`), or a file with times and values: CSV or
            similar text, Excel, Parquet, JSON.
        horizon: Number of steps; or "90 days", or "until 2025-12".
        level: Probability of an interval, such as 0.8; may be repeated.
        change: Date of a change of level and slope; may be repeated; "find" to search for changes.
        regressor: Column of a regressor; its future values are in rows without a value of the
            series. May be repeated.
        total: Also write totals.csv: sums per month, quarter or year, observed values included.
        backtest: Also score forecasts from this number of past dates.
        report: Write the report too.
        output: Folder for the files.
    """
    levels = sorted({validation.level(p) for p in level})
    _require_target(output / "forecast.csv", series)
    # Imported while the model is fitted: on two cores that takes no time.
    threading.Thread(target=importlib.import_module, args=("matplotlib.figure",)).start()
    options = modelling.options("find" if change == ["find"] else change)
    data = bk.read_series(series, regressors=regressor, **vars(reading))
    # The backtest comes first: it rejects bad input before the slower forecast is fitted.
    scores = bk.backtest(data, horizon, backtest, **options) if backtest else None
    future = bk.forecast(data, horizon, **options)
    # Totals may fail, so they are computed before any file is written.
    sums = None if total is None else future.totals(total, levels)
    print(bk.summary(future, level=levels[-1]))
    if sums is not None:
        print(f"\n{sums.to_string(float_format=number_format(sums.to_numpy()))}")
    if scores is not None:
        print(f"\n{scores}")
    written = future.save(output, levels)
    if sums is not None:
        text = sums.to_csv(float_format="%.10g", lineterminator="\n")
        written += write_files(output, {"totals.csv": text})
    if report:
        written.append(_write_report(future, output / "report.html", modelling.seed))
    _print_written(written)


@app.command
def forecast_many(
    series: str,
    *,
    id: str,
    horizon: str,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    level: list[float] = [0.8, 0.95],  # noqa: B006
    regressor: list[str] | None = None,
    verdict: Annotated[bool, Parameter(negative="--no-verdict")] = True,
    workers: Whole | None = None,
    scheduler: str | None = None,
    learn_priors: bool = False,
    output: Path = Path("out"),
) -> None:
    """Forecast all series of a file on all cores, and write forecasts.csv.

    A series that cannot be forecast has a row with the reason. A Parquet file gives
    forecasts.parquet instead.

    Args:
        series: A file with a row for each value of each series.
        id: Column that names the series.
        horizon: Number of steps; or "90 days", or "until 2025-12".
        level: Probability of an interval; may be repeated.
        regressor: Column of a regressor; its future values are in rows without a value of the
            series. May be repeated.
        verdict: Compute the verdict of each forecast.
        workers: Number of processes; by default one per core.
        scheduler: Address of a Dask scheduler, tcp://host:8786; "local" to start one here.
        learn_priors: First learn priors from all series, which helps short series that are alike.
        output: Folder for the file.
    """
    target = output / ("forecasts.parquet" if series.endswith(".parquet") else "forecasts.csv")
    _require_target(target, series)
    options = modelling.options() | {"regressors": regressor or (), "id": id, **vars(reading)}
    options |= {"workers": workers, "scheduler": scheduler}
    if learn_priors:
        priors = bk.learn_priors(series, **options)
        options["model"] = replace(options["model"], priors=priors)
    forecasts = bk.forecast_many(
        series, horizon, level=sorted({*level}), verdict=verdict, **options
    )
    print(forecasts)
    _print_written([forecasts.save(target)])


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
    _require_target(output / "backtest.csv", series)
    data = bk.read_series(series, regressors=regressor, **vars(reading))
    scores = bk.backtest(data, horizon, cutoff or cutoffs, **modelling.options())
    print(scores)
    _print_written(scores.save(output))


@app.command
def anomalies(
    series: str,
    *,
    level: float = 0.999,
    reading: Reading = Reading(),  # noqa: B008
    modelling: Modelling = Modelling(),  # noqa: B008
    output: Path = Path("out"),
) -> None:
    """Find values that are improbable given all others; write anomalies.csv and anomalies.png.

    Args:
        series: A data set or a file.
        level: Values outside the central interval of this probability are anomalies.
        output: Folder for the files.
    """
    _require_target(output / "anomalies.csv", series)
    data = bk.read_series(series, **vars(reading))
    result = bk.anomalies(data, level, **modelling.options())
    print(result)
    _print_written(result.save(output))


@app.command
def datasets() -> None:
    """List the series that come with bayeskern."""
    for name in bk.datasets.names():
        data = bk.datasets.load(name)
        print(f"{name:<12}{len(data.values):>5} values  {data.title}")


@app.command
def models() -> None:
    """List the models that come with bayeskern."""
    for name in gallery.names():
        print(f"{name:<20}{gallery.title(name)}")


@app.command
def fit(
    model: str,
    *,
    method: str = "auto",
    seed: Whole = 0,
    output: Path = Path("out"),
    report: bool = False,
) -> None:
    """Fit a model, print a verdict on the result, and write posterior.nc.

    Args:
        model: A name (see `bayeskern models`), or a Python file with a function problem().
        method: auto, exact, map, mle, laplace, svi, importance, pathfinder, smc or nuts.
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
    print(_verdict(f"{path.stem} by {posterior.method}", posterior))
    print(f"\n{_summary(posterior)}")
    if report:
        written.append(_write_report(posterior, output / "report.html", seed))
    _print_written(written)


@app.command
def compare(
    model: str,
    *,
    methods: Annotated[list[str], Parameter(consume_multiple=True)] = [  # noqa: B006
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
        methods: Any of auto, exact, map, mle, laplace, svi, importance, pathfinder, smc and nuts.
        seed: Random seed.
        report: Also write a report to this HTML file.
    """
    if not methods:
        raise ValueError(f"methods is empty; choose from {', '.join(METHODS)}.")
    for method in methods:
        validation.one_of("methods", method, METHODS)
        if methods.count(method) > 1:
            raise ValueError(f"methods: {method} is given twice; give each method once.")
    path = gallery.find(model)
    if report is not None:
        files.require_file(report, "report.html")
        _require_not_input(report, path)
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
            # If all methods fail alike, the mistake is in the model.
            raise first
        reasons = "; ".join(f"{m}: {str(error).rstrip('.')}" for m, error in failures.items())
        raise ValueError(reasons) from first
    for method, posterior in posteriors.items():
        print(_verdict(method, posterior))
    for method, error in failures.items():
        print(_wrapped(f"{method}: left out. {error}"))
    print(f"\n{bk.compare(posteriors)}")
    if report is not None:
        _print_written([_write_report(posteriors, report, seed)])


@app.command
def report(
    *posteriors: Path,
    model: str | None = None,
    output: Path = Path("report.html"),
    seed: Whole = 0,
) -> None:
    """Write a report on saved posteriors, such as out/posterior.nc.

    Args:
        posteriors: One file, or several to compare.
        model: The fitted model, as for `bayeskern fit`, for sections that need it.
        output: The HTML file.
        seed: Random seed.
    """
    files.require_file(output, "report.html")
    if not posteriors:
        raise ValueError("no posterior given; give a file, such as out/posterior.nc.")
    _require_not_input(output, *posteriors, *([] if model is None else [gallery.find(model)]))
    fitted = None if model is None else gallery.load(model).model
    loaded = {str(path): bk.load(path, model=fitted) for path in posteriors}
    stems = [path.stem for path in posteriors]
    if len({*stems}) == len(posteriors):
        loaded = dict(zip(stems, loaded.values(), strict=True))
    for name, posterior in loaded.items():
        print(_verdict(name, posterior))
    subject = loaded if len(loaded) > 1 else next(iter(loaded.values()))
    _print_written([_write_report(subject, output, seed)])


def _require_target(target: Path, source: str) -> None:
    """Raise an error if the folder is not writable, or the target is the source."""
    files.require_writable(target.parent)
    _require_not_input(target, source)


def _require_not_input(target: Path, *sources: str | Path) -> None:
    """Raise ValueError if the target is one of the input files."""
    for path in sources:
        if Path(path).resolve() == target.resolve():
            raise ValueError(f"{path} is an input and would be replaced; write to another file.")


def _verdict(name: str, posterior: bk.Posterior) -> str:
    """Verdict with its advice, and the attempted methods if there are several."""
    trust, seconds = posterior.trust, posterior.timing["total"]
    lines = [_wrapped(f"{name}: {trust.verdict} ({seconds:.1f} s). {trust.advice}")]
    if len(posterior.attempts) > 1:
        attempts = ", ".join(f"{a.method} {a.verdict}" for a in posterior.attempts)
        lines.append(_wrapped(f"Tried: {attempts}."))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent="  ")


def _summary(posterior: bk.Posterior) -> str:
    """The first 30 rows of the summary table."""
    table = posterior.summary()
    more = f"\n... and {len(table) - 30} more rows" if len(table) > 30 else ""
    return table.head(30).to_string() + more


def _write_report(
    subject: bk.Forecast | bk.Posterior | Mapping[str, bk.Posterior], path: Path, seed: int
) -> Path:
    from bayeskern.diagnostics.report import report  # slow to import

    return report(subject, path, seed=seed)


def _print_written(paths: Sequence[Path]) -> None:
    print("\nwritten:", *(f"  {path}" for path in paths), sep="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    An error in the input prints one line on the standard error; the exit status is 2.

    Args:
        arguments: The arguments; by default those of the process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            app([argument for argument in arguments if argument != "--debug"])
        finally:
            # Flushed here, so that a failure to write is reported below and not at exit.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does; Python must not write to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        if "--debug" in arguments:
            raise
        print(f"bayeskern: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("bayeskern: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
