"""Regressors, events and holidays: effects that the test put in, by hand and on the calendar."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import multivariate_normal, norm

import bayeskern as bk
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.prior import LogNormalPrior, NumpyPrior
from bayeskern.forecast.model.effects import effects_of
from bayeskern.forecast.model.kernels import default_noise
from bayeskern.forecast.model.trends import default_kernel
from bayeskern.gp import GPRegression
from bayeskern.hyperparameters import is_specified
from bayeskern.kernels import RBF
from bayeskern.series.reading import read_series

N, AHEAD = 200, 28
DAYS = pd.date_range("2023-01-01", periods=N + AHEAD, freq="D")
MODEL = bk.StructuralModel(log=False, method="map")
ONE = {"trend": "smooth", "model": MODEL}


@pytest.fixture(scope="module")
def shop():
    """A weekly season, promotions worth 12, a price whose unit costs 6; no y in the future."""
    rng = np.random.default_rng(0)
    promo = (rng.random(N + AHEAD) < 0.15).astype(float)
    price = 5.0 + 0.5 * rng.normal(size=N + AHEAD)
    y = 100.0 + 5.0 * np.sin(2.0 * np.pi * np.arange(N + AHEAD) / 7.0) + 12.0 * promo - 6.0 * price
    y += 2.0 * rng.normal(size=N + AHEAD)
    frame = pd.DataFrame({"day": DAYS, "promo": promo, "price": price, "y": y})
    known = frame.assign(y=np.where(np.arange(len(frame)) < N, y, np.nan))
    return known, frame["y"].to_numpy()[N:]


@pytest.fixture(scope="module")
def forecast(shop):
    return bk.forecast(bk.read_series(shop[0], value="y", regressors=["promo", "price"]), AHEAD)


@pytest.mark.slow
def test_effects_are_recovered_and_halve_the_error(shop, forecast):
    known, came = shop
    effects = forecast.effects(0.95)
    assert list(effects.index) == ["promo", "price"]
    for name, true in (("promo", 12.0), ("price", -6.0)):
        assert effects.loc[name, "lower"] < true < effects.loc[name, "upper"]
        assert effects.loc[name, "upper"] - effects.loc[name, "lower"] < 3.0
    without = bk.forecast(known[["day", "y"]], AHEAD)
    error, other = (np.abs(f.median - came).mean() for f in (forecast, without))
    assert error <= 0.5 * other
    lower, upper = forecast.interval(0.95)
    assert np.mean((lower < came) & (came < upper)) > 0.85


def test_the_summary_lists_effects(forecast):
    said = " ".join(str(forecast).split())
    assert re.search(r"effects promo \+1[12][\d.]* \(1.*\); price -[56]\.", said)


def test_effects_are_components(shop, forecast):
    assert forecast.components[-2:] == ("promo", "price")
    promo = forecast.component("promo")
    on = shop[0]["promo"].to_numpy()[N:] == 1.0
    np.testing.assert_allclose(promo["median"][~on], 0.0, atol=1e-12)
    np.testing.assert_allclose(promo["median"][on], 12.0, atol=1.0)
    price = forecast.component("price")
    difference = shop[0]["price"] - shop[0]["price"][:N].mean()
    np.testing.assert_allclose(price["median"], -6.0 * difference[N:], atol=0.6)


def test_effects_are_factors_on_the_log_scale():
    rng = np.random.default_rng(1)
    promo = (rng.random(120) < 0.2).astype(float)
    y = np.exp(2.0 + 0.4 * promo + 0.05 * rng.normal(size=120))
    frame = pd.DataFrame({"day": DAYS[:120], "promo": promo, "y": y})
    frame.loc[110:, "y"] = np.nan
    series = bk.read_series(frame, value="y", regressors="promo")
    model = bk.StructuralModel(log=True, method="map")
    f = bk.forecast(series, 10, season=0, trend="smooth", model=model)
    assert f.effects().loc["promo", "median"] == pytest.approx(np.exp(0.4), rel=0.03)


def test_density_and_predictions_with_effects_match_scipy(shop):
    """Against SciPy, for the log density, its gradient, the coefficients and new values."""
    series = read_series(shop[0][150:], value="y", regressors=["promo", "price"])
    effects = effects_of(series, 5)
    x, y = series.calendar.positions(series.times), series.values
    z = (y - y.mean()) / y.std()
    model = GPRegression(default_kernel("smooth", {"season": 7.0 / 365.25}), default_noise())
    prior = NumpyPrior(model.kernel, model.noise)
    plain, density = DenseLogMarginal(prior, x, z), DenseLogMarginal(prior, x, z, effects)
    at = plain.middle
    Z = effects.rows(x)
    values = {name: float(v) for name, v in plain.values(at).items()}
    noise = values.pop("noise")
    kernel = model.kernel.at(values)
    K = np.asarray(kernel(x)) + noise * np.eye(len(x))
    change = multivariate_normal(cov=K + Z @ Z.T).logpdf(z) - multivariate_normal(cov=K).logpdf(z)
    np.testing.assert_allclose(density.log_density(at) - plain.log_density(at), change, rtol=1e-8)
    _, gradient = density.value_and_gradient(at)
    for i in range(0, len(at), 3):
        step = 1e-5 * np.eye(len(at))[i]
        differences = density.log_density(at + step) - density.log_density(at - step)
        np.testing.assert_allclose(gradient[i], differences / 2e-5, rtol=1e-4, atol=1e-6)
    solved = np.linalg.solve(K + Z @ Z.T, np.column_stack([z, Z]))
    mean, variance = density.coefficients(at[None])
    np.testing.assert_allclose(mean[0], Z.T @ solved[:, 0], rtol=1e-8)
    np.testing.assert_allclose(variance[0], 1.0 - np.sum(Z * solved[:, 1:], axis=0), rtol=1e-6)
    x_new = series.calendar.positions(series.calendar.future(5))
    cross = np.asarray(kernel(x, x_new)) + Z @ effects.rows(x_new).T
    mean, _ = density.moments(at[None], x_new)
    np.testing.assert_allclose(mean[0], cross.T @ solved[:, 0], rtol=1e-8)
    _, covariance = density.joint(at, x_new)
    among = np.asarray(kernel(x_new)) + effects.covariance(x_new, x_new) + noise * np.eye(5)
    expected = among - cross.T @ np.linalg.solve(K + Z @ Z.T, cross)
    np.testing.assert_allclose(covariance, expected, rtol=1e-7)


@pytest.mark.slow
def test_columns_frames_and_files_give_the_same_effects(shop, forecast, tmp_path):
    known, _ = shop
    whole = bk.read_series(known, value="y", regressors=["promo", "price"])
    beside = bk.forecast(whole, AHEAD, **ONE)
    series = known.set_index("day")["y"][:N]
    own = known[["day", "promo", "price"]]
    frames = (own, own.set_index("day"), pl.from_pandas(own))
    for frame in frames:
        for source in (series, bk.read_series(series)):
            median = bk.forecast(source, AHEAD, regressors=frame, **ONE).median
            np.testing.assert_allclose(median, beside.median, rtol=1e-6)
    (promo,) = bk.forecast(
        known.drop(columns="price"), AHEAD, regressors=["promo"], **ONE
    ).choices.effects.names
    assert promo == "promo"
    path = tmp_path / "shop.csv"
    known.to_csv(path, index=False)
    read = bk.read_series(path, value="y", regressors=["promo", "price"])
    np.testing.assert_allclose(bk.forecast(read, AHEAD, **ONE).median, beside.median, rtol=1e-6)
    with pytest.raises(ValueError, match="regressors= cannot be used"):
        bk.forecast(read, AHEAD, regressors=["promo"])
    with pytest.raises(ValueError, match=r"has regressors already \(promo, price\)"):
        bk.forecast(read, AHEAD, regressors=own)


def test_regressors_have_the_notation_of_the_values(tmp_path):
    path = tmp_path / "shop.csv"
    price = [f"{1 + d % 3},{100 + d % 7}" for d in range(40)]
    rows = [f"{DAYS[d]:%d.%m.%Y};{price[d]};{d % 5},5" for d in range(40)]
    path.write_text("day;price;y\n" + "\n".join(rows) + "\n")
    with pytest.raises(ValueError, match="'1,100' may be 1.100 or 1100"):
        read_series(path, value="y", regressors=["price"])
    for decimal, first in ((",", 1.1), (".", 1100.0)):
        if decimal == ".":
            path.write_text(path.read_text().replace(",5", ""))
        series = read_series(path, value="y", regressors=["price"], decimal=decimal)
        assert series.regressors.columns["price"][0] == first


def test_backtest_with_regressors(shop):
    known, _ = shop
    ours, without = (
        bk.backtest(bk.read_series(known[:N][columns], value="y", regressors=names), 10, 2, **ONE)
        for columns, names in ((list(known), ["promo", "price"]), (["day", "y"], None))
    )
    assert ours.scores["forecast"]["mae"] < 0.6 * without.scores["forecast"]["mae"]


EASTERS = {2023: "2023-04-09", 2024: "2024-03-31", 2025: "2025-04-20"}


@pytest.mark.parametrize("country", ["DE", "US"])
def test_dates_of_holidays(country):
    days = pd.date_range("2023-01-01", "2025-03-31")
    series = read_series(pd.Series(np.random.default_rng(0).normal(size=len(days)), days))
    effects = effects_of(series, 60, country, (1, 0))
    times = np.append(series.times, series.calendar.future(60)).astype("M8[D]")
    columns = zip(effects.columns, effects.Z.T, strict=True)
    on = {name: set(times[column == 1.0]) for name, column in columns}
    if country == "US":
        # The last Monday of May; it lies after the series in 2025.
        memorial = on["Memorial Day"]
        assert memorial == {np.datetime64(d) for d in ("2023-05-29", "2024-05-27", "2025-05-26")}
        assert np.datetime64("2024-05-26") in on["Memorial Day -1 d"]
        return
    for shift, name in ((-2, "Karfreitag"), (1, "Ostermontag")):
        moved = {np.datetime64(easter) + np.timedelta64(shift, "D") for easter in EASTERS.values()}
        assert on[name] == moved
    assert np.datetime64("2024-03-28") in on["Karfreitag -1 d"]
    unity = {np.datetime64("2023-10-03"), np.datetime64("2024-10-03")}
    assert on["Tag der Deutschen Einheit"] == unity


def test_holidays_in_the_future_only_are_remarked_on():
    days = pd.date_range("2024-01-15", "2024-12-20")
    y = pd.Series(50.0 + np.random.default_rng(0).normal(size=len(days)), days)
    f = bk.forecast(y, 14, holidays="DE", season=0, **ONE)
    (remark,) = [remark for remark in f.remarks if "assumes no effect" in remark]
    assert remark.startswith("Neujahr, Erster Weihnachtstag, Zweiter Weihnachtstag: not obs")
    assert not {"Neujahr", "Erster Weihnachtstag"} & {*f.effects().index}


@pytest.mark.slow
def test_names_are_escaped_in_reports(tmp_path):
    hostile = "$x_{$ <script>alert(1)</script>"
    rng = np.random.default_rng(0)
    promo = (rng.random(40) < 0.3).astype(float)
    y = np.append((5.0 * promo + rng.normal(size=40))[:36], [np.nan] * 4)
    frame = pd.DataFrame({"day": DAYS[:40], hostile: promo, "y": y})
    f = bk.forecast(bk.read_series(frame, value="y", regressors=[hostile]), 4, season=0, **ONE)
    f.plot_components().savefig(tmp_path / "components.png")
    page = bk.report(f, tmp_path / "report.html").read_text()
    assert "<script>alert(1)</script>" not in page


def test_holidays_of_weeks():
    weeks = pd.date_range("2022-01-03", periods=150, freq="W-MON")
    series = read_series(pd.Series(np.random.default_rng(0).normal(size=150), weeks))
    effects = effects_of(series, 5, "DE")
    assert effects.names == ("holidays",)
    column = effects.Z[:, effects.columns.index("Karfreitag")]
    assert set(series.times[column[:150] == 1.0].astype("M8[D]")) == {
        np.datetime64(monday) for monday in ("2022-04-11", "2023-04-03", "2024-03-25")
    }


def test_events_on_days_and_months():
    rng = np.random.default_rng(0)
    y = rng.normal(size=100)
    fairs = ["2023-01-20", "2023-02-17", "2023-03-17", "2023-04-20"]
    on = np.isin(DAYS[:100].strftime("%Y-%m-%d"), fairs)
    y[on] += 8.0
    f = bk.forecast(pd.Series(y, DAYS[:100]), 14, events={"fair": fairs}, season=0, **ONE)
    assert f.effects().loc["fair", "median"] == pytest.approx(8.0, abs=1.5)
    assert f.median[9] - f.median[8] > 5.0  # 2023-04-20 is the tenth day ahead
    months = read_series(pd.Series(y[:40], pd.date_range("2020-01-31", periods=40, freq="ME")))
    effects = effects_of(months, 3, events={"fair": ["2021-03-10", "2022-05-01"]})
    assert set(months.times[effects.Z[:40, 0] == 1.0].astype("M8[D]")) == {
        np.datetime64("2021-03-31"),
        np.datetime64("2022-05-31"),
    }


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"regressors": ["prce"]}, "regressors='prce' .* Did you mean 'price'"),
        ({"price": (N + 3, np.nan)}, {"regressors": ["price"]},
         "price has no value at 2023-07-23, in the future: a regressor needs a value"),
        ({"price": (5, np.nan)}, {"regressors": ["price"]},
         "price has no value at 2023-01-06, in the series"),
        ({"promo": (slice(None), 1.0)}, {"regressors": ["promo"]},
         "promo is 1 throughout the series, so its effect cannot be estimated"),
        ({}, {"regressors": ["price"], "horizon": AHEAD + 1},
         "price has no value at 2023-08-17, in the future"),
        ({}, {"regressors": ["price"], "holidays": "XX"}, "code of a country.*got 'XX'"),
        ({}, {"regressors": ["price"], "events": {"price": ["2023-01-20"]}},
         "price is the name of two effects"),
        ({}, {"events": {"season": ["2023-01-20"]}}, "'season' is the name of a component"),
        ({}, {"regressors": ["price"], "events": {"fair": ["1999-01-20"]}}, "no date of fair"),
        ({}, {"regressors": ["price"], "model": bk.StructuralModel(method="nuts")},
         "not to a kernel or another"),
        ({}, {"regressors": ["price"], "model": bk.StructuralModel(kernel=RBF())},
         "not to a kernel or another"),
    ],
)  # fmt: skip
def test_bad_input(shop, change, options, message):
    frame = shop[0].copy()
    for name, (rows, value) in change.items():
        frame.loc[rows, name] = value
    options = {"horizon": AHEAD} | options
    with pytest.raises(ValueError, match=message):
        series = bk.read_series(frame, value="y", regressors=options.pop("regressors", None))
        bk.forecast(series, **options)


def test_options_without_effects_are_refused(forecast):
    with pytest.raises(ValueError, match="holidays= needs dates at most a week apart"):
        bk.forecast("nile", 3, holidays="DE")
    with pytest.raises(ValueError, match="a week apart; the times of the series are monthly"):
        bk.forecast("co2", 3, holidays="DE")
    with pytest.raises(ValueError, match="has no regressors, events or holidays"):
        bk.forecast([1.0, 2.0, 4.0, 3.0], 2).effects()
    with pytest.raises(ValueError, match="promo has no value at 2023-08-17"):
        forecast.update(3.0)
    with pytest.raises(ValueError, match="a frame of regressors"):
        bk.forecast([1.0, 2.0, 4.0], 2, regressors=["price"])
    with pytest.raises(ValueError, match="every= cannot be used"):
        frame = pd.DataFrame({"day": DAYS, "a": 1.0, "y": 2.0})
        read_series(frame, value="y", regressors=["a"], every="week", by="sum")


# -- effects with kernels --------------------------------------------------------------------------


def test_a_kernel_gives_a_non_linear_effect():
    """Cold and heat both cost: no line shows that, and a function does."""
    rng = np.random.default_rng(3)
    warmth = rng.normal(15.0, 8.0, N + AHEAD)
    cost = 0.1 * np.square(warmth - 15.0)
    y = 50.0 + cost + rng.normal(0.0, 1.0, N + AHEAD)
    known = np.where(np.arange(N + AHEAD) < N, y, np.nan)
    frame = pd.DataFrame({"day": DAYS, "warmth": warmth, "y": known})
    series = bk.read_series(frame, value="y", regressors=["warmth"])
    models = MODEL, replace(MODEL, effect_kernels={"warmth": RBF(1.0, 4.0)})
    line, curve = (
        bk.forecast(series, AHEAD, season=0, trend="smooth", model=model) for model in models
    )
    errors = [np.abs(f.median - y[N:]).mean() for f in (line, curve)]
    assert errors[1] < 1.5 and errors[1] < 0.3 * errors[0]
    shape = curve.component("warmth")["median"] - cost[N:]
    assert np.std(shape) < 0.15 * np.std(cost[N:])
    assert len(curve.effects()) == 0 and "warmth by its kernel" in str(curve)


def test_density_with_a_kernel_matches_scipy():
    rng = np.random.default_rng(4)
    z = rng.normal(size=30)
    frame = pd.DataFrame({"day": DAYS[:30], "z": z, "other": z[::-1], "y": rng.normal(size=30)})
    series = read_series(frame, value="y", regressors=["z", "other"])
    kernel = RBF(0.7, 0.5)
    effects = effects_of(series.until(25), 5, kernels={"z": kernel})
    assert effects.columns == ("other", "z") and effects.linear == 1
    x = series.calendar.positions(series.times)[:25]
    model = GPRegression(default_kernel("drift", {}), default_noise())
    y = frame["y"].to_numpy()[:25]
    prior = NumpyPrior(model.kernel, model.noise)
    density = DenseLogMarginal(prior, x, y, effects)
    values = density.values(density.middle)
    own = (z - z[:25].mean()) / z[:25].std()
    others = z[::-1]
    others = (others - others[:25].mean()) / others[:25].std()
    K = np.asarray(model.at({k: float(v) for k, v in values.items()}).kernel(x[:, None]))
    K = K + float(values["noise"]) * np.eye(25) + np.outer(others[:25], others[:25])
    K = K + 0.5 * np.exp(-0.5 * np.square(np.subtract.outer(own[:25], own[:25]) / 0.7))
    # At its median the prior of each z is that of a standard normal over its scale.
    priors = [*model.kernel.hyperparameters().values(), model.noise]
    scales = [LogNormalPrior.of(p).scale for p in priors if is_specified(p)]
    truth = multivariate_normal(np.zeros(25), K).logpdf(y) + norm(0.0, scales).logpdf(0.0).sum()
    assert density.log_density(density.middle) == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize(
    ("kernels", "error", "said"),
    [
        ({"heat": RBF(1.0)}, ValueError, "effect_kernels='heat' is not known"),
        ({"price": 3.0}, TypeError, "must be kernels; got {'price': 3.0}"),
    ],
)
def test_kernels_of_effects_are_checked(shop, kernels, error, said):
    series = bk.read_series(shop[0], value="y", regressors=["promo", "price"])
    with pytest.raises(error, match=said):
        bk.forecast(series, 3, model=bk.StructuralModel(effect_kernels=kernels))
