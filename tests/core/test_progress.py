"""Progress bars on a terminal, and estimates of time without one."""

import io
from contextlib import redirect_stderr

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.core import progress
from bayeskern.inference.model import evaluation
from tests.marks import slow

TITLES = {
    "map": "MAP",
    "laplace": "Laplace: mode",
    "svi": "SVI",
    "importance": "importance sampling",
    "pathfinder": "Pathfinder",
    "smc": "SMC",
    "nuts": "NUTS",
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)


@pytest.mark.parametrize(
    ("method", "title"),
    [item if item[0] == "laplace" else slow(*item) for item in TITLES.items()],
)
def test_bar_of_a_fit_disappears(method, title):
    with redirect_stderr(Terminal()) as terminal:
        bk.infer(model, np.ones(3), method=method)
    shown = terminal.getvalue()
    assert f"{title}:" in shown and "%" in shown
    # The last line is blank, and the cursor at its beginning.
    assert shown.endswith("\r") and not shown.split("\r")[-2].strip()
    with redirect_stderr(Terminal()) as terminal:
        bk.infer(model, np.ones(3), method=method, progress=False)
    assert terminal.getvalue() == ""


def test_no_bar_without_a_terminal():
    with redirect_stderr(io.StringIO()) as file:
        assert bk.infer(model, np.ones(3), method="laplace").trust.verdict
    assert file.getvalue() == ""


@pytest.mark.parametrize(("moment", "shows"), [(0.0, True), (60.0, False)])
def test_slow_verdict_shows_a_bar(moment, shows, monkeypatch):
    monkeypatch.setattr(evaluation, "PROGRESS_DELAY_SECONDS", moment)
    posterior = bk.infer(model, np.ones(3), method="laplace")
    with redirect_stderr(Terminal()) as terminal:
        assert posterior.trust.verdict == "good"
    assert ("log densities:" in terminal.getvalue()) == shows
    assert shows or not terminal.getvalue()


@pytest.mark.parametrize("progress", [True, False])
def test_report_shows_a_bar(progress, tmp_path):
    posterior = bk.infer(model, np.ones(3), method="map", progress=False)
    with redirect_stderr(Terminal()) as terminal:
        bk.report(posterior, tmp_path / "report.html", progress=progress)
    shown = terminal.getvalue()
    assert "report:" in shown if progress else not shown


@pytest.mark.slow
def test_calibrate_shows_one_bar():
    with redirect_stderr(Terminal()) as terminal:
        bk.calibrate(model, np.ones(3), method="laplace", simulations=10)
    shown = terminal.getvalue()
    assert "calibrate:" in shown and "Laplace" not in shown


def test_hidden_progress():
    with redirect_stderr(Terminal()) as terminal:
        with progress.hidden_progress(), progress.Progress("part", 2) as bar:
            bar.advance()
        assert terminal.getvalue() == ""
        with progress.Progress("whole", 2) as bar:
            bar.advance()
    assert "whole:" in terminal.getvalue()


@pytest.mark.parametrize(
    ("work", "title"),
    [
        (lambda y, options: bk.forecast(y, 2, **options), "forecast"),
        (lambda y, options: bk.backtest(y, 2, 1, **options), "backtest"),
        (lambda y, options: bk.forecast_many([y, y], 2, workers=1, **options), "forecasts"),
    ],
)
def test_forecasts_show_one_bar(work, title):
    y = np.random.default_rng(0).normal(size=20)
    options = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
    with redirect_stderr(Terminal()) as terminal:
        work(y, options)
    titles = {part.partition(":")[0] for part in terminal.getvalue().split("\r") if ":" in part}
    assert titles == {title}


def test_estimate_of_time_without_a_terminal(monkeypatch):
    monkeypatch.setattr(progress.Progress, "estimate_after", 0.0)
    with redirect_stderr(io.StringIO()) as file, progress.Progress("work", 4, estimate=True) as bar:
        bar.advance()
        bar.advance()
    (line,) = file.getvalue().splitlines()
    assert line.startswith("work: about ") and line.endswith(" s more")
    with redirect_stderr(io.StringIO()) as file, progress.Progress("work", 4) as bar:
        bar.advance()
    assert file.getvalue() == ""
