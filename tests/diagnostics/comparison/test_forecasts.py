"""Comparisons of forecasts, also with other packages."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive

RNG = np.random.default_rng(0)
Y = 10.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(72) / 12.0) + RNG.normal(0.0, 0.5, 72)
OPTIONS = {"season": 12, "trend": "smooth", "model": bk.StructuralModel(log=False)}


class Naive:
    """The seasonal-naive forecast in the form of statsforecast."""

    def forecast(self, y, h, level):
        naive = SeasonalNaive.from_values(y, h, 12)
        found = {"mean": naive.quantile(0.5)}
        for percent in level:
            tail = 0.5 - percent / 200.0
            found[f"lo-{percent}"] = naive.quantile(tail)
            found[f"hi-{percent}"] = naive.quantile(1.0 - tail)
        return found


class Failing:
    def forecast(self, y, h, level):
        raise RuntimeError("no model found")


class Lost:
    def forecast(self, y, h, level):
        return {name: np.full(h, np.nan) for name in Naive().forecast(y, h, level)}


@pytest.fixture(scope="module")
def ours():
    return bk.forecast(Y, 6, **OPTIONS)


def test_peers_are_scored_like_forecasts(ours):
    found = bk.compare({"ours": ours, "theirs": Naive()})
    for measure, value in found.table["seasonal naive"].items():
        assert found.table["theirs"][measure] == pytest.approx(value, abs=1e-12)
    assert list(found.to_frame().index) == ["ours", "theirs", "seasonal naive"]
    assert found.table["ours"]["crps"] < found.table["theirs"]["crps"]


def test_scores_match_the_verdict(ours):
    row, back = bk.compare({"ours": ours}).table["ours"], ours.past_scores
    naive = bk.compare({"ours": ours}).table["seasonal naive"]
    assert row["mae"] / naive["mae"] == pytest.approx(back.error_ratio)
    assert row["crps"] / naive["crps"] == pytest.approx(back.crps_ratio)
    assert row["coverage_80"] == back.coverage(0.8)
    text = str(bk.compare({"ours": ours}))
    assert f"{back.count} values" in text and "seasonal naive" in text


@pytest.mark.slow
def test_statsforecast_as_a_peer(ours):
    models = pytest.importorskip("statsforecast.models")
    found = bk.compare({"ours": ours, "ets": models.AutoETS(season_length=12)})
    row = found.table["ets"]
    assert 0.0 < row["crps"] < row["mae"] < 3.0
    assert row["coverage_50"] < row["coverage_80"] < row["coverage_95"] <= 1.0


@pytest.mark.parametrize(
    ("others", "error", "said"),
    [
        ({"b": lambda: bk.forecast(Y, 5, **OPTIONS)}, ValueError, "the same series and horizon"),
        ({"b": lambda: bk.forecast(Y + 1.0, 6, **OPTIONS)}, ValueError, "the same series"),
        ({"b": lambda: 3.0}, TypeError, "b must be a forecast .* got float"),
        ({"b": Lost}, ValueError, "b has a forecast of this series that is not finite"),
        ({"b": Failing}, ValueError, "b cannot forecast this series: no model found"),
    ],
)
def test_bad_input(ours, others, error, said):
    with pytest.raises(error, match=said):
        bk.compare({"a": ours, **{name: make() for name, make in others.items()}})


def test_peers_need_series_without_gaps():
    y = Y.copy()
    y[5] = np.nan
    f = bk.forecast(y, 6, **OPTIONS)
    with pytest.raises(ValueError, match="needs a series without gaps"):
        bk.compare({"ours": f, "theirs": Naive()})


def test_series_without_past_forecasts_are_refused():
    for y in (np.full(20, 3.0), Y[:4]):
        f = bk.forecast(y, 2, season=0)
        with pytest.raises(ValueError, match="no past forecasts"):
            bk.compare({"ours": f})


def test_forecasts_have_no_reference(ours):
    with pytest.raises(ValueError, match="reference= is for posteriors"):
        bk.compare({"ours": ours}, reference="ours")
