"""Column names of Nixtla's libraries, in and out."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayeskern as bk

OPTIONS = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
MONTHS = pd.date_range("2020-01-01", periods=36, freq="MS")


def walks(names):
    """A long frame with the columns unique_id, ds and y."""
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"unique_id": name, "ds": MONTHS, "y": 50.0 + np.cumsum(rng.normal(size=36))})
        for name in names
    ]
    return pd.concat(frames, ignore_index=True)


@pytest.mark.slow
def test_utilsforecast_scores_the_forecasts():
    losses = pytest.importorskip("utilsforecast.losses")
    from utilsforecast.evaluation import evaluate

    frame = walks(["north", "south"])
    known = frame[frame["ds"] < MONTHS[-4]]
    short = pd.DataFrame({"unique_id": ["new"], "ds": MONTHS[:1], "y": [3.0]})
    forecasts = bk.forecast_many(pd.concat([known, short]), 4, verdict=False, **OPTIONS)
    assert forecasts.ids == ("north", "south", "new") and list(forecasts.failed) == ["new"]
    table = forecasts.to_frame(names="nixtla")
    assert list(table.columns) == [
        "unique_id", "ds", "bayeskern", "bayeskern-lo-80", "bayeskern-hi-80",
        "bayeskern-lo-95", "bayeskern-hi-95",
    ]  # fmt: skip
    assert set(table["unique_id"]) == {"north", "south"} and len(table) == 8
    metrics = [losses.mae, losses.mqloss, losses.coverage]
    truth = frame.merge(table, on=["unique_id", "ds"])
    scores = evaluate(truth, metrics, level=[80, 95])
    scores = scores.set_index(["unique_id", "metric"])["bayeskern"]
    for name, held_out in truth.groupby("unique_id"):
        y = held_out["y"].to_numpy()
        series = known[known["unique_id"] == name].set_index("ds")["y"]
        alone = bk.forecast(series, 4, **OPTIONS)
        assert scores[name, "mae"] == pytest.approx(np.abs(y - alone.median).mean())
        q = np.array([0.025, 0.1, 0.9, 0.975])[:, None]
        errors = y - alone.quantile(q[:, 0])
        pinball = np.maximum(q * errors, (q - 1.0) * errors).mean()
        assert scores[name, "mqloss"] == pytest.approx(pinball)
        lower, upper = alone.interval(0.8)
        held = np.mean((lower <= y) & (y <= upper))
        assert scores[name, "coverage_level80"] == pytest.approx(held)


def test_files_and_polars_frames(tmp_path):
    path = tmp_path / "sales.csv"
    frame = walks(["north", "south"]).assign(price=1.0)
    frame.to_csv(path, index=False)
    options = {"level": 0.975, "verdict": False, **OPTIONS}
    of_file = bk.forecast_many(path, 2, **options).to_frame(names="nixtla")
    of_polars = bk.forecast_many(pl.from_pandas(frame), 2, **options).to_frame(names="nixtla")
    assert list(of_file.columns)[3:] == ["bayeskern-lo-97.5", "bayeskern-hi-97.5"]
    pd.testing.assert_frame_equal(of_polars.to_pandas(), of_file, check_dtype=False)


@pytest.mark.parametrize("as_file", [True, False])
def test_one_series(tmp_path, as_file):
    frame = walks(["north"]).assign(price=1.0)
    path = tmp_path / "sales.csv"
    frame.to_csv(path, index=False)
    series = bk.read_series(path if as_file else frame)
    assert (series.name, series.time_name, series.value_name) == ("north", "ds", "y")
    np.testing.assert_allclose(series.values, frame["y"])
    named = bk.read_series(path if as_file else frame, value="price")
    assert named.value_name == "price" and (named.values == 1.0).all()


def test_bad_input():
    frame = walks(["north", "south"])
    with pytest.raises(ValueError, match="2 series .*north, south, .*forecast_many"):
        bk.forecast(frame, 2)
    forecasts = bk.forecast_many(frame, 1, verdict=False, **OPTIONS)
    with pytest.raises(ValueError, match="names='prophet' .* nixtla"):
        forecasts.to_frame(names="prophet")
    with pytest.raises(ValueError, match="value="):
        bk.read_series(frame.rename(columns={"ds": "month"}).assign(price=1.0).iloc[:36])
