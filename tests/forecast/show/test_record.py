"""Forecasts and backtests as plain Python values."""

import json
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.inference import Trust
from bayeskern.prediction.quantile_average import QuantileAverage

OPTIONS = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
RNG = np.random.default_rng(0)
WALK = 50.0 + np.cumsum(RNG.normal(size=40))


def series(start, freq, tz=None):
    times = pd.date_range(start, periods=40, freq=freq, tz=tz)
    return pd.Series(WALK, times.rename("time"), name="sold")


def test_a_forecast_survives_json():
    f = bk.forecast(series("2020-01-01", "MS"), 3, **OPTIONS)
    record = json.loads(json.dumps(f.to_dict(levels=0.8), allow_nan=False))
    assert record == f.to_dict(levels=0.8)
    assert list(record) == [
        "version", "series", "model", "weights", "verdict", "advice", "remarks", "metrics",
        "forecast",
    ]  # fmt: skip
    assert record["version"] == version("bayeskern")
    assert record["series"] == {
        "name": "sold", "values": "sold", "times": "time",
        "frequency": f.series.calendar.description, "time_zone": None, "count": 40,
        "first": "2020-01-01", "last": "2023-04-01",
    }  # fmt: skip
    assert record["model"]["horizon"] == 3 and record["model"]["seed"] == 0
    assert record["weights"]["trend"] == {"drift": 1.0}
    assert (record["verdict"], record["advice"]) == (f.trust.verdict, f.trust.advice)
    assert record["remarks"] == list(f.remarks)
    assert record["metrics"]["coverage_80"] == f.past_scores.coverage(0.8)
    table = record["forecast"]
    assert table["times"] == ["2023-05-01", "2023-06-01", "2023-07-01"]
    lower, upper = f.interval(0.8)
    expected = {"median": f.median, "mean": f.mean, "sd": f.sd, "lower_80": lower}
    for name, column in (expected | {"upper_80": upper}).items():
        np.testing.assert_allclose(table[name], column, rtol=1e-12)
    assert set(table) == {"times", *expected, "upper_80"}


def test_parameters_and_metrics_are_flat():
    record = bk.forecast(series("2020-01-01", "D"), 2, **OPTIONS).to_dict()
    parameters = record["series"] | record["model"]
    assert len(parameters) == len(record["series"]) + len(record["model"])
    assert all(isinstance(value, str | int | None) for value in parameters.values())
    assert all(isinstance(value, int | float) for value in record["metrics"].values())


def test_times_in_a_zone_have_their_offset():
    y = series("2024-03-29 12:00", "h", "Europe/Berlin")
    f = bk.forecast(y, 2, **OPTIONS)
    record = f.to_dict()
    assert record["series"]["time_zone"] == "Europe/Berlin"
    assert record["series"]["last"] == "2024-03-31T04:00:00+02:00"
    assert record["forecast"]["times"] == [time.isoformat() for time in f.to_frame().index]


def test_numbers_stay_numbers():
    record = bk.forecast(WALK, 2, **OPTIONS).to_dict()
    assert record["forecast"]["times"] == [40, 41] and record["series"]["first"] == 0


def test_numbers_that_are_not_finite():
    constant = bk.forecast([3.0, 3.0, 3.0, 3.0], 2).to_dict()
    assert constant["verdict"] == "not assessable" and constant["metrics"] == {}
    assert constant["forecast"]["sd"] == [0.0, 0.0]
    broken = bk.forecast(WALK, 1, **OPTIONS)
    nan = QuantileAverage([1.0], [broken.scale], [[np.nan]], [[1.0]], correlation=lambda: [[1.0]])
    broken.__dict__["_predictive"] = nan
    broken.__dict__["trust"] = Trust("caution", "", {"error_ratio": np.inf, "past_values": 19})
    record = json.loads(json.dumps(broken.to_dict(), allow_nan=False))
    assert record["metrics"] == {"past_values": 19} and record["forecast"]["median"] == [None]


def test_a_backtest():
    result = bk.backtest(series("2020-01-01", "MS"), 3, cutoffs=2, progress=False, **OPTIONS)
    record = json.loads(json.dumps(result.to_dict(0.8), allow_nan=False))
    scores = result.scores
    assert record["metrics"]["mae"] == pytest.approx(scores["forecast"]["mae"])
    naive = record["metrics"]["seasonal_naive_coverage_80"]
    assert naive == pytest.approx(scores["seasonal naive"]["coverage_80"])
    assert record["model"] == {"horizon": 3, "seed": 0, "season": 1}
    first, last = record["folds"]
    assert (first["cutoff"], last["cutoff"]) == ("2022-10-01", "2023-01-01")
    assert last["times"] == ["2023-02-01", "2023-03-01", "2023-04-01"]
    errors = [np.subtract(fold["actual"], fold["median"]) for fold in record["folds"]]
    assert np.abs(errors).mean() == pytest.approx(record["metrics"]["mae"])
    inside = [
        np.less_equal(fold["lower_80"], fold["actual"])
        & np.less_equal(fold["actual"], fold["upper_80"])
        for fold in record["folds"]
    ]
    assert np.mean(inside) == pytest.approx(record["metrics"]["coverage_80"])


MODEL = bk.StructuralModel
KINDS = {
    "counts": lambda: bk.forecast(RNG.poisson(2.0, 60), 5, likelihood="negative_binomial"),
    "shares": lambda: bk.forecast(RNG.uniform(0.2, 0.8, 60), 5, likelihood="beta"),
    "ranks": lambda: bk.forecast(1.5 * RNG.poisson(0.5, 80), 5),
    "bounds": lambda: bk.forecast("sunspots", 5, model=MODEL(lower=0.0)),
    "robust": lambda: bk.forecast("nile", 5, model=MODEL(robust=True)),
    "changes": lambda: bk.forecast("nile", 5, model=MODEL(changes="find")),
    "updated": lambda: bk.forecast("nile", 5).update([900.0, np.nan, 850.0]),
    "effects": lambda: bk.forecast("airline", 5, events={"strike": ["1955-03-01", "1961-02-01"]}),
    "integers of NumPy": lambda: bk.forecast(WALK, np.int64(5), seed=np.int64(3)),
    "long": lambda: bk.forecast(RNG.normal(size=1200).cumsum(), 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_forecast_survives_json(kind):
    f = KINDS[kind]()
    record = json.loads(json.dumps(f.to_dict(), allow_nan=False))
    assert record == f.to_dict()
    np.testing.assert_allclose(record["forecast"]["median"], f.to_frame()["median"])
