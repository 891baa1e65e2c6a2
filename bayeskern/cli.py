"""The command line.

`bayeskern forecast`, `backtest`, `anomalies` and `datasets` are for series; `models`, `fit`,
`compare` and `report` are for models. The docstring of each command is its `--help`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import textwrap
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import bayeskern as bk
from bayeskern import gallery
from bayeskern.core import files, validation
from bayeskern.forecast.show.printing import number_format
from bayeskern.inference import METHODS
from bayeskern.inference.verdict import WIDTH

app = App(
    name="bayeskern",
    help="Forecasts with honest uncertainty, and Bayesian models that say how far to trust them.",
    version=bk.__version__,
    version_flags=["--version"],
)


def _whole(kind, tokens) -> int:
    # By hand, since cyclopts would turn 2.5 into 2.
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"wanted a whole number, got {tokens[0].value!r}") from None


# The most rows of a summary that are shown.
ROWS = 30

Whole = Annotated[int, Parameter(converter=_whole)]
Debug = Annotated[bool, Parameter(negative="", help="Show the traceback of an error.")]


@Parameter(name="*")
@dataclass
class Reading:
    """How a file is read.

    Attributes:
        time: The column of times; guessed if not given.
        value: The column of values; needed if there are several.
        every: Make values of longer periods: hour, day, week, month, quarter or year.
        by: How: sum, mean or last.
        date_format: How dates are written, such as %d/%m/%Y, if they do not tell.
        decimal: The mark before decimals, a point or a comma, if numbers do not tell.
        sheet: The sheet of a workbook.
        encoding: The encoding of text; UTF-8, or else Windows-1252, if not given.
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
    """What is known of a series.

    Attributes:
        season: Steps in a season, such as 12; may be repeated; 0 for none. Inferred from dates.
        positive: Keep the forecast above zero.
        lower: The least value that there can be.
        upper: The largest value that there can be.
        likelihood: For counts, poisson, negative_binomial or zero_inflated; for shares, beta.
        trend: Use this trend only: slope, drift, reverting or smooth. All are averaged by default.
        log: Model the logarithm of the values, or the values. Both are averaged by default.
        robust: Let single wild values count for little.
        holidays: The code of a country, such as DE, whose holidays have an effect.
        holiday_window: Days before and after a holiday that have an effect too: 1 2.
        seed: The same seed gives the same numbers.
    """

    season: Annotated[list[float] | None, Parameter(negative="")] = None
    positive: Annotated[bool, Parameter(negative="")] = False
    lower: float | None = None
    upper: float | None = None
    likelihood: str | None = None
    trend: str | None = None
    log: bool | None = None
    robust: Annotated[bool, Parameter(negative="")] = False
    holidays: str | None = None
    holiday_window: Annotated[tuple[int, int], Parameter(negative="")] = (0, 0)
    seed: Whole = 0

    def options(self, changes=None) -> dict:
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
        return {
            "season": self.season,
            "trend": self.trend,
            "holidays": self.holidays,
            "likelihood": self.likelihood,
            "model": model,
            "seed": self.seed,
        }


@app.command
def forecast(
    series: str,
    *,
    horizon: str,
    reading: Reading = Reading(),  # noqa: B008
    known: Modelling = Modelling(),  # noqa: B008
    level: Annotated[list[float], Parameter(negative="")] = [0.8, 0.95],  # noqa: B006
    change: Annotated[list[str] | None, Parameter(negative="")] = None,
    regressor: Annotated[list[str] | None, Parameter(negative="")] = None,
    total: str | None = None,
    backtest: Whole = 0,
    report: bool = True,
    output: Path = Path("out"),
    debug: Debug = False,
) -> None:
    """Forecast a series and write forecast.csv, forecast.png, components.png and report.html.

    Args:
        series: A data set (see `bayeskern datasets`) or a file with times and values: CSV and its
            like, Excel, Parquet, JSON.
        horizon: How many steps ahead; or "90 days", or "until 2025-12".
        level: Probability of an interval, such as 0.8; may be repeated.
        change: When level and slope changed; may be repeated; "find" to look for it.
        regressor: A column that is known for the future too, in rows whose value is empty; may be
            repeated.
        total: Also write totals.csv, sums of each month, quarter or year, known values included.
        backtest: Also score forecasts from this many past dates.
        report: Write the report too.
        output: The folder to write to.
    """
    levels = sorted({validation.level(p) for p in level})
    files.require_writable(output)
    _require_other(output / "forecast.csv", series)
    _import_matplotlib()
    options = known.options("find" if change == ["find"] else change)
    data = bk.read_series(series, regressors=regressor, **vars(reading))
    # First, since it finds mistakes in the input before anything is fitted.
    scores = bk.backtest(data, horizon, backtest, **options) if backtest else None
    future = bk.forecast(data, horizon, **options)
    # Before anything is written, since there may be none.
    sums = None if total is None else future.totals(total, levels)
    print(bk.summary(future, level=levels[-1]))
    if sums is not None:
        print(f"\n{sums.to_string(float_format=number_format(sums.to_numpy()))}")
    if scores is not None:
        print(f"\n{scores}")
    written = future.save(output, levels)
    if sums is not None:
        written.append(output / "totals.csv")
        with files.atomic_write(written[-1]) as path:
            sums.to_csv(path, float_format="%.10g", lineterminator="\n")
    if report:
        written.append(_write_report(future, output / "report.html", known.seed))
    _print_written(written)


