"""Rolling origins: every score worked out again by hand from the folds."""

import dataclasses
import io

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.special
import scipy.stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.evaluate.seasonal_naive import SeasonalNaive
from tests.forecast.examples import HORIZON, ONE_STRUCTURE, N, months, seasonal


def monthly(values):
    return pd.Series(values, months(len(values)), name="y")


@pytest.fixture(scope="module")
def result():
    return bk.backtest(monthly(seasonal()), HORIZON, cutoffs=2, progress=False, **ONE_STRUCTURE)


# -- the seasonal-naive forecast -------------------------------------------------------------------


def test_seasonal_naive_by_hand():
    values = np.array([1.0, 5.0, 2.0, 7.0, 4.0, 6.0])
    naive = SeasonalNaive.from_values(values, 5, 2)
    # Differences over two steps: 1, 2, 2, -1; the last two values are repeated.
    np.testing.assert_array_equal(naive.mean, [4, 6, 4, 6, 4])
    spread = np.sqrt((1 + 4 + 4 + 1) / 4)
    np.testing.assert_allclose(naive.sd, spread * np.sqrt([1, 1, 2, 2, 3]), rtol=1e-14)
    assert naive.in_sample_mae == (1 + 2 + 2 + 1) / 4
    normal = scipy.stats.norm(naive.mean, naive.sd)
    np.testing.assert_allclose(naive.quantile([0.1, 0.5]), normal.ppf([[0.1], [0.5]]), atol=1e-12)
    np.testing.assert_allclose(naive.log_density(values[:5]), normal.logpdf(values[:5]))


def test_plain_naive_by_hand():
    naive = SeasonalNaive.from_values(np.array([1.0, 5.0, 2.0]), 3, 1)
    np.testing.assert_array_equal(naive.mean, [2, 2, 2])
    np.testing.assert_allclose(naive.sd, np.sqrt((16 + 9) / 2) * np.sqrt([1, 2, 3]))


def test_seasonal_naive_with_gaps():
    values = np.array([1.0, 5.0, 2.0, 7.0, 4.0, np.nan])
    naive = SeasonalNaive.from_values(values, 3, 2)
    np.testing.assert_array_equal(naive.mean, [4, 7, 4])  # 7 stands in for what is missing
    np.testing.assert_allclose(naive.sd[0], np.sqrt((1 + 4 + 4) / 3))
    # Less than a season: no difference to learn from, so the spread is that of the values.
    short = SeasonalNaive.from_values(np.array([1.0, np.nan, np.nan, 4.0]), 2, 3)
    np.testing.assert_allclose(short.mean, [2.5, 2.5])
    short = SeasonalNaive.from_values(np.array([1.0, 2.0, 6.0]), 1, 3)
    np.testing.assert_allclose(short.sd, np.std([1, 2, 6]))


def test_seasonal_naive_without_spread():
    naive = SeasonalNaive.from_values(np.tile([1.0, 2.0], 4), 2, 2)
    np.testing.assert_array_equal(naive.log_density(np.array([1.0, 2.5])), [np.inf, -np.inf])


# -- the folds -------------------------------------------------------------------------------------


def test_folds(result):
    assert [fold.count for fold in result.folds] == [48, 54]
    values, index = seasonal(), pd.date_range("2015-01-01", periods=N, freq="MS")
    for fold in result.folds:
        later = slice(fold.count, fold.count + HORIZON)
        np.testing.assert_array_equal(fold.actual, values[later])
        np.testing.assert_array_equal(fold.times, index[later])
        np.testing.assert_array_equal(fold.forecast.times, index[later])
        np.testing.assert_array_equal(fold.naive.mean, values[fold.count - 12 :][:HORIZON])
        differences = values[12 : fold.count] - values[: fold.count - 12]
        np.testing.assert_allclose(fold.naive.sd, np.sqrt(np.mean(differences**2)))
    assert result.season == 12


def test_a_fold_is_a_forecast_from_earlier_values(result):
    alone = bk.forecast(monthly(seasonal()[:48]), HORIZON, **ONE_STRUCTURE)
    np.testing.assert_allclose(result.folds[0].forecast.median, alone.median, rtol=1e-12)
    np.testing.assert_allclose(result.folds[0].forecast.sd, alone.sd, rtol=1e-12)


