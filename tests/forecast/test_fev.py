"""Forecasts for the tasks of fev."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

fev = pytest.importorskip("fev")
from bayeskern.fev import evaluate, predict  # noqa: E402

OPTIONS = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
LEVELS = [0.1, 0.35, 0.5, 0.9]
MONTHS = pd.date_range("2018-01-01", periods=40, freq="MS")
H = 3
pytestmark = pytest.mark.filterwarnings("error:os.fork")


@pytest.fixture
def task_of(tmp_path, monkeypatch):
    """Function from columns, each with the values of both series, to a task of these series."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")

    def build(columns, **options):
        cells = {name: [list(row) for row in values] for name, values in columns.items()}
        rows = pd.DataFrame({"id": ["a", "b"], "timestamp": [MONTHS.to_numpy()] * 2} | cells)
        path = tmp_path / "data.parquet"
        rows.to_parquet(path)
        known = {"horizon": H, "quantile_levels": LEVELS, "eval_metric": "MASE"}
        return fev.Task(dataset_path=str(path), **(known | options))

    return build


def walks(seed=0):
    return 50.0 + np.cumsum(np.random.default_rng(seed).normal(size=(2, 40)), axis=1)


def alone(y, count, horizon=H):
    return bk.forecast(pd.Series(y[:count], MONTHS[:count]), horizon, **OPTIONS)


def test_predictions_match_single_forecasts(task_of):
    y = walks()
    task = task_of({"target": y}, num_windows=2)
    predictions = predict(task, progress=False, **OPTIONS)
    assert len(predictions) == 2
    for window, count in zip(predictions, (34, 37), strict=True):
        for row, values in zip(window["target"], y, strict=True):
            truth = alone(values, count)
            np.testing.assert_allclose(row["predictions"], truth.median)
            for q in LEVELS:
                np.testing.assert_allclose(row[str(q)], truth.quantile(q))


def test_scores_match_their_formulas(task_of):
    y = walks()
    task = task_of({"target": y}, extra_metrics=["WQL"])
    summary = evaluate(task, progress=False, **OPTIONS)
    mase, loss = [], 0.0
    for values in y:
        truth = alone(values, 37)
        scale = np.abs(np.diff(values[:37])).mean()
        mase.append(np.abs(values[37:] - truth.median).mean() / scale)
        q = np.array(LEVELS)[:, None]
        errors = values[37:] - truth.quantile(LEVELS)
        loss += 2.0 * np.maximum(q * errors, (q - 1.0) * errors).sum(axis=1).mean()
    assert summary["MASE"] == pytest.approx(np.mean(mase))
    assert summary["WQL"] == pytest.approx(loss / np.abs(y[:, 37:]).sum())
    assert summary["model_name"] == "bayeskern" and summary["inference_time_s"] > 0.0
    assert not summary["trained_on_this_dataset"]


@pytest.mark.parametrize(("metric", "point"), [("RMSE", "mean"), ("MAE", "median")])
def test_the_point_forecast_fits_the_metric(task_of, metric, point):
    y = np.exp(walks() / 10.0)
    options = OPTIONS | {"model": bk.StructuralModel(log=True, method="map")}
    task = task_of({"target": y}, eval_metric={"name": metric}, quantile_levels=[])
    (window,) = predict(task, progress=False, **options)
    truth = bk.forecast(pd.Series(y[0, :37], MONTHS[:37]), H, **options)
    np.testing.assert_allclose(window["target"][0]["predictions"], getattr(truth, point))
    assert np.all(truth.mean != truth.median)


def test_several_targets_and_missing_values(task_of):
    first, second = walks(0), walks(1)
    second[0, 35:37] = np.nan
    task = task_of({"u": first, "v": second}, target=["u", "v"])
    (window,) = predict(task, progress=False, **OPTIONS)
    np.testing.assert_allclose(window["u"][0]["predictions"], alone(first[0], 37).median)
    truth = alone(second[0], 35, horizon=5).median[2:]
    np.testing.assert_allclose(window["v"][0]["predictions"], truth)


def test_known_columns_have_effects(task_of):
    rng = np.random.default_rng(2)
    promotion = (rng.random((2, 40)) < 0.3).astype(float)
    promotion[:, 37:] = [0.0, 1.0, 0.0]
    holes = np.where(rng.random((2, 40)) < 0.2, np.nan, 1.0)
    columns = {"target": walks() + 20.0 * promotion, "promotion": promotion, "holes": holes}
    columns["label"] = np.full((2, 40), "x")
    task = task_of(columns, known_dynamic_columns=["holes", "label", "promotion"])
    (window,) = predict(task, progress=False, **OPTIONS)
    for row in window["target"]:
        low, high, low_again = row["predictions"]
        assert high - 0.5 * (low + low_again) == pytest.approx(20.0, abs=2.0)
    (without,) = predict(task, regressors=False, progress=False, **OPTIONS)
    low, high, low_again = without["target"][0]["predictions"]
    assert abs(high - 0.5 * (low + low_again)) < 1.0


def test_bad_input(task_of):
    with pytest.raises(TypeError, match="fev.Task.*got a str"):
        predict("sales.parquet")
    task = task_of({"target": walks()})
    with pytest.raises(ValueError, match="no series.*2 of 2 series.*trend='wavy'"):
        predict(task, progress=False, trend="wavy")
    with pytest.raises(TypeError, match="sesaon"):
        predict(task, progress=False, sesaon=12)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "bayeskern.fev")
    monkeypatch.setitem(sys.modules, "fev", None)
    with pytest.raises(ImportError, match=r"bayeskern\[fev\]"):
        importlib.import_module("bayeskern.fev")


def test_seasonal_naive_stands_in_for_failures(task_of):
    y = walks()
    y[0, :] = np.nan
    y[0, 30:32] = [5.0, 6.0]
    y[1, 37:] = 0.0
    task = task_of({"target": y}, seasonality=12)
    with pytest.warns(UserWarning, match="stands in for 1 series.*at least 3 values"):
        (window,) = predict(task, progress=False, **OPTIONS)
    # The season before has no values in these months: the mean of all values.
    np.testing.assert_allclose(window["target"][0]["predictions"], 5.5)
    np.testing.assert_allclose(window["target"][1]["predictions"], alone(y[1], 37).median)
