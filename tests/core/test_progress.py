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
from tests.marks import few, slow

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


@pytest.mark.parametrize("progress", few([True, False], True))
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


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress, "perf_counter", lambda: self.now)

    def estimates(self, durations, total=None, costs=None):
        """(seconds that were said, seconds that followed) for steps of these durations."""
        said, end = [], self.now + sum(durations)
        costs = costs or [1.0] * len(durations)
        with progress.Progress("work", total or sum(costs), estimate=True) as bar:
            for duration, cost in zip(durations, costs, strict=True):
                self.now += duration
                with redirect_stderr(io.StringIO()) as file:
                    bar.advance(cost)
                if file.getvalue():
                    number, unit = file.getvalue().split("about ")[1].split()[:2]
                    seconds = float(number) * {"s": 1.0, "min": 60.0, "hours": 3600.0}[unit]
                    said.append((seconds, end - self.now))
        return said


@pytest.mark.parametrize(
    "durations",
    [
        [2.0] * 100,
        # The start of the first step: processes, libraries, caches.
        [25.0] + [0.5] * 180,
        # Two workers finish together.
        [20.0, 0.0] + [4.0, 0.0] * 40,
        [8.0, *np.random.default_rng(0).gamma(2.0, 2.0, 200)],
        [30.0] * 4,
    ],
)
def test_estimates_hold_within_a_factor_of_two(durations, monkeypatch):
    estimates = Clock(monkeypatch).estimates(durations)
    assert len(estimates) >= 1
    for said, actual in estimates:
        assert 0.5 <= said / actual <= 2.0


def test_estimate_counts_the_costs_of_steps(monkeypatch):
    ((said, actual),) = Clock(monkeypatch).estimates(
        [0.5] * 8 + [5.0] * 10, costs=[1.0] * 8 + [10.0] * 10
    )
    assert said == pytest.approx(actual, rel=0.2)


def test_estimate_is_repeated_if_it_becomes_twice_as_long(monkeypatch):
    first, *later = Clock(monkeypatch).estimates([1.0] * 20 + [20.0] * 20)
    assert first[0] == pytest.approx(30.0, rel=0.1)
    assert later and 0.5 <= later[-1][0] / later[-1][1] <= 2.0


def test_no_estimate_of_short_work_or_of_uneven_steps(monkeypatch):
    clock = Clock(monkeypatch)
    assert clock.estimates([0.1] * 20) == []
    with redirect_stderr(io.StringIO()) as file, progress.Progress("work", 4) as bar:
        bar.advance()
    assert file.getvalue() == ""
    with redirect_stderr(Terminal()) as terminal, progress.Progress("work", 4, even=False) as bar:
        bar.advance()
    assert "work:" in terminal.getvalue() and "<" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (47.0, "50 s"), (117.0, "2 min"), (905.0, "15 min"), (10_000.0, "3 hours")],
)
def test_durations_are_rounded(seconds, text):
    assert progress.duration(seconds) == text
