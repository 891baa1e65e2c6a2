"""The forecaster of sktime."""

import numpy as np
import pandas as pd
import pytest
from sktime.split import ExpandingWindowSplitter
from sktime.utils.estimator_checks import check_estimator

import bayeskern as bk
from bayeskern.sktime import BayeskernForecaster

MONTHS = pd.period_range("2015-01", periods=60, freq="M")
RNG = np.random.default_rng(0)
Y = pd.Series(20.0 + 0.1 * np.arange(60) + RNG.normal(0.0, 1.0, 60), MONTHS, name="sold")
OPTIONS = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_checks_of_sktime():
    check_estimator(BayeskernForecaster, raise_exceptions=True, verbose=False)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("missing", [0, 2])
def test_predictions_match_forecast(missing):
    y = Y.copy()
    y.iloc[60 - missing :] = np.nan
    forecaster = BayeskernForecaster(**OPTIONS).fit(y)
    truth = bk.forecast(Y.iloc[: 60 - missing].to_timestamp(), 3 + missing, **OPTIONS)
    found = forecaster.predict([1, 3])
    np.testing.assert_allclose(found, truth.median[[missing, 2 + missing]])
    assert found.index.astype(str).tolist() == ["2020-01", "2020-03"] and found.name == "sold"
    interval = forecaster.predict_interval([1, 3], coverage=0.8)
    lower, upper = truth.interval(0.8)
    np.testing.assert_allclose(interval["sold", 0.8, "lower"], lower[[missing, 2 + missing]])
    np.testing.assert_allclose(interval["sold", 0.8, "upper"], upper[[missing, 2 + missing]])
    variance = forecaster.predict_var([1, 3])["sold"]
    np.testing.assert_allclose(variance, truth.sd[[missing, 2 + missing]] ** 2)
    assert forecaster.forecast([1, 3]).trust.verdict == truth.trust.verdict


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_regressors_have_effects():
    on = pd.DataFrame({"promotion": (RNG.random(60) < 0.3).astype(float)}, MONTHS)
    y = Y + 8.0 * on["promotion"]
    ahead = pd.DataFrame({"promotion": [0.0, 1.0, 0.0]}, MONTHS[-1] + np.arange(1, 4))
    forecaster = BayeskernForecaster(**OPTIONS).fit(y, X=on)
    found = forecaster.predict([1, 2, 3], X=ahead)
    assert found.iloc[1] - found.iloc[[0, 2]].mean() == pytest.approx(8.0, abs=2.0)
    row = forecaster.forecast([1, 2, 3], X=ahead).effects().loc["promotion"]
    assert row["lower"] < 8.0 < row["upper"]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("remember_data", [True, False])
def test_updates(remember_data):
    forecaster = BayeskernForecaster(**OPTIONS).set_config(remember_data=remember_data)
    forecaster.fit(Y.iloc[:50])
    forecaster.update(Y.iloc[50:])
    np.testing.assert_allclose(
        forecaster.predict([1]), bk.forecast(Y.to_timestamp(), 1, **OPTIONS).median
    )
    splits = ExpandingWindowSplitter(fh=[1, 2], initial_window=48, step_length=6)
    rolled = forecaster.update_predict(Y, splits)
    for end, column in zip((48, 54), rolled, strict=True):
        truth = bk.forecast(Y.iloc[:end].to_timestamp(), 2, **OPTIONS).median
        np.testing.assert_allclose(rolled[column].dropna(), truth)