def crps_of_t(z, degrees):
    """Of Student's t distribution at z: Jordan, Krueger and Lerch (2019), appendix A.2."""
    t, beta = scipy.stats.t(degrees), scipy.special.beta
    ratio = beta(0.5, degrees - 0.5) / beta(0.5, 0.5 * degrees) ** 2
    inside = 2.0 * t.pdf(z) * (degrees + z**2) - 2.0 * np.sqrt(degrees) * ratio
    return z * (2.0 * t.cdf(z) - 1.0) + inside / (degrees - 1.0)


def student(f):
    """Location, scale and degrees of freedom of a forecast of one structure at one point."""
    (part,), spread = f.parts, f.combination.errors(np.arange(f.horizon))
    x = f.series.calendar.positions(f.times)
    (mean,), (variance,) = part.fitted.density.moments(part.draws.z, x)
    sd = f.scale.size * np.sqrt(variance)
    return f.scale.shift + f.scale.size * mean, sd * spread.scales, spread.degrees


@pytest.mark.parametrize("name", ["forecast", "seasonal naive"])
def test_scores_by_hand(result, name):
    scores = result.scores[name]
    assert not any(fold.forecast.scale.log for fold in result.folds)
    y = np.concatenate([fold.actual for fold in result.folds])
    # One draw of the hyperparameters on the scale as given: each forecast is a Student t. That of
    # seasonal naive is normal.
    of_folds = [
        student(fold.forecast) if name == "forecast" else (fold.naive.mean, fold.naive.sd, np.inf)
        for fold in result.folds
    ]
    center, scale = (np.concatenate(parts) for parts in list(zip(*of_folds, strict=True))[:2])
    degrees = np.repeat([degrees for *_, degrees in of_folds], HORIZON)
    z, error = (y - center) / scale, scipy.stats.t(degrees)
    if name == "forecast":
        crps = scale * crps_of_t(z, degrees)
    else:
        crps = z * (2.0 * error.cdf(z) - 1.0) + 2.0 * error.pdf(z) - 1.0 / np.sqrt(np.pi)
        crps = scale * crps
    np.testing.assert_allclose(scores["mae"], np.mean(np.abs(y - center)), rtol=1e-9)
    np.testing.assert_allclose(scores["rmse"], np.sqrt(np.mean((y - center) ** 2)), rtol=1e-9)
    np.testing.assert_allclose(scores["crps"], np.mean(crps), rtol=1e-3)
    log_score = np.mean(error.logpdf(z) - np.log(scale))
    np.testing.assert_allclose(scores["log_score"], log_score, rtol=1e-9)
    for level in (0.5, 0.8, 0.95):
        inside = np.mean(np.abs(error.cdf(z) - 0.5) <= 0.5 * level)
        assert scores[f"coverage_{100 * level:g}"] == pytest.approx(inside)
    values, scaled = seasonal(), []
    for fold, (medians, *_) in zip(result.folds, of_folds, strict=True):
        past = values[: fold.count]
        scaled.append(np.abs(fold.actual - medians) / np.mean(np.abs(past[12:] - past[:-12])))
    np.testing.assert_allclose(scores["mase"], np.mean(scaled), rtol=1e-9)


def test_scores_of_perfect_and_distant_forecasts(result):
    """Scores follow what came true, not what was forecast."""
    perfect, hopeless = (
        dataclasses.replace(
            result,
            folds=tuple(
                dataclasses.replace(f, actual=f.forecast.median + shift) for f in result.folds
            ),
        ).scores["forecast"]
        for shift in (0.0, 100.0)
    )
    assert perfect["mae"] == perfect["mase"] == 0 and perfect["coverage_50"] == 1
    assert hopeless["mae"] == pytest.approx(100) and hopeless["coverage_95"] == 0
    # Far away the CRPS is the distance less half the mean distance of two draws.
    draws = np.stack([f.forecast.sample(20_000, seed=s) for f in result.folds for s in (0, 1)])
    apart = np.mean(np.abs(draws[::2] - draws[1::2]))
    assert hopeless["crps"] == pytest.approx(100 - 0.5 * apart, rel=1e-3)


