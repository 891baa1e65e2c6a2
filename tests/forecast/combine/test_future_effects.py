"""Updates of forecasts with regressors, events and holidays: conditional distributions."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import bayeskern as bk
from bayeskern.engine.steady.log_marginal import SteadyLogMarginal
from bayeskern.kernels import RBF
from tests.forecast.test_scenarios import AHEAD, DAYS, MAP, N, fit, shop

LATER = pd.date_range(DAYS[-1], periods=10, freq="D")[1:]
RNG = np.random.default_rng(7)
PRICE, PROMO = RNG.normal(5.0, 0.5, 9), np.array([0.0, 1, 0, 0, 1, 0, 0, 1, 0])
NEW = np.array([44.0, 39.0, 41.5])


def later(count):
    """Regressors of the first `count` days after the horizon."""
    return pd.DataFrame({"price": PRICE[:count], "promo": PROMO[:count]}, LATER[:count])


@pytest.fixture(scope="module")
def one():
    return fit(shop())


@pytest.fixture(scope="module")
def average():
    return fit(shop(), model=bk.StructuralModel())


def conditional(f, count, y):
    """Mean and sd of the values after the first `count` of the horizon, given these values."""
    fitted = f.parts[0].fitted
    x = f.series.calendar.positions(f.times)
    mean, covariance = fitted.density.joint(fitted.mode, x)
    known, rest = slice(None, count), slice(count, None)
    gain = np.linalg.solve(covariance[known, known], covariance[known, rest]).T
    mean = mean[rest] + gain @ (f.scale.forward(y) - mean[known])
    variance = np.diag(covariance[rest, rest] - gain @ covariance[known, rest])
    return f.scale.back(mean), f.scale.size * np.sqrt(variance)


def test_update_is_the_conditional_of_the_joint_forecast(one):
    """A mode stays as it is, so the forecast of six days, given three of them, is the update."""
    g = one.update(NEW, regressors=later(3))
    mean, sd = conditional(one, 3, NEW)
    np.testing.assert_allclose(g.mean[:3], mean, rtol=1e-8)
    width = one.combination.errors(np.arange(3))
    np.testing.assert_allclose(g.sd[:3], sd * width.scales * width.sd, rtol=1e-8)
    assert g.times[0] == np.datetime64(DAYS[N + 3]) and len(g.median) == AHEAD
    np.testing.assert_array_equal(
        g.choices.effects.values_at(g.series.calendar.positions(g.times))[:, 0],
        [*shop()["promo"][N + 3 :], *PROMO[:3]],
    )
    assert one.choices.effects.positions[-1] < g.choices.effects.positions[-1]


def test_other_prices_than_planned_are_given_with_the_values(one):
    """The plan is a scenario: an update with other prices is an update of this scenario."""
    prices = np.append(shop()["price"][N:], PRICE[:3])
    prices[:2] = 4.2, 5.7
    g = one.update(NEW, regressors={"price": prices, "promo": later(3)["promo"]})
    planned = one.scenario(price=prices[:AHEAD])
    mean, _ = conditional(planned, 3, NEW)
    np.testing.assert_allclose(g.mean[:3], mean, rtol=1e-8)
    np.testing.assert_allclose(planned.update(NEW, regressors=later(3)).mean, g.mean, rtol=1e-8)


@pytest.mark.parametrize("options", [{}, {"model": bk.StructuralModel(robust=True)}])
def test_single_updates_equal_joint_update(options):
    f = fit(shop(), model=options.get("model", bk.StructuralModel()))
    at_once, one_by_one = f.update(NEW, regressors=later(3)), f
    for i, value in enumerate(NEW):
        one_by_one = one_by_one.update(value, regressors=later(3).iloc[[i]])
    tolerance = 0.05 if options else 1e-6
    np.testing.assert_allclose(one_by_one.median, at_once.median, rtol=tolerance)
    np.testing.assert_allclose(one_by_one.sd, at_once.sd, rtol=tolerance)


def test_update_reweights_by_density_given_the_planned_prices(average):
    """The log weights grow by log p(new | old), computed from the joint distribution."""
    prices = np.append([4.2, 5.7, 5.0], shop()["price"][N + 3 :])
    g = average.scenario(price=prices).update(NEW, regressors=later(3))
    part = next(p for p in average.scenario(price=prices).parts if not p.structure.log)
    after = next(p for p in g.parts if p.structure == part.structure)
    x = average.series.calendar.positions(average.times)[:3]
    gains = []
    for z in part.draws.z:
        mean, covariance = part.fitted.density.joint(z, x)
        values = part.fitted.scale.forward(NEW)
        gains.append(stats.multivariate_normal(mean, covariance).logpdf(values))
    np.testing.assert_allclose(after.draws.log_ratios - part.draws.log_ratios, gains, rtol=1e-6)


def test_forms_of_regressors(one):
    frame = later(3)
    expected = one.update(NEW, regressors=frame).median
    named = frame.rename_axis("day").reset_index()
    both = pd.concat([shop().set_index("day")[["price", "promo"]], frame])
    arrays = {name: both[name][N:].to_numpy() for name in both}
    for regressors in (named, pl.from_pandas(named), both, arrays, dict(frame.items())):
        np.testing.assert_allclose(
            one.update(NEW, regressors=regressors).median, expected, rtol=1e-12
        )
    # A frame of the fit that goes beyond the horizon is known already.
    beyond = pd.concat([shop(), named])
    beyond = beyond.assign(y=np.append(shop()["y"], [np.nan] * 3))
    np.testing.assert_allclose(fit(beyond).update(NEW).median, expected, rtol=1e-12)


def test_missing_values_and_later_times(one):
    gap = one.update([NEW[0], np.nan, NEW[2]], regressors=later(3))
    skipped = one.update(NEW[[0, 2]], times=DAYS[[N, N + 2]], regressors=later(3))
    np.testing.assert_allclose(gap.median, skipped.median, rtol=1e-10)
    again = gap.update(40.0, regressors=later(4))
    assert again.times[0] == np.datetime64(DAYS[N + 4])


def test_events_and_holidays_are_known():
    days = pd.date_range("2022-10-01", periods=130, freq="D")
    y = pd.Series(50.0 + np.random.default_rng(0).normal(size=130), days)
    fairs = ["2022-11-10", "2023-01-05", "2023-02-14"]
    y[["2022-10-03", "2022-12-25", "2022-12-26", "2023-01-01"]] -= 10.0
    y[fairs[:2]] += 8.0
    options = {"holidays": "DE", "events": {"fair": fairs}, "season": 0, "trend": "drift"}
    # The 16th of May is 100 days later: Easter comes in between, and has no effect yet.
    f = bk.forecast(y[:115], 10, model=MAP, **options)
    g = f.update(y[115:])
    effects, x = g.choices.effects, g.series.calendar.positions(g.times)
    fair = effects.values_at(x)[:, effects.columns.index("fair")]
    assert g.times[fair == 1.0].astype("M8[D]").tolist() == [pd.Timestamp("2023-02-14").date()]
    assert not any("assumes no effect" in remark for remark in g.remarks)
    spring = bk.forecast(y, 50, model=MAP, **options).update(np.full(10, 50.0))
    assert any("Karfreitag" in r and "assumes no effect" in r for r in spring.remarks)
    moved = f.update(y[115:], regressors={"fair": ["2023-02-10"]})
    assert moved.median[2] - g.median[2] > 5.0


def test_uncertain_regressors_become_known(one):
    draws = np.random.default_rng(1).normal(5.0, 0.5, (30, AHEAD))
    g = one.scenario(price=draws)
    with pytest.raises(ValueError, match="price has no value at 2023-04-01"):
        g.update(NEW, regressors=later(3))
    rest = np.random.default_rng(2).normal(5.0, 0.5, (30, AHEAD))
    path = np.hstack([np.tile(CHOSEN, (30, 1)), rest])
    h = g.update(NEW, regressors={"price": path, "promo": later(3)["promo"]})
    promo = later(3)["promo"]
    each = [one.update(NEW, regressors={"price": row, "promo": promo}).mean for row in path]
    np.testing.assert_allclose(h.mean, np.mean(each, axis=0), rtol=1e-8)
    with pytest.raises(ValueError, match="price must be known at the times of the new values"):
        g.update(NEW, regressors={"price": np.hstack([rest[:, :3], rest])} | {"promo": 0})


CHOSEN = np.array([4.9, 5.1, 5.3])


def test_update_by_a_forecast_of_the_regressor(one):
    """The forecast of the price knows the prices at the new times, and draws the later ones."""
    prices = pd.Series(np.append(shop()["price"][:N], CHOSEN), DAYS[: N + 3])
    ahead = bk.forecast(prices, AHEAD, season=0, trend="reverting", model=MAP)
    g = one.update(NEW, regressors={"price": ahead, "promo": 0})
    known = one.update(NEW, regressors={"price": np.append(CHOSEN, ahead.mean), "promo": 0})
    np.testing.assert_allclose(g.mean, known.mean, atol=0.5)
    assert np.all(g.sd > known.sd)


@pytest.mark.slow
def test_update_of_long_series_with_regressors():
    rng, n = np.random.default_rng(0), 1500
    days = pd.date_range("2019-01-01", periods=n + AHEAD, freq="D")
    frame = pd.DataFrame({"day": days, "price": rng.normal(5.0, 0.5, n + AHEAD)})
    season = 5.0 * np.sin(2.0 * np.pi * np.arange(n + AHEAD) / 365.25)
    frame["y"] = 50.0 + season - 4.0 * frame["price"] + rng.normal(size=n + AHEAD)
    new = frame["y"][n : n + 3].to_numpy(copy=True)
    frame.loc[n:, "y"] = np.nan
    f = bk.forecast(bk.read_series(frame, value="y", regressors=["price"]), AHEAD, model=MAP)
    assert isinstance(f.leading.density, SteadyLogMarginal)
    prices = np.append([4.2, 5.7, 5.0], frame["price"][n + 3 :])
    planned = f.scenario(price=prices)
    mean, _ = conditional(planned, 3, new)
    g = f.update(new, regressors={"price": np.append(prices, [5.0, 5.0, 5.0])})
    np.testing.assert_allclose(g.mean[:3], mean, rtol=1e-7)
    assert "price" in g.effects().index


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["negative_binomial", None])
def test_update_of_counts_and_of_non_linear_effects(likelihood):
    """Against a forecast of the longer series, with about the same hyperparameters."""
    frame, rng = shop(), np.random.default_rng(1)
    rates = np.exp(2.5 + 0.4 * frame["promo"] - 0.4 * (frame["price"] - 5.0))
    frame["y"] = rng.poisson(rates)
    new = frame["y"][N : N + 3].to_numpy(copy=True)
    whole = pd.concat([frame, later(3).rename_axis("day").reset_index()], ignore_index=True)
    known = whole.assign(y=whole["y"].where(np.arange(len(whole)) < N + 3))
    frame.loc[N:, "y"] = np.nan
    model = bk.StructuralModel()
    if likelihood is None:
        model = bk.StructuralModel(effect_kernels={"price": RBF(1.0, 1.0)})
    f, again = (fit(source, likelihood=likelihood, model=model) for source in (frame, known))
    g = f.update(new, regressors=later(3))
    assert np.abs(g.mean - again.mean).max() < 0.3 * again.sd.min()
    np.testing.assert_allclose(g.sd, again.sd, rtol=0.2)


@pytest.mark.parametrize(
    ("regressors", "message"),
    [
        (
            None,
            "promo has no value at 2023-04-07.* the 3 new times and the 6 after",
        ),
        ({"price": PRICE}, "promo has no value at 2023-04-07"),
        ({"prise": PRICE}, "regressors='prise' is not known. Did you mean 'price'"),
        (
            {"price": PRICE[:4]},
            "price has 4 values, shorter than the 3 new times",
        ),
        ({"price": np.append(PRICE[:8], np.nan), "promo": 0}, "price must be finite"),
        (later(3).assign(other=1.0), "regressors='other' is not known"),
        (later(2), "price has no value at 2023-04-09|promo has no value at 2023-04-09"),
    ],
)
def test_bad_updates(one, regressors, message):
    with pytest.raises(ValueError, match=message):
        one.update(NEW, regressors=regressors)


def test_regressors_without_effects_are_refused():
    f = bk.forecast(pd.Series(shop()["y"][:N].to_numpy(), DAYS[:N]), AHEAD, season=0, model=MAP)
    with pytest.raises(ValueError, match="has no regressors, events or holidays"):
        f.update(NEW, regressors=later(3))
