"""Missing values predicted: against a dense conditional distribution, and against hidden values."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern import cli
from bayeskern.kernels import Matern32

GAPS = [3, 4, 5, 12, 20]


@pytest.fixture(scope="module")
def fixed():
    """A fit with a fixed kernel, and its dense Gaussian conditional by hand."""
    rng, kernel = np.random.default_rng(1), Matern32(3.0, 0.7)
    y = 20.0 + np.cumsum(rng.normal(size=30))
    y[GAPS] = np.nan
    filled = bk.fill_gaps(y, 0.9, season=0, model=bk.StructuralModel(kernel=kernel, method="map"))
    scale, seen = filled.forecast.scale, np.isfinite(y)
    noise = float(filled.forecast.posterior.draws["noise"].ravel()[0])
    K = np.asarray(kernel(np.arange(30.0)))
    weights = np.linalg.solve(K[np.ix_(seen, seen)] + noise * np.eye(seen.sum()), K[seen][:, ~seen])
    mean = weights.T @ scale.forward(y[seen])
    covariance = K[np.ix_(~seen, ~seen)] - K[~seen][:, seen] @ weights + noise * np.eye(len(GAPS))
    return y, filled, scale, mean, covariance


@pytest.mark.slow
def test_a_dense_conditional_in_closed_form(fixed):
    y, filled, scale, mean, covariance = fixed
    np.testing.assert_array_equal(np.flatnonzero(filled.missing), GAPS)
    sd = np.sqrt(np.diag(covariance))
    for q in (0.05, 0.5, 0.95):
        expected = scale.back(mean + norm.ppf(q) * sd)
        np.testing.assert_allclose(filled.quantile(q)[GAPS], expected, rtol=1e-6)
    lower, upper = filled.interval
    np.testing.assert_allclose(lower[GAPS], filled.quantile(0.05)[GAPS], rtol=1e-12)
    for values in (filled.values, lower, upper):
        np.testing.assert_array_equal(values[~filled.missing], y[~filled.missing])


@pytest.mark.slow
def test_joint_draws(fixed):
    """Their covariance is that of the conditional, within five standard errors."""
    y, filled, scale, mean, covariance = fixed
    draws = filled.sample(4000, seed=2)
    np.testing.assert_array_equal(draws[:, ~filled.missing], np.tile(y[~filled.missing], (4000, 1)))
    z = scale.forward(draws[:, GAPS])
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.mean(z, axis=0), mean, atol=5.0 * sd.max() / np.sqrt(4000))
    errors = np.cov(z.T) - covariance
    assert np.abs(errors / np.outer(sd, sd)).max() < 5.0 * np.sqrt(2.0 / 4000)


@pytest.fixture(scope="module")
def airline():
    """The airline series with twelve hidden values, half of them in one block."""
    data = bk.datasets.load("airline")
    hidden = [20, 47, 61, 90, 101, 133, *range(70, 76)]
    values = np.array(data.values, float)
    values[hidden] = np.nan
    series = pd.Series(values, pd.DatetimeIndex(data.times), name="passengers")
    return series, np.array(data.values), hidden


def test_hidden_values_of_a_season(airline, tmp_path):
    series, truth, hidden = airline
    filled = bk.fill_gaps(series, trend="slope")
    errors = np.abs(filled.values[hidden] / truth[hidden] - 1.0)
    # A line between the neighbours misses the season.
    line = np.abs(series.interpolate().to_numpy()[hidden] / truth[hidden] - 1.0)
    assert errors.mean() < 0.5 * line.mean()
    lower, upper = filled.interval
    assert np.sum((truth < lower) | (truth > upper)) <= 3  # 0.6 of 12 by chance
    # Rows that are not there are the same gaps.
    absent = bk.fill_gaps(series.dropna(), trend="slope")
    np.testing.assert_allclose(absent.values, filled.values, rtol=1e-9)
    np.testing.assert_array_equal(absent.times, filled.times)
    table = filled.to_frame()
    assert list(table.columns) == ["value", "lower", "upper", "filled"] and table.filled.sum() == 12
    said = str(filled).splitlines()
    assert said[0] == "passengers: 12 missing values of passengers filled, 132 observed"
    assert max(map(len, said)) <= 100
    paths = filled.export(tmp_path)
    written = pd.read_csv(paths[0], index_col=0)
    np.testing.assert_allclose(written["value"], filled.values, rtol=1e-9)
    assert paths[1].read_bytes().startswith(b"\x89PNG")


def test_effects_at_missing_times():
    """An event on a day without a row moves its prediction, and a regressor needs a value there."""
    days, rng = pd.date_range("2024-01-01", periods=60), np.random.default_rng(0)
    fairs = days[[10, 20, 30, 40, 50]]
    y = pd.Series(10.0 + rng.normal(size=60), days, name="y")
    y[fairs] += 20.0
    absent = y.drop(fairs[2:3])
    options = {"trend": "drift", "season": 0, "model": bk.StructuralModel(log=False)}
    with_event = bk.fill_gaps(absent, events={"Fair": fairs}, **options)
    without = bk.fill_gaps(absent, **options)
    assert abs(with_event.values[30] - 30.0) < 3.0 < abs(without.values[30] - 30.0)
    lower, upper = with_event.interval
    assert lower[30] < y[fairs[2]] < upper[30]
    frame = pd.DataFrame({"y": y, "fair": y.index.isin(fairs)}, index=days)
    frame.loc[fairs[2], "y"] = np.nan
    series = bk.read_series(frame.astype(float), value="y")
    prices = frame[["fair"]].astype(float).reindex(days.append(days[-1:] + pd.Timedelta(days=1)))
    known = bk.fill_gaps(series, regressors=prices.fillna(0.0), **options)
    assert abs(known.values[30] - 30.0) < 3.0
    with pytest.raises(ValueError, match="fair has no value at 2024-01-31, where y is missing"):
        bk.fill_gaps(absent, regressors=prices.drop(fairs[2]).fillna(0.0), **options)


def test_series_without_gaps_and_constant_ones():
    full = bk.fill_gaps("nile", trend="drift")
    assert not full.missing.any() and str(full).startswith("nile: 0 missing values of flow filled")
    np.testing.assert_array_equal(full.sample(2), [full.values] * 2)
    constant = bk.fill_gaps([2.0, np.nan, 2.0, 2.0])
    np.testing.assert_array_equal(constant.values, 2.0)
    np.testing.assert_array_equal(constant.interval, 2.0)
    # On an irregular axis, rows with empty cells are missing.
    times = [0.0, 0.7, 1.9, 2.2, 4.0, 4.1, 7.3]
    irregular = bk.fill_gaps(bk.read_series([1.0, 2.0, np.nan, 3.0, 5.0, 4.0, 8.0], times=times))
    np.testing.assert_array_equal(np.flatnonzero(irregular.missing), [2])
    with pytest.raises(ValueError, match="level"):
        bk.fill_gaps("nile", 95)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["level", "season", "counts"])
def test_coverage_of_hidden_values(kind):
    """Of the hidden values of simulated series, the level lies inside."""
    inside, options = [], {"trend": "drift", "season": 0}
    for seed in range(16):
        rng = np.random.default_rng(seed)
        t = np.arange(96)
        y = 30.0 + np.cumsum(0.4 * rng.normal(size=96)) + rng.normal(size=96)
        if kind == "season":
            y += 4.0 * np.sin(2.0 * np.pi * t / 12.0)
            options = {"trend": "drift", "season": 12}
        if kind == "counts":
            y = rng.poisson(np.exp(1.5 + np.cumsum(0.05 * rng.normal(size=96)))).astype(float)
            options = {"trend": "drift", "season": 0, "likelihood": "poisson"}
        hidden = np.unique(np.r_[rng.choice(np.arange(1, 95), 10, replace=False), 40:46])
        gappy = y.copy()
        gappy[hidden] = np.nan
        filled = bk.fill_gaps(gappy, 0.8, **options)
        lower, upper = (end[hidden] for end in filled.interval)
        inside += ((lower <= y[hidden]) & (y[hidden] <= upper)).tolist()
    # Errors of neighbours go together: twice the standard error of independent ones, twice over.
    error = 2.0 * 2.0 * np.sqrt(0.8 * 0.2 / len(inside))
    # Whole numbers: both ends belong to the interval.
    assert 0.8 - error < np.mean(inside) < 0.8 + error + (0.1 if kind == "counts" else 0.0)


@pytest.mark.slow
def test_an_early_gap_of_a_long_series():
    """The fit reaches back to the first gap, or a remark says that it is not filled."""
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(size=700))
    truth = y[50]
    y[50] = np.nan
    filled = bk.fill_gaps(y, 0.99, trend="drift", season=0, model=bk.StructuralModel(log=False))
    (row,) = np.flatnonzero(filled.missing)
    lower, upper = filled.interval
    assert lower[row] < truth < upper[row] and len(filled.values) == 700
    short = bk.fill_gaps(y, trend="drift", season=0, model=bk.StructuralModel(log=False, last=100))
    assert not short.missing.any()
    assert "1 missing value before 600 not filled: outside the fit" in str(short)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.csv").write_text("day,y\n2024-01-01,2\n2024-01-02,2\n2024-01-04,2\n")
    with pytest.raises(SystemExit) as info:
        cli.main(["fill-gaps", "flow.csv"])
    out = capsys.readouterr().out
    assert info.value.code == 0 and out.startswith("flow: 1 missing value of y filled, 3 observed")
    written = pd.read_csv(tmp_path / "out" / "filled.csv", index_col=0)
    assert list(written.index) == [f"2024-01-0{d}" for d in (1, 2, 3, 4)]
    assert written["filled"].tolist() == [False, False, True, False]
