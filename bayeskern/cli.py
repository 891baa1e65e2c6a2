"""The command line: `bayeskern forecast`, `bayeskern backtest`, `bayeskern datasets`."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import bayeskern as bk
from bayeskern import checks, files

app = App(
    name="bayeskern",
    help="Forecasts with honest uncertainty, from Gaussian processes with composite kernels.",
    version=bk.__version__,
    version_flags=["--version"],
)


def _whole(kind, tokens) -> int:
    try:
        return int(tokens[0].value)  # cyclopts would make 2 out of 2.5
    except ValueError:
        raise ValueError(f"wanted a whole number, got {tokens[0].value!r}") from None


Whole = Annotated[int, Parameter(converter=_whole)]
Debug = Annotated[bool, Parameter(negative="", help="Show the traceback of an error.")]


@app.command
def forecast(
    series: str,
    *,
    horizon: Whole,
    time: str | None = None,
    value: str | None = None,
    season: Annotated[list[float] | None, Parameter(negative="")] = None,
    level: Annotated[list[float], Parameter(negative="")] = [0.8, 0.95],  # noqa: B006
    positive: Annotated[bool, Parameter(negative="")] = False,
    backtest: Whole = 0,
    output: Path = Path("out"),
    seed: Whole = 0,
    debug: Debug = False,
) -> None:
    """Forecast a series and write forecast.csv, forecast.png and components.png.

    Parameters
    ----------
    series
        A data set (see `bayeskern datasets`) or a CSV file with times and values.
    horizon
        How many steps ahead.
    time
        The column of times; guessed if not given.
    value
        The column of values; needed if there are several.
    season
        Steps in a season, such as 12; may be repeated; 0 for none. Inferred from dates.
    level
        Probability of an interval, such as 0.8; may be repeated.
    positive
        Keep the forecast above zero.
    backtest
        Also score forecasts from this many past dates.
    output
        The folder to write to.
    seed
        The same seed gives the same numbers.
    """
    levels = sorted({checks.level(p) for p in level})
    checks.positive_integer(horizon, "horizon")
    files.require_writable(output)
    _import_matplotlib()
    options = {"season": season, "time": time, "value": value, "positive": positive, "seed": seed}
    # What a backtest may find wrong, it finds before anything is fitted.
    scores = bk.backtest(series, horizon, backtest, **options) if backtest else None
    found = bk.forecast(series, horizon, **options)
    print(bk.summary(found, level=levels[-1]))
    if scores is not None:
        print(f"\n{scores}")
    _report(found.save(output, levels))


@app.command
def backtest(
    series: str,
    *,
    horizon: Whole,
    cutoffs: Whole = 3,
    cutoff: Annotated[list[str] | None, Parameter(negative="")] = None,
    time: str | None = None,
    value: str | None = None,
    season: Annotated[list[float] | None, Parameter(negative="")] = None,
    positive: Annotated[bool, Parameter(negative="")] = False,
    output: Path = Path("out"),
    seed: Whole = 0,
    debug: Debug = False,
) -> None:
    """Forecast from past dates, score what came true, write backtest.csv and backtest.png.

    Parameters
    ----------
    series
        A data set or a CSV file.
    horizon
        How many steps ahead.
    cutoffs
        From how many past dates, `horizon` steps apart.
    cutoff
        A past date, the last that a forecast may see; may be repeated. Instead of cutoffs.
    time
        The column of times; guessed if not given.
    value
        The column of values; needed if there are several.
    season
        Steps in a season; may be repeated. Inferred from dates if not given; 0 for none.
    positive
        Keep the forecast above zero.
    output
        The folder to write to.
    seed
        The same seed gives the same numbers.
    """
    files.require_writable(output)
    options = {"season": season, "time": time, "value": value, "positive": positive, "seed": seed}
    result = bk.backtest(series, horizon, cutoff or cutoffs, **options)
    print(result)
    _report(result.save(output))


@app.command
def datasets(*, debug: Debug = False) -> None:
    """List the series that come with bayeskern."""
    for name in bk.datasets.names():
        data = bk.datasets.load(name)
        print(f"{name:<12}{len(data.values):>5} values  {data.title}")


def _import_matplotlib() -> None:
    """Import it while the model is being fitted, not after: on two cores that costs nothing."""
    threading.Thread(target=importlib.import_module, args=("matplotlib.figure",)).start()


def _report(paths: list[Path]) -> None:
    print("\nwritten:", *(f"  {path}" for path in paths), sep="\n")


def main(arguments=None) -> None:
    """Run the command line; a mistake in the input is one line on stderr and exit status 2."""
    _keep_compiled()
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(arguments)
    except (ValueError, OSError, FloatingPointError) as error:
        if "--debug" in arguments:
            raise
        print(f"bayeskern: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("bayeskern: stopped", file=sys.stderr)
        sys.exit(130)


def _keep_compiled() -> None:
    """Keep what JAX compiles between runs, unless the user has chosen where."""
    import jax

    # JAX read the environment when it was imported, so that setting it now would do nothing.
    if jax.config.jax_compilation_cache_dir is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(cache / "bayeskern" / "jax"))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


if __name__ == "__main__":
    main()
