"""Text from files cannot control a terminal, reorder a line, or run in a spreadsheet."""

import ast
import csv
import io
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli
from bayeskern.core.formatting import message_of, printable, printable_lines, spreadsheet_text
from bayeskern.core.progress import Progress
from bayeskern.reports import report
from bayeskern.reports.blocks import text

# A new title of the window, a cleared screen, reversed text, an invisible letter, the bell, a line
# separator and CSI as one character.
HOSTILE = "a\x1b]0;title\x07\x1b[2J\u202eb\u2066c\u200bd\u2028e\x9b31mf"
MONTHS = [f"2020-{month:02d}-01" for month in range(1, 13)]
FORMULAS = ["=1+1", "+SUM(A1)", "-1+cmd|'/C calc'!A0", "@x", "\t=1", "\r=1", "\uff1d1+1", "a;=1"]


def hidden(text):
    """Characters of a text that a terminal would not show."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_printable():
    assert printable("Umsätze 2020 ☃ \u05d0\u05d1") == "Umsätze 2020 ☃ \u05d0\u05d1"
    assert printable("a\nb\tc") == "a b c"
    assert printable("\x1b[2J\u202e\ud800\x00") == r"\x1b[2J\u202e\ud800\x00"
    assert set(hidden(printable("".join(map(chr, range(0x10000)))))) == {"\u200c", "\u200d"}
    # Joiners are letters of words and parts of emoji.
    assert printable("👨\u200d👩") == "👨\u200d👩"
    assert printable_lines("a\x07\nb\r") == "a\\x07\nb "


def test_messages_keep_both_ends():
    message = message_of(ValueError("start " + "x" * 10_000 + "\x1b\n\n end"))
    assert len(message) == 2000 and message.startswith("start xx") and message.endswith("\\x1b end")
    assert message_of("short\n text") == "short text"


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_become_text(formula):
    safe = spreadsheet_text(formula)
    assert safe.count("'") == formula.count("'") + 1
    assert safe.replace("'", "") == formula.replace("'", "").replace("\r", "\n")
    for cell in safe.split(";"):
        assert cell.strip()[0] not in "=+-@\uff1d"


@pytest.mark.parametrize("text", ["-5", "+1.5e3", "-.5", "", "a-b", "2020-01-01", "x = 1", "<= 3"])
def test_numbers_and_other_text_stay(text):
    assert spreadsheet_text(text) == text


def test_progress_bars_show_no_control_characters(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("bayeskern.core.progress.processes", lambda: (0, 1))
    with Progress(HOSTILE, 2) as bar:
        bar.to(1, HOSTILE)
        bar._bar.refresh()
    shown = stream.getvalue().replace("\r", "").replace("\x1b[A", "").replace("\n", "")
    assert "title" in shown and not hidden(shown)


# -- results ---------------------------------------------------------------------------------------


def hostile_frame(value=2.0):
    """A constant series, whose forecast needs no fit, with hostile names."""
    return pd.DataFrame({f"={HOSTILE} t": MONTHS, f"={HOSTILE}": value})


def named(name):
    """A constant series of this name, which may have lone surrogates."""
    return pd.Series(2.0, pd.to_datetime(MONTHS), name=name)


def test_summaries_are_printable():
    forecast = bk.forecast(hostile_frame(), 2)
    assert not hidden(str(forecast).replace("\n", ""))
    assert str(forecast).splitlines()[0].startswith(r"=a\x1b]0;title\x07\x1b[2J\u202eb")
    assert not hidden(repr(bk.anomalies(hostile_frame())).replace("\n", ""))


def test_a_name_of_a_megabyte_is_shortened():
    frame = pd.DataFrame({"month": MONTHS, "x" * 1_000_000: 2.0})
    assert len(str(bk.forecast(frame, 2))) < 2000


def test_figures_take_any_name(tmp_path):
    """matplotlib fails on lone surrogates, and warns about control characters."""
    bk.forecast(named(f"{HOSTILE}\ud800 $x$"), 2).export(tmp_path)
    assert (tmp_path / "forecast.png").stat().st_size > 1000


def test_tables_have_no_formulas(tmp_path):
    forecast = bk.forecast(hostile_frame(), 2)
    head, first, _ = csv.reader(io.StringIO(forecast.to_csv()))
    assert head[0].startswith("'=a") and head[1:4] == ["median", "mean", "sd"]
    assert first[0] == "2021-01-01" and float(first[1]) == 2.0
    anomalies = bk.anomalies(hostile_frame())
    anomalies.export(tmp_path)
    assert (tmp_path / "anomalies.csv").read_text(encoding="utf-8").startswith("'=a")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_many_forecasts_have_no_formulas(tmp_path, library):
    ids = [*FORMULAS, "-5", "plain"]
    columns = {
        "@id": np.repeat(ids, 12).tolist(),
        "month": MONTHS * len(ids),
        "units": [2.0] * 12 * len(ids),
    }
    frame = pytest.importorskip(library).DataFrame(columns)
    forecasts = bk.forecast_many(frame, 2, id="@id", workers=1, progress=False)
    forecasts.export(tmp_path / "forecasts.csv")
    with (tmp_path / "forecasts.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[0] == "'@id"
    assert [row[0] for row in rows[::2]] == list(map(spreadsheet_text, ids))
    assert [row[0] for row in rows[-4:]] == ["-5", "-5", "plain", "plain"]
    assert {float(row[2]) for row in rows} == {2.0}
    # Parquet is no spreadsheet: names stay as they are.
    forecasts.export(tmp_path / "forecasts.parquet")
    assert pd.read_parquet(tmp_path / "forecasts.parquet")["@id"].tolist()[::2] == ids


def test_reports_escape_and_show_hidden_characters(tmp_path):
    name = f"<img src=x onerror=alert(1)>{HOSTILE}\ud800"
    path = report(bk.forecast(named(name), 2), tmp_path / "r.html")
    html = path.read_text(encoding="utf-8")
    assert "<img src=x" not in html and "&lt;img src=x" in html
    assert not hidden(html.replace("\n", ""))
    assert str(text("a\u202eb<").html()).count("a\\u202eb&lt;") == 1


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Run the command line in a folder of its own: (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as info:
            cli.main([*map(str, arguments)])
        out, err = capsys.readouterr()
        return info.value.code, out, err

    return call


def test_commands_print_no_control_characters(here, tmp_path):
    name = f"{HOSTILE.replace('/', '')}.csv"
    # A semicolon in the header would separate columns.
    hostile_frame().rename(columns=lambda n: n.replace(";", " ")).to_csv(
        tmp_path / name, index=False
    )
    output = f"out{HOSTILE}"
    status, out, err = here(
        "forecast", name, "--horizon", 2, "--total", "month", "--output", output
    )
    assert (status, err) == (0, "") and "title" in out and not hidden(out.replace("\n", ""))
    status, out, err = here("anomalies", name, "--output", output)
    assert (status, err) == (0, "") and "title" in out and not hidden(out.replace("\n", ""))


def test_errors_of_commands_print_no_control_characters(here, tmp_path):
    (tmp_path / "sales.csv").write_text(f"month,sales{HOSTILE}\n2020-01-01,x{HOSTILE}\n")
    for arguments in (
        ["sales.csv", "--horizon", 2],
        ["sales.csv", "--horizon", 2, "--value", HOSTILE],
        [HOSTILE, "--horizon", 2],
        ["sales.csv", "--horizon", HOSTILE],
        ["sales.csv", "--horizon", 2, "--encoding", HOSTILE],
        ["sales.csv", "--horizon", 2, "--output", f"sales.csv/{HOSTILE}"],
    ):
        status, out, err = here("forecast", *arguments)
        assert (status, out) == (2, "") and err.startswith("bayeskern: ")
        assert not hidden(err[:-1]), arguments


def test_messages_of_commands_have_2000_characters(here, tmp_path):
    columns = ",".join(f"column {i}" for i in range(5000))
    (tmp_path / "wide.csv").write_text(f"{columns}\n{','.join(['1'] * 5000)}\n" * 4)
    status, out, err = here("forecast", "wide.csv", "--horizon", 2)
    assert (status, out, len(err)) == (2, "", 2001) and "column 4999" in err


def test_commands_print_by_say():
    for path in Path(cli.__file__).parent.glob("*.py"):
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        prints = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
        # Errors are printed by `message_of`.
        assert not prints or path.name in ("output.py", "run.py"), path