# -- cutoffs ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dates_as_cutoffs(result):
    values = monthly(seasonal())
    other = bk.backtest(values, HORIZON, cutoffs=["2019-06-15", "2018-12-01"], **ONE_STRUCTURE)
    assert [fold.count for fold in other.folds] == [48, 54]
    assert other.scores == result.scores
    one = bk.backtest(values, HORIZON, cutoffs="2019-09-01")
    assert [fold.count for fold in one.folds] == [57]
    np.testing.assert_array_equal(one.folds[0].actual, seasonal()[57:])  # three of six
    assert "1 forecasts of 6 steps, 3 values" in repr(one)


def test_numbers_as_times():
    """Times that add up with rounding errors still meet their forecasts."""
    times = 0.1 * np.arange(N)
    result = bk.backtest(
        bk.read_series(seasonal(), times=times), HORIZON, cutoffs=[times[53]], season=12
    )
    assert len(result.folds[0].actual) == HORIZON
    assert result.season == 12


def test_gaps():
    """Missing rows and missing values count as steps, not as rows."""
    values = monthly(seasonal())
    values.iloc[56] = np.nan
    lost = [20, 21, 50, 58]
    result = bk.backtest(values.drop(values.index[lost]), HORIZON, cutoffs=2)
    first, second = result.folds
    # Steps 0-47 and 0-53, less the rows that are not there.
    assert (first.count, second.count) == (46, 51)
    np.testing.assert_array_equal(first.times, values.index[[48, 49, 51, 52, 53]])
    np.testing.assert_array_equal(second.times, values.index[[54, 55, 57, 59]])
    np.testing.assert_array_equal(second.pick, [0, 1, 3, 5])
    np.testing.assert_array_equal(second.actual, seasonal()[[54, 55, 57, 59]])
    past = seasonal()[:54].copy()
    past[[20, 21, 50]] = np.nan
    differences = past[12:] - past[:-12]
    assert second.naive.in_sample_mae == pytest.approx(np.nanmean(np.abs(differences)))
    errors = [np.abs(f.actual - f.forecast.median[f.pick]) for f in result.folds]
    assert result.scores["forecast"]["mae"] == pytest.approx(np.mean(np.concatenate(errors)))
    scaled = [e / f.naive.in_sample_mae for e, f in zip(errors, result.folds, strict=True)]
    assert result.scores["forecast"]["mase"] == pytest.approx(np.mean(np.concatenate(scaled)))


@pytest.mark.slow
def test_business_days_in_a_zone():
    """Midnight in Tokyo is the day before in UTC: Mondays must not become Sundays."""
    index = pd.bdate_range("2024-01-01", periods=N, tz="Asia/Tokyo")
    result = bk.backtest(pd.Series(seasonal(), index), HORIZON, cutoffs=1)
    assert result.season == 5 and len(result.folds[0].actual) == HORIZON
    np.testing.assert_array_equal(result.folds[0].naive.mean, seasonal()[[49, 50, 51, 52, 53, 49]])


@pytest.mark.slow
def test_a_season_longer_than_the_past():
    result = bk.backtest(monthly(seasonal()), HORIZON, cutoffs=["2018-06-01"], season=50)
    assert np.all(np.isfinite(list(result.scores["seasonal naive"].values())))


def test_an_impossible_value_has_log_score_minus_infinity():
    values = np.exp(seasonal())
    values[-1] = 0.0
    result = bk.backtest(monthly(values), HORIZON, cutoffs=1, model=bk.StructuralModel(log=True))
    assert result.folds[0].forecast.scale.log
    assert result.scores["forecast"]["log_score"] == -np.inf
    assert np.isfinite(result.scores["forecast"]["crps"])


