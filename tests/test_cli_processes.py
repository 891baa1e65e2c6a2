"""Every command of the command line as a process: its files, and a mistake in its input."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli
from tests.test_cli import one_line, run

QUICK = ("--trend", "drift", "--season", 0, "--no-log")
FORECAST = {"forecast.csv", "forecast.png", "components.png", "report.html"}

# Command -> arguments, files that it writes, text that it prints.
COMMANDS = {
    "forecast": (
        ("sales.csv", "--horizon", "6 months", "--level", 0.9, "--total", "quarter", "--backtest",
         1, "--save", "out/sales.nc", *QUICK),
        FORECAST | {"totals.csv", "sales.nc"},
        "40 values of units",
    ),
    "forecast-many": (
        ("stores.csv", "--id", "store", "--horizon", 3, "--workers", 2, "--folder", "out/kept",
         *QUICK),
        {"forecasts.csv", "kept"},
        "forecasts of 2 of 2 series",
    ),
    "backtest": (
        ("sales.csv", "--horizon", 3, "--cutoffs", 2, *QUICK),
        {"backtest.csv", "backtest.png"},
        "2 forecasts of 3 steps",
    ),
    "anomalies": (
        ("sales.csv", "--level", 0.99, *QUICK),
        {"anomalies.csv", "anomalies.png"},
        "of 40 values",
    ),
    "fill-gaps": (
        ("gaps.csv", "--level", 0.8, *QUICK),
        {"filled.csv", "filled.png"},
        "2 missing values",
    ),
    "datasets": ((), set(), "airline"),
    "update": (("units.nc", "new.csv"), FORECAST, "42 values of units"),
    "report": (("units.nc", "--output", "out/page.html"), {"page.html"}, "40 values of units"),
    "models": ((), set(), "eight_schools"),
    "fit": (
        ("coin", "--method", "laplace", "--seed", 1, "--report"),
        {"posterior.nc", "report.html"},
        "coin by laplace: good",
    ),
    "compare": (
        ("coin", "--methods", "exact", "laplace", "--report", "out/both.html"),
        {"both.html"},
        "laplace: good",
    ),
}  # fmt: skip

# Command -> arguments with a mistake, and the message.
MISTAKES = {
    "forecast": (("sales.csv", "--horizon", 6, "--value", "unit"), "mean 'units'"),
    "forecast-many": (("stores.csv", "--horizon", 3, "--id", "shop"), "shop"),
    "backtest": (("sales.csv", "--horizon", 30, "--cutoffs", 2), "a cutoff leaves"),
    "anomalies": (("sales.csv", "--level", 99), "strictly between 0 and 1"),
    "fill-gaps": (("gaps.csv", "--level", 80), "strictly between 0 and 1"),
    "datasets": (("nile",), "nile"),
    "update": (("sales.csv", "new.csv"), "not a netCDF file"),
    "report": (("none.nc",), "there is no file none.nc"),
    "models": (("coin",), "coin"),
    "fit": (("coin", "--method", "nutz"), "Did you mean 'nuts'?"),
    "compare": (("coin", "--methods", "nutz"), "methods='nutz' is not known"),
}

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    """Files of 40 months, with two more, with a gap and of two stores."""
    y = 50.0 + np.cumsum(np.random.default_rng(0).normal(size=42))
    table = pd.DataFrame({"month": pd.date_range("2019-01-01", periods=42, freq="MS"), "units": y})
    gap = table[:40].copy()
    gap.loc[20:21, "units"] = np.nan
    stores = pd.concat(table[:40].assign(store=name) for name in "ab")
    for name, frame in {"new": table, "sales": table[:40], "gaps": gap, "stores": stores}.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_all_commands_are_tried():
    commands = {name for name in cli.app if not name.startswith("-")}
    assert commands == set(COMMANDS) == set(MISTAKES)


@pytest.mark.parametrize("command", COMMANDS)
def test_command(folder, command):
    arguments, files, text = COMMANDS[command]
    if "units.nc" in arguments:
        sales = pd.read_csv(folder / "sales.csv", parse_dates=["month"])
        model = bk.StructuralModel(log=False)
        bk.forecast(sales, 4, season=0, trend="drift", model=model).save(folder / "units.nc")
    status, out, err = run(command, *arguments, cwd=folder)
    assert (status, err) == (0, "") and text in out
    output = folder / "out"
    written = {path.name for path in output.iterdir()} if output.exists() else set()
    assert written == files
    assert all(path.is_dir() or path.stat().st_size > 0 for path in output.rglob("*"))


@pytest.mark.parametrize("command", MISTAKES)
def test_mistake_is_one_line(folder, command):
    before = {path.name for path in folder.iterdir()}
    arguments, message = MISTAKES[command]
    status, out, err = run(command, *arguments, cwd=folder)
    assert (status, out) == (2, "") and message in one_line(err)
    assert {path.name for path in folder.iterdir()} - before <= {"out"}
    assert list(folder.glob("out/*")) == []