@app.command
def forecast_many(
    series: str,
    *,
    id: str,
    horizon: str,
    reading: Reading = Reading(),  # noqa: B008
    known: Modelling = Modelling(),  # noqa: B008
    level: Annotated[list[float], Parameter(negative="")] = [0.8, 0.95],  # noqa: B006
    regressor: Annotated[list[str] | None, Parameter(negative="")] = None,
    verdict: bool = True,
    workers: Whole | None = None,
    scheduler: str | None = None,
    learn_priors: Annotated[bool, Parameter(negative="")] = False,
    output: Path = Path("out"),
    debug: Debug = False,
) -> None:
    """Forecast all series of a file on all cores, and write forecasts.csv.

    A series that cannot be forecast has a row that says why. From Parquet comes Parquet,
    forecasts.parquet.

    Args:
        series: A file with a row for each value of each series.
        id: The column that names the series.
        horizon: How many steps ahead; or "90 days", or "until 2025-12".
        level: Probability of an interval; may be repeated.
        regressor: A column that is known for the future too, in rows whose value is empty; may be
            repeated.
        verdict: Compute the verdict of each forecast.
        workers: How many processes; one for each core if not given.
        scheduler: The address of a scheduler of Dask, tcp://host:8786; "local" starts one here.
        learn_priors: Learn priors from all series first, which helps short ones that are alike.
        output: The folder to write to.
    """
    written = output / ("forecasts.parquet" if series.endswith(".parquet") else "forecasts.csv")
    files.require_writable(output)
    _require_other(written, series)
    options = known.options() | {"regressors": regressor or (), "id": id, **vars(reading)}
    options |= {"workers": workers, "scheduler": scheduler}
    if learn_priors:
        priors = bk.learn_priors(series, **options)
        options["model"] = replace(options["model"], priors=priors)
    forecasts = bk.forecast_many(
        series, horizon, level=sorted({*level}), verdict=verdict, **options
    )
    print(forecasts)
    _print_written([forecasts.save(written)])


@app.command
def backtest(
    series: str,
    *,
    horizon: str,
    cutoffs: Whole = 3,
    cutoff: Annotated[list[str] | None, Parameter(negative="")] = None,
    reading: Reading = Reading(),  # noqa: B008
    known: Modelling = Modelling(),  # noqa: B008
    regressor: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Path = Path("out"),
    debug: Debug = False,
) -> None:
    """Forecast from past dates, score what came true, write backtest.csv and backtest.png.

    Args:
        series: A data set or a file.
        horizon: How many steps ahead; or "90 days".
        cutoffs: From how many past dates, `horizon` steps apart.
        cutoff: A past date, the last that a forecast may see; may be repeated. Instead of cutoffs.
        regressor: A column that is known for the future too; may be repeated.
        output: The folder to write to.
    """
    files.require_writable(output)
    _require_other(output / "backtest.csv", series)
    data = bk.read_series(series, regressors=regressor, **vars(reading))
    scores = bk.backtest(data, horizon, cutoff or cutoffs, **known.options())
    print(scores)
    _print_written(scores.save(output))


@app.command
def anomalies(
    series: str,
    *,
    level: float = 0.999,
    reading: Reading = Reading(),  # noqa: B008
    known: Modelling = Modelling(),  # noqa: B008
    output: Path = Path("out"),
    debug: Debug = False,
) -> None:
    """Find values that all others speak against, write anomalies.csv and anomalies.png.

    Args:
        series: A data set or a file.
        level: Probability of the intervals, outside of which a value stands out.
        output: The folder to write to.
    """
    files.require_writable(output)
    _require_other(output / "anomalies.csv", series)
    data = bk.read_series(series, **vars(reading))
    found = bk.anomalies(data, level, **known.options())
    print(found)
    _print_written(found.save(output))


@app.command
def datasets(*, debug: Debug = False) -> None:
    """List the series that come with bayeskern."""
    for name in bk.datasets.names():
        data = bk.datasets.load(name)
        print(f"{name:<12}{len(data.values):>5} values  {data.title}")


