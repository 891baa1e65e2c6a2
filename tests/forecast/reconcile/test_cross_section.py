"""Reconciled forecasts of a hierarchy: sums, scores, output, bad input."""

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.forecast.reconcile.coupling import past_errors
from bayeskern.forecast.reconcile.past import crps, past_points
from bayeskern.forecast.reconcile.weights import (
    RECONCILIATION_METHODS,
    bottom_weights,
    shrunk_correlation,
)

QUICK = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
N, HORIZON = 48, 4
GROUPS = pd.DataFrame({"region": ["N", "N", "S"], "store": ["a", "b", "c"]})


def stores(seed=0, count=N):
    """Three stores with a common level, a level of each region, and noise."""
    rng = np.random.default_rng(seed)
    common, *regions = np.cumsum(rng.normal(0.0, 1.0, (3, count)), axis=1)
    values = {
        name: 40.0 + common + regions[region] + rng.normal(0.0, 2.0, count)
        for name, region in zip("abc", (0, 0, 1), strict=True)
    }
    return pd.DataFrame(values, pd.date_range("2015-01-01", periods=count, freq="MS"))


def forecasts_of(frame, horizon=HORIZON, **options):
    return {name: bk.forecast(frame[name], horizon, **(QUICK | options)) for name in frame}


@pytest.fixture(scope="module")
def base():
    frame = stores()
    frame["N"], frame["S"] = frame["a"] + frame["b"], frame["c"]
    frame["total"] = frame["N"] + frame["S"]
    return forecasts_of(frame)


@pytest.fixture(scope="module")
def reconciled(base):
    return bk.reconcile(base, GROUPS, "mint")


@pytest.mark.parametrize("method", RECONCILIATION_METHODS)
def test_draws_add_up(base, method):
    r = bk.reconcile(base, GROUPS, method, draws=200)
    assert [*r] == ["total", "N", "S", "a", "b", "c"] and len(r) == 6
    assert all(series.draws.shape == (200, HORIZON) for series in r.values())
    for whole, *parts in (["N", "a", "b"], ["S", "c"], ["total", "N", "S"]):
        total = sum(r[part].draws for part in parts)
        np.testing.assert_allclose(r[whole].draws, total, rtol=0.0, atol=1e-10)


def test_bottom_up_keeps_the_bottom_forecasts(base):
    r = bk.reconcile(base, GROUPS, "bottom-up")
    for name in "abc":
        np.testing.assert_allclose(r[name].interval(0.8), base[name].interval(0.8), rtol=1e-3)
        np.testing.assert_allclose(r[name].mean, base[name].mean, rtol=1e-5)


def _known(errors):
    return errors[np.all(np.isfinite(errors), axis=1)]


def test_means_are_projected(base, reconciled):
    """MinT with the sds of the base forecasts and the correlation of the one-step errors."""
    fs = [base[name] for name in reconciled]
    R = shrunk_correlation(_known(past_errors(fs)[:, 0]))
    spreads, means = (np.array([getattr(f, x)[0] for f in fs]) for x in ("sd", "mean"))
    tree = reconciled.projector.hierarchy
    weights = bottom_weights("mint", tree, means, spreads, R)
    bottom = weights @ means
    expected = [*(tree.sums @ bottom), *bottom]
    found = [reconciled[name].mean[0] for name in reconciled]
    # The spread is half the 68 % interval: proportional to the sd, to the error of 2,000 draws.
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_correlated_stores_have_a_wider_sum(base):
    """Draws of stores with common shocks are dependent: sd of a sum above independence."""
    r = bk.reconcile(base, GROUPS, "bottom-up")
    independent = np.sqrt(sum(np.square(r[name].sd) for name in "abc"))
    assert np.all(r["total"].sd > 1.1 * independent)