def test_scores_after_a_constant_past():
    values = np.append(np.full(20, 3.0), [3.0, 3.0, 4.0])
    result = bk.backtest(values, 3, cutoffs=1)
    for scores in result.scores.values():
        assert scores["mae"] == pytest.approx(1 / 3) and scores["log_score"] == -np.inf
        assert scores["crps"] == pytest.approx(1 / 3)
        assert scores["coverage_95"] == pytest.approx(2 / 3)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("series", "horizon", "cutoffs", "message"),
    [
        (monthly(seasonal()), HORIZON, 10, "a cutoff leaves"),
        (monthly(seasonal()), HORIZON, ["2014-01-01"], "a cutoff leaves"),
        (monthly(seasonal()), HORIZON, ["2019-12-01"], "cutoff after 2019-12-01"),
        (monthly(seasonal()), HORIZON, 0, "cutoffs"),
        (monthly(seasonal()), HORIZON, True, "cutoffs"),
        (monthly(seasonal()), HORIZON, [], "cutoffs is empty"),
        (monthly(seasonal()), HORIZON, [1950], "cutoffs must be dates"),
        ("nile", HORIZON, ["1950-01-01"], "cutoffs must be numbers"),
        (monthly(seasonal()), 0, 3, "horizon must be"),
        (monthly(seasonal()), 10**30, ["2018-12-01"], "horizon can be at most 100000 steps"),
    ],
)
def test_bad_backtests(series, horizon, cutoffs, message):
    with pytest.raises(ValueError, match=message):
        bk.backtest(series, horizon, cutoffs)


def test_a_cutoff_before_a_gap_has_no_value_to_score():
    gap = np.append(np.arange(40), [60, 61])
    with pytest.raises(ValueError, match="cutoff after 39 leaves no value"):
        bk.backtest(bk.read_series(np.arange(42.0), times=gap), HORIZON, [45])


def test_irregular_times_are_refused():
    times = np.cumsum([1.0, 2.5, 0.3, 4.1, 1.7, 2.2, 0.9])
    with pytest.raises(ValueError, match="regular times"):
        bk.backtest(bk.read_series(np.arange(7.0), times=times), 1)


# -- out -------------------------------------------------------------------------------------------


def test_frame_csv_and_text(result, tmp_path):
    frame = result.to_frame()
    assert list(frame.index) == ["forecast", "seasonal naive"]
    assert list(frame.columns) == [
        "mae", "rmse", "mase", "crps", "log_score", "coverage_50", "coverage_80", "coverage_95",
    ]  # fmt: skip
    assert frame.loc["forecast", "crps"] == result.scores["forecast"]["crps"]
    back = pd.read_csv(io.StringIO(result.to_csv()), index_col="model")
    pd.testing.assert_frame_equal(back, frame, rtol=1e-9, check_names=False, check_dtype=False)
    lines = repr(result).splitlines()
    assert lines[0] == "y: 2 forecasts of 6 steps, 12 values"
    assert max(map(len, lines)) <= 100 and len({len(line) for line in lines[2:]}) == 1
    assert lines[3].split()[1] == f"{frame.loc['forecast', 'mae']:.4g}"
    paths = result.export(tmp_path / "new")
    assert [path.name for path in paths] == ["backtest.csv", "backtest.png"]
    assert paths[0].read_text() == result.to_csv() and paths[1].stat().st_size > 10_000


def test_a_better_naive_forecast_is_remarked_on(result):
    assert result.remarks == ()
    as_naive = [dataclasses.replace(f, actual=f.naive.mean[f.pick]) for f in result.folds]
    (remark,) = dataclasses.replace(result, folds=tuple(as_naive)).remarks
    assert remark.startswith("seasonal naive has the smaller mean absolute error (0 against 0.")


@pytest.mark.slow
def test_fits_that_did_not_converge_are_remarked_on(result):
    assert result.remarks == ()
    # One step of the optimiser is too few for five hyperparameters; every fold must own up to it.
    wide = dist.LogNormal(0.0, 1.0)
    kernel = kernels.Periodic(wide, wide, wide) + kernels.RBF(wide, wide)
    method = bk.MAP(starts=1, jacobian=True, steps=1)
    hasty = bk.backtest(
        seasonal(), 6, 2, season=12, model=bk.StructuralModel(kernel=kernel, method=method)
    )
    assert hasty.remarks[0] == "2 of 2 fits failed"
    assert "2 of 2 fits failed" in repr(hasty)
