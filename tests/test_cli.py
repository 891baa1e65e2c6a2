"""The command line: output, files and errors."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli, gallery

MONTHS = pd.date_range("2015-01-01", periods=60, freq="MS")
# Compiled functions are kept between runs of the tests.
CACHE = Path(tempfile.gettempdir()) / "bayeskern-tests"


def run(*arguments, cwd=None, **env):
    """(exit status, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-m", "bayeskern", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "XDG_CACHE_HOME": str(CACHE), **env},
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def here(monkeypatch, capsys):
    """Run the command line in this process."""

    def call(*arguments):
        with pytest.raises(SystemExit) as info:
            cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return info.value.code, out, err

    return call


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """A file as exported by a spreadsheet, with odd names and an unused column."""
    t = np.arange(60)
    rng = np.random.default_rng(0)
    units = 4 + 0.03 * t + np.sin(2 * np.pi * t / 12) + 0.3 * rng.standard_normal(60)
    frame = pd.DataFrame(
        {"Datum, Uhrzeit": MONTHS.strftime("%Y-%m-%d"), "Preis": 2.5, "Umsatz in $": units.round(6)}
    )
    path = tmp_path_factory.mktemp("data") / "Umsätze.csv"
    frame.to_csv(path, sep=";", index=False, encoding="utf-8-sig")
    return path, frame


def one_line(err):
    assert err.count("\n") == 1 and err.startswith("bayeskern: ") and "Traceback" not in err
    return err


# -- forecast --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_forecast(sales, tmp_path):
    path, frame = sales
    output = tmp_path / "new" / "folder"
    columns = ["--time", "Datum, Uhrzeit", "--value", "Umsatz in $"]
    levels = ["--level", 0.95, "--level", 0.8, "--level", 0.8]
    status, out, err = run(
        "forecast", path, *columns, "--horizon", 6, *levels, "--output", output, "--backtest", 2
    )
    assert (status, err) == (0, "")
    lines = out.splitlines()
    said = [line for line in lines if "/folder/" not in line]
    assert max(map(len, said)) <= 100
    assert lines[0] == "Umsätze: 60 values of Umsatz in $, 2015-01-01 to 2019-12-01"
    assert "monthly, at month start" in out and "95 % interval" in out
    assert "Umsätze: 2 forecasts of 6 steps, 12 values" in lines
    names = ["components.png", "forecast.csv", "forecast.png", "report.html"]
    assert sorted(p.name for p in output.iterdir()) == names
    assert all(str(output / name) in out for name in names)
    for name in ("forecast.png", "components.png"):
        assert (output / name).read_bytes().startswith(b"\x89PNG")
    assert "Forecast of Umsätze" in (output / "report.html").read_text(encoding="utf-8")

    found = pd.read_csv(output / "forecast.csv", index_col=0, parse_dates=True)
    assert found.index.name == "Datum, Uhrzeit"
    np.testing.assert_array_equal(found.index, pd.date_range("2020-01-01", periods=6, freq="MS"))
    values = pd.Series(frame["Umsatz in $"].to_numpy(), MONTHS)
    forecast = bk.forecast(values, 6)
    expected = forecast.to_frame([0.8, 0.95])
    assert found.pop("verdict").iloc[1] == forecast.trust.verdict
    assert list(found.columns) == list(expected.columns)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    score = bk.backtest(values, 6, 2).scores["forecast"]["mae"]
    row = next(line.split() for line in lines if line.startswith("  forecast "))
    assert float(row[1]) == pytest.approx(score, rel=1e-3)


@pytest.mark.slow
def test_an_event_log_with_events_and_the_last_values(here, tmp_path, monkeypatch):
    """Options of the command give the numbers of the Python call."""
    monkeypatch.chdir(tmp_path)
    gaps = np.random.default_rng(0).integers(0, 24 * 60, 4000)
    times = np.datetime64("2024-01-01") + gaps.cumsum().astype("m8[s]")
    pd.DataFrame({"when": times, "what": "call"}).to_csv("log.csv", index=False)
    events = {"Fair": ["2024-01-25", "2024-01-28"]}
    Path("events.csv").write_text("name,date\nFair,2024-01-25\nFair,2024-01-28\n")
    status, out, _ = here(
        "forecast", "log.csv", "--every", "hour", "--by", "count", "--horizon", 5, "--events",
        "events.csv", "--last", 300, "--method", "map", "--timezone", "Asia/Tokyo", "--no-report",
    )  # fmt: skip
    assert status == 0 and "each hour has the number of its rows" in out
    hours = bk.read_series("log.csv", every="hour", by="count", timezone="Asia/Tokyo")
    model = bk.StructuralModel(last=300, method="map")
    expected = bk.forecast(hours, 5, events=events, model=model)
    written = pd.read_csv(Path("out") / "forecast.csv", index_col=0)
    np.testing.assert_allclose(written["median"], expected.median, rtol=1e-6)


def test_report_of_a_forecast_is_escaped(here, tmp_path):
    hostile, path = "<script>alert(1)</script>", tmp_path / "sales.csv"
    # A constant series needs no fit.
    pd.DataFrame({"date": MONTHS[:5], hostile: 2.0}).to_csv(path, index=False)
    status, out, _ = here("forecast", path, "--horizon", 2, "--output", tmp_path)
    assert status == 0 and out.splitlines()[-1] == f"  {tmp_path / 'report.html'}"
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert hostile not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@pytest.mark.slow
def test_backtest(sales, tmp_path):
    path, frame = sales
    status, out, err = run(
        "backtest", path, "--value", "Umsatz in $", "--time", "Datum, Uhrzeit", "--horizon", 6,
        "--cutoff", "2018-12-01", "--cutoff", "2019-06-01", "--season", 12, cwd=tmp_path,
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["backtest.csv", "backtest.png"]
    found = pd.read_csv(tmp_path / "out" / "backtest.csv", index_col=0)
    expected = bk.backtest(
        pd.Series(frame["Umsatz in $"].to_numpy(), MONTHS), 6, ["2018-12-01", "2019-06-01"]
    ).to_frame()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# -- the rest --------------------------------------------------------------------------------------


def test_version_datasets_and_help(here):
    status, out, err = here("--version")
    assert (status, out.strip(), err) == (0, bk.__version__, "")
    status, out, err = here("datasets")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == [*bk.datasets.names()]
    assert "co2           526 values  Atmospheric CO2" in out
    status, out, _ = here("backtest", "--help")
    assert status == 0 and "--horizon STR" in out and "--cutoffs" in out


# -- bad input -------------------------------------------------------------------------------------

BAD = {
    "no such file": (["nosuch.csv", "--horizon", 6], "'nosuch.csv' is neither a file nor a data"),
    "no horizon to speak of": (["nile", "--horizon", 0], "horizon must be a whole number"),
    "a negative horizon": (["nile", "--horizon", -2], "must be a number of steps"),
    "a level in per cent": (["nile", "--horizon", 6, "--level", 95], "strictly between 0 and 1"),
    "a column that is not there": (["nile", "--horizon", 6, "--value", "flo"], "mean 'flow'"),
    "too many past dates": (["nile", "--horizon", 40, "--backtest", 5], "a cutoff leaves"),
    "a negative backtest": (["nile", "--horizon", 4, "--backtest", -1], "cutoffs must be"),
    "a zero": (["zero.csv", "--horizon", 6, "--positive"], "above zero; the value at 2020-02-01"),
    "no such events": (["nile", "--horizon", 6, "--events", "no.csv"], "no.csv is not a file"),
    "an unknown method": (["nile", "--horizon", 6, "--method", "magic"], "magic"),
    "too few last values": (["nile", "--horizon", 6, "--last", 1], "StructuralModel(last=...)"),
    "no such zone": (
        ["two.csv", "--horizon", 6, "--value", "sales", "--timezone", "Berlin"],
        "zone",
    ),
    "both scales": (["nile", "--horizon", 6, "--positive", "--no-log"], "--positive models"),
    "text": (["text.csv", "--horizon", 6], "sales, row 2: 'many' is not a number"),
    "a ragged row": (["ragged.csv", "--horizon", 6], "row 2: 3 cells, but the header has 2"),
    "a date twice": (["twice.csv", "--horizon", 6], "2020-02-01 occurs 2 times"),
    "two columns": (["two.csv", "--horizon", 6], "are sales, price."),
}
FILES = {
    "zero": "date,sales\n2020-01-01,1\n2020-02-01,0\n2020-03-01,3\n",
    "text": "date,sales\n2020-01-01,1\n2020-02-01,many\n2020-03-01,3\n",
    "ragged": "date,sales\n2020-01-01,1\n2020-02-01,2,3\n2020-03-01,3\n",
    "twice": "date,sales\n2020-01-01,1\n2020-02-01,2\n2020-02-01,3\n2020-03-01,3\n",
    "two": "date,sales,price\n2020-01-01,1,2\n2020-02-01,2,2\n2020-03-01,3,3\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(folder, here, arguments, message):
    status, out, err = here("forecast", *arguments)
    assert (status, out) == (2, "") and message in one_line(err)
    assert sorted(p.stem for p in folder.iterdir()) == sorted(FILES)


@pytest.mark.slow
def test_bad_input_from_outside(folder):
    status, out, err = run("forecast", "text.csv", "--horizon", 6)
    assert (status, out) == (2, "") and "row 2: 'many'" in one_line(err)
    status, out, err = run("forecast", "text.csv", "--horizon", 6, "--debug")
    assert status != 0 and "Traceback" in err and "row 2: 'many'" in err


def test_bad_backtests(folder, here):
    for arguments, message in (
        (["nile", "--cutoff", "1950-01-01"], "cutoffs must be numbers"),
        (["nile", "--cutoffs", 0], "cutoffs must be a whole number"),
        (["nile", "--cutoffs", 50], "a cutoff leaves"),
        (["twice.csv"], "2020-02-01 occurs 2 times"),
    ):
        status, out, err = here("backtest", *arguments, "--horizon", 6)
        assert (status, out) == (2, "") and message in one_line(err)
    assert sorted(p.stem for p in folder.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("command", ["forecast", "backtest"])
def test_unwritable_output_is_refused(folder, here, command):
    """The error comes before the fit, and no file is left."""
    for output in ("two.csv", "two.csv/below"):
        status, out, err = here(command, "nile", "--horizon", 6, "--output", output)
        assert (status, out) == (2, "")
        assert "is not a folder; choose another folder" in one_line(err)
    assert (folder / "two.csv").read_text() == FILES["two"]
    assert sorted(p.stem for p in folder.iterdir()) == sorted(FILES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["forecast", "nile", "--horizn", "6"], "horizn"),
        (["forecast", "nile"], "--horizon"),
        (["forecast", "--horizon", "6"], "--series"),
        (
            ["forecast", "nile", "--horizon", "six"],
            "horizon must be a number of steps",
        ),
        (["forecast", "nile", "--horizon", "2.5"], "horizon must be a number of steps"),
        (["forecst", "nile"], "forecst"),
    ],
)
def test_mistakes_in_the_command(folder, here, arguments, message):
    status, out, err = here(*arguments)
    assert status != 0 and out == "" and message in err
    assert err.count("\n") <= 5 and "Traceback" not in err


# -- models ----------------------------------------------------------------------------------------

MODEL = """
import numpyro, numpyro.distributions as dist
from bayeskern import Problem

def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

def broken(y):
    numpyro.sample("mu", dist.Normal(0.0, sd))

def problem():
    return Problem(model, (2.5,))
"""


def test_models(here):
    status, out, err = here("models")
    assert (status, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert tuple(lines) == gallery.names()
    assert lines["coin"] == "A coin thrown twenty times: the simplest posterior with a closed form."
    assert max(map(len, out.splitlines())) <= 100


def test_fit(here, tmp_path):
    output = tmp_path / "new" / "folder"
    status, out, err = here("fit", "coin", "--method", "exact", "--seed", 3, "--output", output)
    assert (status, err) == (0, "")
    assert out.startswith("coin by exact: good (")
    _, table, exact, written = out.split("\n\n")
    assert table.splitlines()[1].split()[:2] == ["p", "0.6667"]
    assert "p ~ Beta(16, 8) (prior Beta(2, 2))" in exact
    assert written.splitlines() == ["written:", f"  {output / 'posterior.nc'}"]
    saved = bk.load(output / "posterior.nc")
    expected = gallery.load("coin").fit("exact", seed=3)
    np.testing.assert_array_equal(saved.draws["p"], expected.draws["p"])


@pytest.mark.slow
def test_posterior_is_saved_before_it_is_printed(here, tmp_path, monkeypatch):
    def fails(posterior):
        raise ValueError("no table")

    monkeypatch.setattr(cli.models, "_summary", fails)
    status, _, err = here("fit", "coin", "--method", "exact", "--output", tmp_path)
    assert status == 2 and "no table" in one_line(err)
    assert bk.load(tmp_path / "posterior.nc").draws["p"].size


@pytest.mark.slow
def test_closed_pipe_is_no_error():
    """Like `bayeskern models | head -1`, but without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "bayeskern", "models"],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.slow
def test_fit_of_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    status, out, err = run("fit", "mine.py", cwd=tmp_path)
    assert (status, err) == (0, "")
    assert out.startswith("mine by laplace: good (") and "Tried" not in out
    # mu | y ~ N(2.25, 0.9)
    mean = float(out.splitlines()[-4].split()[1])
    assert abs(mean - 2.25) <= 0.1
    assert (tmp_path / "out" / "posterior.nc").exists()


@pytest.mark.slow
def test_compare(here):
    methods = ["exact", "laplace"]
    status, out, err = here("compare", "coin", "--methods", *methods)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("exact: good (") and lines[1].startswith("laplace: good (")
    assert "against exact, the worst parameter of each:" in lines
    assert max(map(len, lines)) <= 100


FREE = MODEL.replace('numpyro.sample("mu", dist.Normal(0.0, 3.0))', 'numpyro.param("mu", 0.0)')


def test_compare_leaves_out_failed_methods(here, tmp_path):
    (tmp_path / "mine.py").write_text(FREE)
    status, out, err = here("compare", tmp_path / "mine.py", "--methods", "laplace", "mle")
    assert (status, err) == (0, "")
    assert "laplace: left out. 'mu' has no prior" in out and out.startswith("mle: not assessable")
    status, out, err = here("compare", tmp_path / "mine.py", "--methods", "laplace", "svi")
    assert (status, out) == (2, "")
    assert "laplace: 'mu' has no prior" in one_line(err) and "; svi: 'mu' has no prior" in err
    # An error of the model itself is reported once.
    (tmp_path / "broken.py").write_text(MODEL.replace("Problem(model", "Problem(broken"))
    status, out, err = here("compare", tmp_path / "broken.py", "--methods", "laplace", "svi")
    assert (status, out) == (2, "") and one_line(err).count("name 'sd' is not defined") == 1


@pytest.mark.slow
def test_report_refuses_another_model(here, tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    saved = tmp_path / "posterior.nc"
    gallery.load(tmp_path / "mine.py").fit(bk.Laplace(draws=20), progress=False).save(saved)
    status, _, err = here("report", saved, "--model", "coin", "--output", tmp_path / "r.html")
    assert status == 2 and "model is not the fitted model" in one_line(err)


def test_inputs_are_not_replaced(here, tmp_path, monkeypatch):
    """The error comes before any file is read or written."""
    monkeypatch.chdir(tmp_path)
    texts = {"x.nc": "a posterior", "mine.py": MODEL}
    texts |= dict.fromkeys(["forecast.csv", "backtest.csv"], FILES["two"])
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("link.html").symlink_to("x.nc")
    for arguments, read in (
        (["report", "x.nc", "--output", tmp_path / "x.nc"], "x.nc"),
        (["report", "y.nc", tmp_path / "x.nc", "--output", "./x.nc"], tmp_path / "x.nc"),
        (["report", "x.nc", "--output", "link.html"], "x.nc"),
        (["report", "x.nc", "--model", "mine.py", "--output", "mine.py"], "mine.py"),
        (["compare", "mine.py", "--report", "mine.py"], "mine.py"),
        (["forecast", "forecast.csv", "--horizon", 6, "--output", "."], "forecast.csv"),
        (["backtest", "backtest.csv", "--horizon", 6, "--output", "."], "backtest.csv"),
    ):
        status, out, err = here(*arguments)
        assert (status, out) == (2, "")
        assert f"bayeskern: {read} is an input and would be replaced" in one_line(err)
    assert {name: Path(name).read_text() for name in texts} == texts
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*texts, "link.html"])


@pytest.mark.slow
def test_paths_of_reports(here, tmp_path, monkeypatch):
    written, titles = {}, {}

    def page(what, path, *, seed, title):
        written[Path(path).name], titles[Path(path).name] = what, title
        return Path(path)

    module = types.ModuleType("bayeskern.reports")
    module.report = page
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    status, out, _ = here("fit", "coin", "--method", "exact", "--report")
    assert status == 0 and out.splitlines()[-2:] == ["  out/posterior.nc", "  out/report.html"]
    assert written["report.html"].method == "exact"
    status, out, _ = here("compare", "coin", "--methods", "exact", "--report", "both.html")
    assert status == 0 and list(written["both.html"]) == ["exact"]
    status, out, _ = here("report", "out/posterior.nc", "--model", "coin", "--output", "one.html")
    assert status == 0 and out.startswith("posterior: good (")
    assert written["one.html"].predict(1).mean == pytest.approx(2.0 / 3.0, abs=0.02)
    shutil.copy("out/posterior.nc", "other.nc")
    status, out, _ = here("report", "out/posterior.nc", "other.nc", "--output", "two.html")
    assert status == 0 and list(written["two.html"]) == ["posterior", "other"]
    assert out.splitlines()[-1] == "  two.html"
    # The heading of a model of the gallery is its title.
    coin = "A coin thrown twenty times: the simplest posterior with a closed form."
    assert titles == dict.fromkeys(("report.html", "both.html", "one.html"), coin) | {
        "two.html": None
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "eight_school"], "Did you mean 'eight_schools'?"),
        (["fit", "coin", "--method", "nutz"], "method='nutz' is not known. Did you mean 'nuts'?"),
        (["fit", "coin", "--seed", -1], "seed must be a whole number from 0"),
        (["fit", "coin", "--output", "two.csv"], "two.csv is not a folder"),
        (["fit", "broken.py"], "broken.py, line 10: NameError: name 'sd' is not defined"),
        (["compare", "coin", "--methods", "exact", "nutz"], "methods='nutz' is not known."),
        (["compare", "coin", "--methods"], "methods is empty; choose from auto, "),
        (["compare", "coin", "--methods", "nuts", "nuts"], "methods: nuts is given twice"),
        (["compare", "coin", "--report", "two.csv/x.html"], "two.csv is not a folder"),
        (["compare", "coin", "--report", "."], "path='.' is a folder; give a file in it"),
        (["report", "one.nc", "--output", ""], "path='.' is a folder; give a file in it"),
        (["report"], "no posterior given; give a file, such as out/posterior.nc."),
        (["report", "nosuch.nc"], "there is no file nosuch.nc"),
        (["report", "two.csv"], "two.csv"),
    ],
)
def test_bad_models_are_one_line(folder, here, arguments, message):
    (folder / "broken.py").write_text(MODEL.replace("Problem(model", "Problem(broken"))
    before = sorted(p.name for p in folder.iterdir() if p.name != "__pycache__")
    status, out, err = here(*arguments)
    assert (status, out) == (2, "") and message in one_line(err)
    assert sorted(p.name for p in folder.iterdir() if p.name != "__pycache__") == before
