"""Requests of forecasting users: the blocks that answer them hold what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

GUIDES = Path(__file__).parent.parent / "docs" / "howto"
MIN_DRAWS = 10

pytestmark = pytest.mark.slow


def names_of(guide, heading="# "):
    """Names that the first block after a heading of a how-to guide defines."""
    section = (GUIDES / f"{guide}.md").read_text().partition(heading)[2]
    code = re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    names = {"__name__": guide}
    exec(compile(code, guide, "exec"), names)
    plt.close("all")
    return names


def test_intervals_include_parameter_uncertainty():
    names = names_of("intervals", "## Intervals at any level")
    f = names["forecast"]
    np.testing.assert_allclose(f.interval(0.9), f.quantile([0.05, 0.95]))
    assert f.effective_draws > MIN_DRAWS
    # The posterior of the hyperparameters is not a point.
    assert (f.posterior.summary()["sd"] > 0).all()


def test_forecasts_are_never_negative():
    names = names_of("counts", "## Never negative")
    assert np.min(names["positive"].quantile(1e-6)) > 0.0
    assert np.min(names["bounded"].quantile(1e-6)) == 0.0


def test_counts_are_whole():
    names = names_of("counts", "## Counts")
    for values in (names["counts"].quantile([0.1, 0.5, 0.9]), names["counts"].sample(100)):
        assert np.array_equal(values, np.round(values)) and np.min(values) >= 0.0


def test_each_of_many_series_has_its_forecast():
    names = names_of("many_series", "## From rows")
    table = names["forecasts"].to_frame()
    assert len(table) == 12 * 12 and not names["forecasts"].failed
    series = pd.Series(50.0 + names["walk"][3], names["months"])
    own = table[table["unique_id"] == 3]
    np.testing.assert_allclose(own["median"], bk.forecast(series, 12).median, rtol=1e-8)


def test_intervals_are_reproduced():
    names = names_of("intervals", "## The same numbers")
    np.testing.assert_array_equal(names["first"], names["again"])
    code = "import bayeskern as bk; print(*bk.forecast('airline', 12, seed=1).interval()[0])"
    elsewhere = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    np.testing.assert_array_equal(names["first"][0], [float(x) for x in elsewhere.stdout.split()])


def test_future_dates():
    names = names_of("files_and_dates", "## Future dates")
    ends, weekdays = bk.forecast(names["ends"], 3), bk.forecast(names["weekdays"], 3)
    assert ends.time_labels(ends.times) == ["2024-01-31", "2024-02-29", "2024-03-31"]
    assert [day.day_name() for day in pd.DatetimeIndex(weekdays.times)] == [
        "Thursday", "Friday", "Monday",
    ]  # fmt: skip


def test_gaps():
    names = names_of("missing_values", "## In a series")
    f = names["gappy"]
    assert np.isfinite(f.median).all() and any("missing" in remark for remark in f.remarks)
    assert f.time_labels(f.times)[0] == "2024-01-31"


def test_effects_of_regressors():
    names = names_of("holidays_and_events", "## Regressors")
    row = names["promoted"].effects(level=0.999).loc["promotion"]
    assert row["lower"] < 20.0 < row["upper"]
    on = names["promotion"][90:] == 1.0
    median = names["promoted"].median
    assert median[on].min() - median[~on].max() > 15.0
    # The mean of a mixture, and its variance: that of the effect adds to that of the noise.
    unsure, none, effect = names["unsure"], names["none"], row["median"]
    np.testing.assert_allclose(unsure.mean, none.mean + 0.3 * effect, atol=2.0)
    variance = none.sd**2 + 0.3 * 0.7 * effect**2
    np.testing.assert_allclose(unsure.sd, np.sqrt(variance), rtol=0.1)


def test_cutoffs():
    names = names_of("backtest")
    starts = [str(fold.times[0])[:7] for fold in names["backtest"].folds]
    assert starts == ["1958-01", "1959-01"]
    assert {len(fold.times) for fold in names["backtest"].folds} == {12}


def test_components_have_bands():
    names = names_of("intervals", "## Components")
    for band in names["forecast"].decompose(level=0.9).values():
        assert np.all(band["lower"] < band["median"]) and np.all(band["median"] < band["upper"])


def test_short_and_constant_series():
    names = names_of("files_and_dates", "## Short and constant")
    assert np.isfinite(names["short"].interval(0.95)).all() and names["short"].remarks
    assert np.all(names["constant"].median == 3.0) and names["constant"].remarks