@app.command
def models(*, debug: Debug = False) -> None:
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
    report: Annotated[bool, Parameter(negative="")] = False,
    debug: Debug = False,
) -> None:
    """Fit a model, say how far to trust the result, and write posterior.nc.

    Args:
        model: A name (see `bayeskern models`), or a Python file with a function problem().
        method: auto, exact, map, mle, laplace, svi, importance, pathfinder, smc or nuts.
        seed: The same seed gives the same numbers.
        output: The folder to write to.
        report: Also write report.html.
    """
    validation.one_of("method", method, METHODS)
    files.require_writable(output)
    path = gallery.find(model)
    problem = gallery.load(path)
    with gallery.blame(path):
        posterior = problem.fit(method, seed=seed)
    # Saved first, so that nothing that fails later can lose it.
    saved = output / "posterior.nc"
    posterior.save(saved)
    print(_verdict(f"{path.stem} by {posterior.method}", posterior))
    print(f"\n{_summary(posterior)}")
    pages = [_write_report(posterior, output / "report.html", seed)] if report else []
    _print_written([saved, *pages])


@app.command
def compare(
    model: str,
    *,
    methods: Annotated[list[str], Parameter(negative="", consume_multiple=True)] = [  # noqa: B006
        "laplace",
        "svi",
        "importance",
        "nuts",
    ],
    seed: Whole = 0,
    report: Path | None = None,
    debug: Debug = False,
) -> None:
    """Fit a model by several methods and put the results side by side.

    Args:
        model: A name (see `bayeskern models`), or a Python file with a function problem().
        methods: Any of auto, exact, map, mle, laplace, svi, importance, pathfinder, smc and nuts.
        seed: The same seed gives the same numbers.
        report: Also write a report to this HTML file.
    """
    if not methods:
        raise ValueError(f"methods: came none, wanted some of {', '.join(METHODS)}.")
    for method in methods:
        validation.one_of("methods", method, METHODS)
        if methods.count(method) > 1:
            raise ValueError(f"methods: {method} is there twice; wanted each once.")
    path = gallery.find(model)
    if report is not None:
        files.require_file(report, "report.html")
        _require_other(report, path)
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
            # All methods fail alike, so it is the model that is wrong.
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
    debug: Debug = False,
) -> None:
    """Write a report on posteriors that were saved, such as out/posterior.nc.

    Args:
        posteriors: One file, or several to compare.
        model: What was fitted, as for `bayeskern fit`, for what needs the model itself.
        output: The HTML file to write.
        seed: The same seed gives the same numbers.
    """
    files.require_file(output, "report.html")
    if not posteriors:
        raise ValueError("which posterior? Give a file, such as out/posterior.nc.")
    _require_other(output, *posteriors, *([] if model is None else [gallery.find(model)]))
    fitted = None if model is None else gallery.load(model).model
    loaded = {str(path): bk.load(path, model=fitted) for path in posteriors}
    stems = [path.stem for path in posteriors]
    if len({*stems}) == len(posteriors):
        loaded = dict(zip(stems, loaded.values(), strict=True))
    for name, posterior in loaded.items():
        print(_verdict(name, posterior))
    _print_written([_write_report(loaded if len(loaded) > 1 else posterior, output, seed)])


def _require_other(written: Path, *inputs) -> None:
    """Refuse to write over a file that is read."""
    for path in inputs:
        if Path(path).resolve() == written.resolve():
            raise ValueError(f"{path} is read here and would be replaced; write to another place.")


def _verdict(name: str, posterior) -> str:
    """The verdict and the advice, and the methods tried if there were several."""
    trust, seconds = posterior.trust, posterior.timing["total"]
    lines = [_wrapped(f"{name}: {trust.verdict} ({seconds:.1f} s). {trust.advice}")]
    if len(posterior.attempts) > 1:
        tried = ", ".join(f"{a.method} {a.verdict}" for a in posterior.attempts)
        lines.append(_wrapped(f"Tried: {tried}."))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent="  ")


def _summary(posterior) -> str:
    """The first rows of the summary table."""
    table = posterior.summary()
    more = len(table) - ROWS
    shown = table.head(ROWS).to_string()
    return shown if more <= 0 else f"{shown}\n... and {more} more rows"


def _write_report(subject, path: Path, seed: int) -> Path:
    # Here, since it takes a while to import.
    from bayeskern.diagnostics.report import report

    return report(subject, path, seed=seed)


def _import_matplotlib() -> None:
    """Import matplotlib while the model is being fitted: on two cores that costs no time."""
    threading.Thread(target=importlib.import_module, args=("matplotlib.figure",)).start()


def _print_written(paths: list[Path]) -> None:
    print("\nwritten:", *(f"  {path}" for path in paths), sep="\n")


def main(arguments=None) -> None:
    """Run the command line; a mistake in the input is one line on stderr and exit status 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            app(arguments)
        finally:
            # Here, so that a failure to write is reported below and not at exit.
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
