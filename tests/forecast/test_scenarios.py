"""Scenarios: forecasts of the same fit with other regressors, against new fits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import bayeskern as bk
from bayeskern.core import validation
from bayeskern.engine.steady.log_marginal import SteadyLogMarginal
from bayeskern.kernels import RBF
from tests.forecast.shop import AHEAD, CHANGES, DAYS, MAP, QUANTILES, N, fit, shop


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": bk.StructuralModel()},
        pytest.param({"model": replace(MAP, effect_kernels={"price": RBF(1.0, 1.0)})},
                     marks=pytest.mark.slow),
        pytest.param({"model": bk.StructuralModel(robust=True)}, marks=pytest.mark.slow),
        pytest.param({"model": bk.StructuralModel(log=True), "trend": None, "season": None},
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_scenario_equals_fit_with_changed_future(options):
    """The fit does not depend on the future, so a new fit has the same hyperparameters."""
    scenario, again = fit(shop(), **options).scenario(CHANGES), fit(shop(**CHANGES), **options)
    np.testing.assert_allclose(
        scenario.quantile(QUANTILES), again.quantile(QUANTILES), rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(scenario.mean, again.mean, rtol=1e-8)
    np.testing.assert_allclose(scenario.sd, again.sd, rtol=1e-8)
    np.testing.assert_allclose(scenario.sample(5), again.sample(5), rtol=1e-6)
    price, other = scenario.component("price"), again.component("price")
    np.testing.assert_allclose(price["upper"], other["upper"], rtol=1e-8, atol=1e-8)
    assert scenario.trust.advice == again.trust.advice
    assert "scenario: price, promo changed" in scenario.remarks


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["negative_binomial", "beta"])
def test_scenario_of_counts_and_shares_equals_fit_with_changed_future(likelihood):
    frames = []
    for frame in (shop(), shop(**CHANGES)):
        y = np.clip(np.round(frame["y"] / 4.0), 0.0, None)
        frames.append(frame.assign(y=y if likelihood != "beta" else frame["y"] / 100.0))
    f, again = (fit(frame, likelihood=likelihood, model=bk.StructuralModel()) for frame in frames)
    scenario = f.scenario(CHANGES)
    np.testing.assert_allclose(scenario.mean, again.mean, rtol=1e-8)
    np.testing.assert_allclose(scenario.quantile(QUANTILES), again.quantile(QUANTILES), rtol=1e-8)
    np.testing.assert_allclose(scenario.sample(50), again.sample(50), rtol=1e-8)


@pytest.mark.slow
def test_scenario_of_long_series_equals_fit_with_changed_future():
    rng, n = np.random.default_rng(0), 1500
    days = pd.date_range("2019-01-01", periods=n + AHEAD, freq="D")
    price = rng.normal(5.0, 0.5, n + AHEAD)
    y = 50.0 + 5.0 * np.sin(2.0 * np.pi * np.arange(n + AHEAD) / 365.25) - 4.0 * price
    y = y + rng.normal(size=n + AHEAD)
    frame = pd.DataFrame({"day": days, "price": price, "y": y})
    frame.loc[n:, "y"] = np.nan
    changed = frame.copy()
    changed.loc[n:, "price"] = CHANGES["price"]
    f, again = (
        bk.forecast(bk.read_series(source, value="y", regressors=["price"]), AHEAD)
        for source in (frame, changed)
    )
    assert isinstance(f.leading.density, SteadyLogMarginal)
    scenario = f.scenario(price=CHANGES["price"])
    np.testing.assert_allclose(scenario.quantile(QUANTILES), again.quantile(QUANTILES), rtol=1e-8)
    np.testing.assert_allclose(scenario.sample(5), again.sample(5), rtol=1e-6)
    # Uncertain prices: the law of total variance, from scenarios one by one.
    draws = rng.normal(5.0, 0.5, (20, AHEAD))
    uncertain, each = f.scenario(price=draws), [f.scenario(price=row) for row in draws]
    mean, variance = (np.mean([getattr(g, m) for g in each], axis=0) for m in ("mean", "variance"))
    variance = variance + np.var([g.mean for g in each], axis=0)
    np.testing.assert_allclose(uncertain.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(uncertain.variance, variance, rtol=1e-8)
    (total,) = bk.compare_scenarios({"f": f, "changed": scenario}).differences.values()
    expected = np.sum(scenario.mean - f.mean)
    assert total.sum(axis=1).mean() == pytest.approx(expected, abs=0.05 * abs(expected))


# -- forms of future values ------------------------------------------------------------------------


def test_forms_of_values(one):
    prices = np.linspace(4.5, 5.5, AHEAD)
    expected = one.scenario(price=prices).mean
    history = pd.Series(np.append(shop()["price"][:N], prices), DAYS)
    shuffled = history.sample(frac=1.0, random_state=0)
    for value in (
        prices.tolist(),
        pl.Series(prices),
        pd.Series(prices),
        history,
        shuffled,
        history.set_axis(DAYS.to_period("D")),
        history.set_axis(DAYS.strftime("%Y-%m-%d")),
    ):
        np.testing.assert_array_equal(one.scenario(price=value).mean, expected)
    constant = one.scenario(price=5)
    np.testing.assert_array_equal(constant.mean, one.scenario({"price": [5.0] * AHEAD}).mean)
    on = one.scenario(promo=[False, True, False, False, False, True])
    dates = one.scenario(promo=["2023-04-02", pd.Timestamp("2023-04-06").date().isoformat()])
    np.testing.assert_array_equal(on.mean, dates.mean)
    np.testing.assert_array_equal(one.scenario(promo=[]).mean, one.scenario(promo=0).mean)


def test_events_and_numbers_as_times():
    frame = shop()
    fairs = DAYS[[10, 25, 40, 70]].strftime("%Y-%m-%d").tolist()
    y = frame["y"][:N] + 10.0 * frame["day"].isin(fairs)[:N]
    series = pd.Series(y.to_numpy(), DAYS[:N])
    options = {"season": 0, "trend": "drift", "model": MAP}
    f = bk.forecast(series, AHEAD, events={"fair": fairs}, **options)
    again = bk.forecast(series, AHEAD, events={"fair": [*fairs, "2023-04-03"]}, **options)
    np.testing.assert_allclose(f.scenario(fair=["2023-04-03"]).mean, again.mean, rtol=1e-8)
    numbered = bk.forecast(
        series.to_numpy(), AHEAD, regressors=frame[["price"]].assign(time=range(N + AHEAD)),
        **options,
    )  # fmt: skip
    expected = numbered.scenario(price=CHANGES["price"]).mean
    by_time = pd.Series(CHANGES["price"], range(N, N + AHEAD))
    for value in (by_time, by_time.reset_index(drop=True)):
        np.testing.assert_array_equal(numbered.scenario(price=value).mean, expected)


def test_later_scenario_keeps_earlier_changes(one):
    both = one.scenario(CHANGES)
    in_turn = one.scenario(price=CHANGES["price"]).scenario(promo=CHANGES["promo"])
    np.testing.assert_array_equal(in_turn.mean, both.mean)
    back = both.scenario(price=shop()["price"][N:], promo=shop()["promo"][N:])
    np.testing.assert_allclose(back.mean, one.mean, rtol=1e-12)


def test_prices_outside_their_past_are_remarked_on(one):
    assert not any("extrapolated" in remark for remark in one.scenario(price=5.0).remarks)
    (remark,) = [r for r in one.scenario(price=50.0, promo=1).remarks if "extrapolated" in r]
    assert remark.endswith("extrapolated: price")


def test_too_long_horizons_are_refused(one, monkeypatch):
    """Six steps and two coefficients are a covariance of 64 numbers."""
    cheaper = one.scenario(price=4.0)
    monkeypatch.setattr(validation, "machine_memory", lambda: 5e6)
    says = "in the square of the horizon.*Forecast at most 4 steps, or longer ones"
    with pytest.raises(ValueError, match=says):
        one.scenario(price=stats.norm(5.0, 0.2))
    with pytest.raises(ValueError, match=says):
        bk.compare_scenarios({"plan": one, "cheaper": cheaper})
    assert np.isfinite(one.scenario(price=4.5).median).all()


@pytest.mark.slow
def test_scenario_has_all_of_a_forecast(one, tmp_path):
    for g in (one.scenario(price=5.0), one.scenario(price=stats.norm(5.0, 0.2))):
        assert list(g.to_frame().index) == list(DAYS[N:])
        assert len(g.totals("week")) == 1 and "scenario" in str(g)
        assert all(path.exists() for path in g.export(tmp_path))
        assert g.log_density(g.mean).shape == (AHEAD,) and g.problem is None


@pytest.mark.slow
def test_saved_scenarios_are_scenarios(average, tmp_path):
    scenarios = {"plan": average, "known": average.scenario(CHANGES)}
    scenarios["uncertain"] = average.scenario(price=stats.norm(5.0, 0.3))
    loaded = {}
    for name, f in scenarios.items():
        f.save(tmp_path / f"{name}.nc")
        loaded[name] = bk.load(tmp_path / f"{name}.nc")
        np.testing.assert_allclose(loaded[name].quantile(QUANTILES), f.quantile(QUANTILES))
    again = loaded["plan"].scenario(CHANGES)
    np.testing.assert_allclose(again.median, scenarios["known"].median, rtol=1e-10)
    table, expected = (bk.compare_scenarios(group).to_frame() for group in (loaded, scenarios))
    pd.testing.assert_frame_equal(table, expected)


# -- comparison ------------------------------------------------------------------------------------


def test_differences_have_the_distribution_of_the_effect(one):
    cheaper = one.scenario(price=shop()["price"][N:].to_numpy() - 1.0)
    comparison = bk.compare_scenarios({"base": one, "cheaper": cheaper}, seed=3)
    (difference,) = comparison.differences.values()
    effects = one.choices.effects
    column = effects.columns.index("price")
    mean, variance = one.parts[0].fitted.density.coefficients(one.parts[0].fitted.mode[None])
    unit = -one.scale.size * effects.units[column]
    width = one.combination.errors(np.arange(AHEAD))
    np.testing.assert_allclose(cheaper.mean - one.mean, unit * mean[0, column], rtol=1e-8)
    sd = abs(unit) * np.sqrt(variance[0, column]) * width.sd * width.scales
    # 4,000 draws.
    np.testing.assert_allclose(
        difference.mean(axis=0), unit * mean[0, column], atol=4 * sd.max() / 60
    )
    np.testing.assert_allclose(difference.std(axis=0), sd, rtol=0.06)
    for name, f in comparison.forecasts.items():
        np.testing.assert_allclose(comparison.draws[name].mean(axis=0), f.mean, atol=0.2)
        np.testing.assert_allclose(comparison.draws[name].std(axis=0), f.sd, rtol=0.06)
    table = comparison.to_frame(0.9)
    totals = difference.sum(axis=1)
    assert table.loc["cheaper", "difference_lower"] == pytest.approx(np.quantile(totals, 0.05))
    assert table.loc["cheaper", "probability"] == np.mean(totals > 0.0)
    assert np.isnan(table.loc["base", "difference"])
    percent = 100.0 * table.loc["cheaper", "difference"] / table.loc["base", "median"]
    assert table.loc["cheaper", "percent"] == pytest.approx(percent)


def test_equal_scenarios_differ_by_nothing(average):
    rows = shop()["promo"][N:].to_numpy()
    other = average.scenario(promo=np.where(np.arange(AHEAD) < 2, 1.0 - rows, rows))
    comparison = bk.compare_scenarios({"a": average, "b": other, "c": average})
    np.testing.assert_allclose(comparison.differences["c"], 0.0, atol=1e-12)
    np.testing.assert_allclose(comparison.differences["b"][:, 2:], 0.0, atol=1e-9)
    assert np.all(np.abs(np.median(comparison.differences["b"][:, :2], axis=0)) > 4.0)


def test_uncertain_scenarios_are_paired(one):
    draws = np.random.default_rng(4).normal(5.0, 1.0, (50, 1))
    f, g = one.scenario(price=draws), one.scenario(price=draws - 0.5)
    comparison = bk.compare_scenarios({"f": f, "g": g})
    (difference,) = comparison.differences.values()
    expected = one.scenario(price=4.5).mean - one.scenario(price=5.0).mean
    np.testing.assert_allclose(difference.mean(axis=0), expected, rtol=0.05)
    assert np.all(difference.std(axis=0) < 0.2 * f.sd)
    np.testing.assert_allclose(comparison.draws["f"].std(axis=0), f.sd, rtol=0.06)


def test_comparison_as_table_text_and_picture(one):
    hostile = "$x_{$ cheaper"
    scenarios = {"base": one, hostile: one.scenario(price=4.0), "dear": one.scenario(price=6.0)}
    comparison = bk.compare_scenarios(scenarios, reference="dear")
    assert list(comparison.to_frame().index) == [*scenarios]
    by_time = comparison.by_time(0.8)
    assert by_time.index.names == ["scenario", "day"] and len(by_time) == 3 * AHEAD
    lines = str(comparison).splitlines()
    assert "total of y over 6 steps, compared with dear" in lines[0]
    assert hostile in lines[4] and lines[4].endswith("> 99 %")
    figure = comparison.plot()
    figure.savefig("/dev/null", format="png")
    assert len(figure.axes) == 2


def test_bad_comparisons(one, average):
    g = one.scenario(price=5.0)
    for forecasts, reference, message in (
        ({"base": one}, None, "at least two scenarios"),
        ([one, g], None, "must be a dict"),
        ({"base": one, "g": g}, "h", "reference='h' is not known"),
        ({"base": one, "other": average}, None, "scenarios of one forecast"),
        ({"base": one, "co2": bk.forecast([1.0, 2.0, 4.0, 3.0], 2)}, None, "co2 has no regressors"),
    ):
        with pytest.raises(ValueError, match=message):
            bk.compare_scenarios(forecasts, reference)
    with pytest.raises(TypeError, match="g must be a forecast"):
        bk.compare_scenarios({"base": one, "g": 3.0})


# -- effects ---------------------------------------------------------------------------------------


def test_effects_per_sd_and_per_tenth_of_the_mean(one):
    table, price = one.effects(), shop()["price"][:N]
    row = table.loc["price"]
    assert row["per sd"] == pytest.approx(row["median"] * price.std(ddof=0), rel=1e-10)
    assert row["per 10 %"] == pytest.approx(0.1 * row["median"] * price.mean(), rel=1e-10)
    assert np.isnan(table.loc["promo", ["per sd", "per 10 %"]].to_numpy(float)).all()
    # The scenario that the column describes.
    dearer = one.scenario(price=shop()["price"][N:] + 0.1 * price.mean())
    np.testing.assert_allclose(dearer.mean - one.mean, row["per 10 %"], rtol=1e-8)


def test_effects_are_factors_on_the_log_scale():
    frame = shop()
    frame["y"] = np.exp(frame["y"] / 20.0)
    frame["cold"] = np.random.default_rng(0).normal(size=N + AHEAD)
    series = bk.read_series(frame, value="y", regressors=["price", "cold"])
    model = bk.StructuralModel(log=True, method="map")
    table = bk.forecast(series, AHEAD, season=0, trend="drift", model=model).effects()
    row, price = table.loc["price"], frame["price"][:N]
    assert row["per sd"] == pytest.approx(row["median"] ** price.std(ddof=0), rel=1e-8)
    assert row["per 10 %"] == pytest.approx(row["median"] ** (0.1 * price.mean()), rel=1e-8)
    assert np.isnan(table.loc["cold", "per 10 %"]) and table.loc["cold", "per sd"] > 0.0


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "names are promo, price"),
        ({"prise": 5.0}, "regressor='prise' is not known. Did you mean 'price'"),
        ({"price": [5.0] * (AHEAD + 1)}, "price has 7 values, longer than the 6 future times"),
        ({"price": [5.0]}, "price has 1 value, shorter than the 6 future times"),
        ({"price": [5.0, np.nan, 5.0, 5.0, 5.0, 5.0]}, "value at 2023-04-02 is nan"),
        ({"price": np.inf}, "price must be finite.* is inf"),
        ({"price": "cheap"}, "price takes numbers"),
        ({"price": ["2023-04-01"]}, "price takes numbers; dates are for events"),
        ({"promo": "cheap"}, "promo, row 1: cannot read 'cheap'"),
        ({"price": None}, "price must be a number.*NoneType"),
        ({"price": {"a": 1}}, "price must be a number.*dict"),
        ({"price": 1j}, "price must be a number.*complex"),
        ({"price": np.ones((4, 3))}, r"price must be a number.*shape \(4, 3\)"),
        ({"price": np.ones((2, 2, AHEAD))}, r"shape \(2, 2, 6\)"),
        ({"price": np.ones((0, AHEAD))}, r"shape \(0, 6\)"),
        ({"price": pd.Series(5.0, DAYS[N : N + 3])}, "price has no value at 2023-04-04"),
        ({"price": pd.Series(5.0, DAYS[:N])}, "price has no value at 2023-04-01"),
        ({"price": pd.Series(np.nan, DAYS)}, "price must be finite"),
        ({"price": pd.Series(5.0, [*DAYS[N:], DAYS[N]])}, "index of price has repeated times"),
        ({"price": pd.DataFrame({"a": [1.0]})}, "price must be .*choose a column"),
        ({"price": stats.norm(np.zeros(4), 1.0)}, "price: the distribution must have one value"),
        ({"price": stats.multivariate_normal(np.zeros(4))}, r"have shape \(400, 4\)"),
        ({"price": stats.norm(np.nan, 1.0)}, "price must be finite"),
        ({"price": np.arange(12.0).reshape(2, 6), "promo": np.ones((3, 6))},
         "price has 2 draws and promo has 3"),
        ({"promo": ["2023-05-01"]}, "promo: 2023-05-01 is not one of the 6 future times"),
        ({"price": bk.forecast([1.0, 2.0, 4.0, 3.0], 2)}, "both be dates or both be numbers"),
    ],
)  # fmt: skip
def test_bad_scenarios(one, values, message):
    with pytest.raises(ValueError, match=message):
        one.scenario(values)


def test_forecasts_without_effects_have_no_scenarios():
    for series in ([1.0, 2.0, 4.0, 3.0], [3.0, 3.0, 3.0, 3.0]):
        with pytest.raises(ValueError, match="has no regressors, events or holidays"):
            bk.forecast(series, 2).scenario(price=1.0)
    short = pd.Series(shop()["price"].to_numpy(), DAYS)[:N]
    ahead = bk.forecast(short, AHEAD - 2, season=0, trend="drift", model=MAP)
    with pytest.raises(ValueError, match="price has no value at 2023-04-05"):
        fit(shop()).scenario(price=ahead)