def test_same_seed_same_draws(base, reconciled):
    again, other = (bk.reconcile(base, GROUPS, "mint", seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again["a"].draws, reconciled["a"].draws)
    assert not np.array_equal(other["a"].draws, reconciled["a"].draws)
    paths = {name: reconciled[name].sample(5, seed=3) for name in reconciled}
    np.testing.assert_allclose(paths["total"], paths["N"] + paths["S"], atol=1e-10)


def test_calendar_totals_add_up(base, reconciled):
    totals = {name: reconciled[name].totals("quarter", 0.8) for name in reconciled}
    means = {name: table["mean"] for name, table in totals.items()}
    np.testing.assert_allclose(means["total"], means["N"] + means["S"], rtol=1e-10)
    series = reconciled["total"]
    quarters = pd.PeriodIndex(pd.DatetimeIndex(series.times), freq="Q")
    last = totals["total"].index[-1]
    sums = series.draws[:, quarters == last].sum(axis=1)
    row = totals["total"].iloc[-1]
    assert row["upper_80"] == pytest.approx(np.quantile(sums, 0.9), rel=1e-12)


def test_sums_without_a_forecast_are_fitted(base, reconciled):
    bottom = {name: base[name] for name in "abc"}
    r = bk.reconcile(bottom, GROUPS, "mint", progress=False, **QUICK)
    assert "3 sums have been forecast here" in r.remarks[0]
    np.testing.assert_allclose(r["total"].draws, reconciled["total"].draws)
    np.testing.assert_allclose(r["total"].base.median, base["total"].median)


def test_parents_equal_groups(base, reconciled):
    parents = {"a": "N", "b": "N", "c": "S", "N": "total", "S": "total"}
    r = bk.reconcile(base, parents, "mint")
    np.testing.assert_allclose(r["a"].draws, reconciled["a"].draws)
    assert r.levels == {"level 1": ["total"], "level 2": ["N", "S"], "bottom": ["a", "b", "c"]}


def test_scores_of_base_forecasts_equal_those_of_their_quantiles(base, reconciled):
    scores = reconciled.scores
    assert [*scores.index] == ["total", "region", "store", "all series"]
    assert [*scores["series"]] == [1, 2, 3, 6]
    assert np.all(np.isfinite(scores)) and np.all(scores > 0.0)
    points = past_points([base[name] for name in reconciled], reconciled.coupling)
    assert len(points) > 20
    mean = np.mean([crps(point.draws, point.actual) for point in points], axis=0)
    np.testing.assert_allclose(scores["crps_base"]["all series"], mean.mean())
    # One series: the energy score is the CRPS.
    np.testing.assert_allclose(scores["energy"]["total"], scores["crps"]["total"], rtol=0.03)


def test_past_points_match_the_series(base, reconciled):
    """The last origin is one step before the end."""
    point = past_points([base[name] for name in reconciled], reconciled.coupling)[-1]
    np.testing.assert_allclose(point.actual, [base[name].series.values[-1] for name in reconciled])


def test_output(reconciled, tmp_path):
    frame = reconciled.to_frame(0.8)
    assert [*frame.columns[:3]] == ["level", "series", "time"] and len(frame) == 6 * HORIZON
    np.testing.assert_allclose(frame["median"][:HORIZON], reconciled["total"].median)
    written = pd.read_csv(reconciled.export(tmp_path / "out" / "r.csv", 0.8))
    np.testing.assert_allclose(written["median"], frame["median"], rtol=1e-9)
    single = reconciled["a"].to_frame([0.5, 0.9])
    assert {"lower_50", "upper_90"} <= {*single.columns} and len(single) == HORIZON
    assert "all series" in repr(reconciled) and "mint" in repr(reconciled)
    assert len(reconciled.plot().axes) == 6 and len(reconciled.plot(["a"]).axes) == 1
    assert reconciled["a"].plot().axes[0].get_legend() is not None


def test_nonnegative():
    frame = stores() - 38.0
    frame = frame.clip(lower=0.0)
    fs = forecasts_of(frame, model=bk.StructuralModel(log=False, lower=-np.inf, method="map"))
    free = bk.reconcile(fs, GROUPS, **QUICK)
    assert any("nonnegative=True" in remark for remark in free.remarks)
    r = bk.reconcile(fs, GROUPS, nonnegative=True, **QUICK)
    assert min(series.draws.min() for series in r.values()) == 0.0
    np.testing.assert_allclose(r["total"].draws, r["N"].draws + r["S"].draws, atol=1e-10)
    assert not any("nonnegative=True" in remark for remark in r.remarks)


def test_series_of_different_length_and_constant_series():
    frame = stores()
    frame["b"] = 5.0
    fs = forecasts_of(frame) | {"c": bk.forecast(frame["c"].iloc[20:], HORIZON, **QUICK)}
    r = bk.reconcile(fs, GROUPS, **QUICK)
    np.testing.assert_allclose(r["b"].draws, 5.0)
    assert len(r["total"].base.series.values) == N - 20
    np.testing.assert_allclose(r["N"].draws, r["a"].draws + 5.0, atol=1e-10)
    assert r.scores is not None


def test_short_series_are_independent_and_not_scored():
    r = bk.reconcile(forecasts_of(stores(count=6)), GROUPS, **QUICK)
    assert any("past error" in remark for remark in r.remarks)
    np.testing.assert_array_equal(r.coupling.one_step, np.eye(6))


# -- bad input -------------------------------------------------------------------------------------


def test_level_that_does_not_add_up_is_refused(base):
    frame = stores()
    total = frame.sum(axis=1)
    total.iloc[10] += 7.0
    wrong = base | {"total": bk.forecast(total, HORIZON, **QUICK)}
    with pytest.raises(ValueError, match="'total' differs .* 3 bottom series at 2015-11-01") as e:
        bk.reconcile(wrong, GROUPS)
    assert "a difference of 7" in str(e.value)
    assert len(bk.reconcile(wrong, GROUPS, tolerance=0.1)) == 6


def test_names_are_checked(base):
    bottom = {name: base[name] for name in "ab"}
    with pytest.raises(ValueError, match="'c'.* without a forecast"):
        bk.reconcile(bottom, GROUPS)
    with pytest.raises(ValueError, match="'x'.* not in the hierarchy"):
        bk.reconcile(base | {"x": base["a"]}, GROUPS)
    with pytest.raises(ValueError, match="cycle"):
        bk.reconcile(base, {"a": "N", "N": "a"})
    with pytest.raises(TypeError, match="'a' is a int"):
        bk.reconcile(base | {"a": 3}, GROUPS)
    r = bk.reconcile(base, GROUPS, draws=20)
    with pytest.raises(KeyError, match="Did you mean 'total'"):
        r["totl"]
    assert "total" in r and "totl" not in r


def test_different_times_are_refused(base):
    frame = stores()
    with pytest.raises(ValueError, match="same horizon"):
        bk.reconcile(base | {"a": bk.forecast(frame["a"], 3, **QUICK)}, GROUPS)
    with pytest.raises(ValueError, match="begins at 2019-01-01 and 'a' at 2018-12-01"):
        bk.reconcile(base | {"a": bk.forecast(frame["a"][:-1], HORIZON, **QUICK)}, GROUPS)
    daily = frame["a"].set_axis(pd.date_range("2015-01-01", periods=N, freq="D"))
    with pytest.raises(ValueError, match="same times"):
        bk.reconcile(base | {"a": bk.forecast(daily, HORIZON, **QUICK)}, GROUPS)
    uneven = daily.set_axis(daily.index + pd.to_timedelta(np.arange(N) ** 1.5, "h"))
    with pytest.raises(ValueError, match="needs regular times"):
        bk.reconcile(base | {"a": bk.forecast(uneven, HORIZON, **QUICK)}, GROUPS)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "mnt"}, "Did you mean 'mint'"),
        ({"draws": 2 * HORIZON}, "twice the horizon"),
        ({"draws": 0}, "draws must be"),
        ({"seed": -1}, "seed must be"),
        ({"tolerance": -1.0}, "tolerance must be"),
    ],
)
def test_wrong_options_are_refused(base, options, says):
    with pytest.raises(ValueError, match=says):
        bk.reconcile(base, GROUPS, **options)


# -- simulation ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_scores_are_no_worse_than_those_of_base_forecasts():
    """Values after the end of 40 simulated hierarchies, by level, within two standard errors."""
    scores = {level: [] for level in ("total", "region", "store")}
    for seed in range(40):
        frame = stores(seed, N + HORIZON)
        frame["N"], frame["S"] = frame["a"] + frame["b"], frame["c"]
        frame["total"] = frame["N"] + frame["S"]
        base = forecasts_of(frame.iloc[:N])
        r = bk.reconcile(base, GROUPS)
        for level, names in r.levels.items():
            pairs = []
            for name in names:
                y = frame[name].to_numpy()[N:]
                before = crps(base[name].quantile((np.arange(500) + 0.5) / 500), y)
                pairs.append((before.mean(), crps(r[name].draws, y).mean()))
            scores[level].append(np.mean(pairs, axis=0))
    for level, pairs in scores.items():
        before, after = np.transpose(pairs)
        error = np.std(after - before) / np.sqrt(len(pairs))
        assert np.mean(after - before) < 2.0 * error, level
        assert np.mean(after) < 1.02 * np.mean(before), level
