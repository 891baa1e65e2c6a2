"""Forecasts: against NumPy's Gaussian process, simulation, pandas' dates and fits made by hand."""

import importlib
import io

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.integrate
import scipy.stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.model import default_kernel, default_noise
from bayeskern.forecast.volatility import volatility_factors
from bayeskern.inference import MAP
from tests.marks import few, slow

# One length, one horizon and so one compiled function for each kind of model.
N, HORIZON, DRAWS = 60, 6, 40_000
# One Gaussian process at one point, which can be worked out by hand.
ONE_STRUCTURE = {"season": 12, "trend": "smooth", "method": "map"}


def seasonal(seed=0, count=N, period=12, noise=0.3):
    """A slow rise, a season and noise, about zero."""
    t = np.arange(count)
    rng = np.random.default_rng(seed)
    return 0.03 * t + np.sin(2 * np.pi * t / period) + noise * rng.standard_normal(count)


def months(count=N):
    return pd.date_range("2015-01-01", periods=count, freq="MS")


@pytest.fixture(scope="module")
def raw():
    """A series with values below zero: as given is the only scale."""
    series = pd.Series(seasonal(), months(), name="y").rename_axis("month")
    return bk.forecast(series, HORIZON, **ONE_STRUCTURE)


@pytest.fixture(scope="module")
def log():
    """Growth and a season in proportion to the level."""
    values = pd.Series(np.exp(2 + seasonal()), months(), name="sales")
    return bk.forecast(values, HORIZON, positive=True, **ONE_STRUCTURE)


@pytest.fixture(scope="module", params=few(["raw", "log"], "log"))
def either(request):
    return request.getfixturevalue(request.param)


# -- the fit ---------------------------------------------------------------------------------------


def years(f):
    """Months since the first, in years, worked out by pandas: of the data and of the future."""
    past = months(N + HORIZON)
    t = ((past.year - past[0].year) * 12 + past.month - past[0].month).to_numpy() / 12
    return t[:N], t[N:]


@pytest.mark.slow
def test_numpy_predicts_the_same(either):
    """Rasmussen and Williams, algorithm 2.1, on the rows as they are: padding changes nothing."""
    f = either
    t, new = years(f)
    y = np.log(f.series.values) if f.scale.log else f.series.values
    z = scipy.stats.zscore(y)
    values = {name: v[0] for name, v in f.posterior.flat.items()}
    noise = values.pop("noise")
    kernel = f.model.kernel.at(values)
    K, cross = np.asarray(kernel(t)) + noise * np.eye(N), np.asarray(kernel(t, new))
    mean = cross.T @ np.linalg.solve(K, z)
    variance = np.asarray(kernel.diag(new)) + noise
    variance -= np.sum(cross * np.linalg.solve(K, cross), axis=0)
    back = np.exp if f.scale.log else np.asarray
    median = back(y.mean() + y.std() * mean)
    np.testing.assert_allclose(f.median, median, rtol=1e-7)
    factors, weights = volatility_factors(N)
    edges = np.log(f.interval(0.8)) if f.scale.log else f.interval(0.8)
    standard = ((edges - y.mean()) / y.std() - mean) / np.sqrt(variance)
    below = scipy.stats.norm.cdf(standard[..., None] / factors) @ weights
    np.testing.assert_allclose(below, np.full((2, len(new)), [[0.1], [0.9]]), rtol=1e-5)

    # The density that was climbed, too: padded and masked against SciPy's normal distribution.
    X, target, mask = f.posterior.target.args
    assert X.shape[0] == 64 and int(mask.sum()) == N
    padded = bk.GaussianProcess(kernel, X, noise, mask=mask).log_prob(target)
    by_scipy = scipy.stats.multivariate_normal.logpdf(z, np.zeros(N), K)
    np.testing.assert_allclose(padded, by_scipy, rtol=1e-9)


def by_hand(values, log):
    """log density of y at the optimum of a fit without padding, with the Jacobian of the scale."""
    y = np.log(values) if log else values
    t = np.arange(N) / 12
    model = bk.GPRegression(default_kernel({"season": 1.0}, 1.0, t.mean()), default_noise())
    fit = bk.infer(model, t, scipy.stats.zscore(y), method=MAP(starts=1, jacobian=True))
    assert fit.optimum.gradient_norm < 1e-4
    jacobian = -N * np.log(y.std()) - (np.log(values).sum() if log else 0.0)
    return fit.optimum.log_density + jacobian, fit


def skewed(seed, size):
    return np.exp(size * np.random.default_rng(seed).standard_normal(N))


# name: values, whether the logarithm is likelier, whether the Jacobian turns the order round
SCALES = {
    "a season about a level": (4 + seasonal(), False, False),
    "a season in proportion": (np.exp(2 + seasonal()), True, False),
    "noise with a tail above": (skewed(0, 1.0), True, True),
    "noise with a tail below": (10 - skewed(2, 0.5), False, True),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "log", "turned"),
    [slow(*case) if name == "noise with a tail above" else case for name, case in SCALES.items()],
    ids=SCALES,
)
def test_the_scale_is_the_likelier_one(values, log, turned):
    assert (values > 0).all()
    (as_given, given_fit), (logarithm, log_fit) = (by_hand(values, log) for log in (False, True))
    assert (logarithm > as_given) == log
    without = log_fit.optimum.log_density > given_fit.optimum.log_density
    assert (without != log) == turned
    series = pd.Series(values, months())
    f = bk.forecast(series, HORIZON, **ONE_STRUCTURE)
    assert f.scale.log == log
    expected = log_fit if log else given_fit
    np.testing.assert_allclose(
        f.posterior.optimum.log_density, expected.optimum.log_density, atol=1e-6
    )


@pytest.mark.slow
def test_the_optimum_is_sound(either):
    assert either.posterior.optimum.gradient_norm < 1e-4
    assert either.posterior.optimum.eigenvalues[0] > 0
    assert either.posterior.trust.verdict == "not assessable"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["airline", "nile", "co2", "sunspots"])
def test_data_sets_converge(name):
    f = bk.forecast(name, HORIZON)
    assert f.posterior.optimum.converged
    assert f.trust.verdict in ("good", "caution")
    sound(f)


def sound(f, level=0.95):
    lower, upper = f.interval(level)
    inner = f.interval(0.5)
    assert f.median.shape == (f.horizon,) and len(f.times) == f.horizon
    assert np.all(np.isfinite([lower, upper, f.mean, f.sd])) and np.all(f.sd > 0)
    assert np.all((lower < inner[0]) & (inner[0] < f.median))
    assert np.all((f.median < inner[1]) & (inner[1] < upper))


# -- the numbers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def draws(either):
    return either.sample(DRAWS, seed=3)


@pytest.mark.slow
def test_quantiles_are_those_of_the_draws(either, draws):
    """The share of draws below a quantile p is p, up to its binomial error."""
    p = np.array([0.025, 0.1, 0.5, 0.8, 0.975])
    q = either.quantile(p)
    assert q.shape == (5, HORIZON)
    error = np.sqrt(p * (1 - p) / DRAWS)
    share = np.mean(draws[:, None] < q, axis=0)
    assert np.all(np.abs(share - p[:, None]) < 4.5 * error[:, None])
    np.testing.assert_allclose(either.interval(0.95), q[[0, -1]], rtol=1e-12)
    np.testing.assert_allclose(either.median, q[2], rtol=1e-12)
    np.testing.assert_allclose(either.quantile(0.1), q[1], rtol=1e-12)


def test_mean_and_sd_are_those_of_the_draws(either, draws):
    centred = draws - draws.mean(axis=0)
    sd = draws.std(axis=0)
    kurtosis = np.mean(centred**4, axis=0) / sd**4
    assert np.all(np.abs(either.mean - draws.mean(axis=0)) < 4.5 * sd / np.sqrt(DRAWS))
    assert np.all(np.abs(either.sd / sd - 1) < 4.5 * np.sqrt((kurtosis - 1) / (4 * DRAWS)))


def test_mean_and_sd_on_the_log_scale_are_the_lognormals(log):
    """One draw of the hyperparameters: log y is normal, but for its volatility."""
    part = log.parts[0]
    (mean,), (variance,) = part.fitted.evidence.moments(part.draws.z, years(log)[1])
    factors, weights = volatility_factors(N)
    sds = log.scale.size * np.sqrt(variance) * factors[:, None]
    exact = scipy.stats.lognorm(s=sds, scale=np.exp(log.scale.shift + log.scale.size * mean))
    np.testing.assert_allclose(log.mean, weights @ exact.mean(), rtol=1e-9)
    square = weights @ (exact.var() + exact.mean() ** 2)
    np.testing.assert_allclose(log.sd, np.sqrt(square - log.mean**2), rtol=1e-9)
    assert np.all(log.mean > log.median)


def test_draws_are_of_whole_paths(raw, draws):
    """Neighbours in a path are as correlated as NumPy's posterior covariance says."""
    values = {name: v[0] for name, v in raw.posterior.flat.items()}
    noise = values.pop("noise")
    kernel, (t, new) = raw.model.kernel.at(values), years(raw)
    cross = np.asarray(kernel(t, new))
    K = np.asarray(kernel(t)) + noise * np.eye(N)
    joint = np.asarray(kernel(new)) + noise * np.eye(HORIZON) - cross.T @ np.linalg.solve(K, cross)
    sd = np.sqrt(np.diag(joint))
    expected, correlations = joint / np.outer(sd, sd), np.corrcoef(raw.sample(DRAWS, seed=4).T)
    assert np.max(np.abs(expected - np.eye(HORIZON))) > 0.05
    assert np.all(np.abs(correlations - expected) < 5 / np.sqrt(DRAWS))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(either):
    np.testing.assert_array_equal(either.sample(5, seed=1), either.sample(5, seed=1))
    assert not np.array_equal(either.sample(5, seed=1), either.sample(5, seed=2))
    one, other = (bk.forecast(either.series.values, HORIZON, seed=7) for _ in range(2))
    np.testing.assert_array_equal(one.median, other.median)


@pytest.mark.slow
def test_the_density_integrates_to_one(either):
    outside = 1e-6
    low, high = either.quantile([outside, 1 - outside])
    unit = np.linspace(0, 1, 2001)
    grid = low + unit[:, None] * (high - low)
    density = np.exp([either.log_density(y) for y in grid])
    total = scipy.integrate.simpson(density, x=grid, axis=0)
    np.testing.assert_allclose(total, 1 - 2 * outside, rtol=1e-4)
    lower, upper = either.interval(0.8)
    within = lower + unit[:, None] * (upper - lower)
    density = np.exp([either.log_density(y) for y in within])
    np.testing.assert_allclose(scipy.integrate.simpson(density, x=within, axis=0), 0.8, rtol=1e-6)


def test_positive_means_positive(log):
    assert log.scale.log
    assert np.all(log.sample(2000, seed=0) > 0) and np.all(log.quantile(1e-12) > 0)
    possible = log.log_density(log.median)
    y = log.median.copy()
    y[:2] = 0.0, -1.0
    densities = log.log_density(y)
    np.testing.assert_array_equal(densities[:2], -np.inf)
    np.testing.assert_array_equal(densities[2:], possible[2:])


def test_positive_needs_positive_values():
    values = np.exp(seasonal())
    values[7] = 0.0
    with pytest.raises(ValueError, match="above zero, but that at 2015-08-01 is 0"):
        bk.forecast(pd.Series(values, months()), HORIZON, positive=True)


# -- gaps ------------------------------------------------------------------------------------------


def test_missing_values_are_rows_that_are_not_there(raw):
    lost = [0, 7, 8, 30, 31, 32]
    values = raw.series.values.copy()
    values[lost] = np.nan
    as_nan = bk.forecast(pd.Series(values, months()), HORIZON)
    # The first row stays, so that time begins at the same month.
    dropped = bk.forecast(pd.Series(values, months()).drop(months()[lost[1:]]), HORIZON)
    np.testing.assert_allclose(as_nan.median, dropped.median, rtol=1e-9)
    np.testing.assert_allclose(as_nan.sd, dropped.sd, rtol=1e-9)
    assert as_nan.remarks == ("6 missing values left out of the fit",)
    assert dropped.remarks == ("1 missing value left out of the fit", "2 gaps in the time axis")
    # And different values in the rows that are left out would have made a difference.
    assert not np.allclose(as_nan.median, raw.median, rtol=1e-6)


def test_missing_rows_at_the_end_are_forecast(raw):
    values = np.append(raw.series.values, [np.nan] * 3)
    f = bk.forecast(pd.Series(values, months(N + 3)), HORIZON, **ONE_STRUCTURE)
    np.testing.assert_array_equal(f.times, raw.times)
    np.testing.assert_array_equal(f.median, raw.median)
    assert f.remarks == ("3 rows at the end have no value: forecast too",)


# -- time axes -------------------------------------------------------------------------------------

AXES = {
    "weekly": ("W-MON", 13, "weekly, on Mondays", {}),
    "hourly": ("h", 24, "hourly", {"season": 24}),
    "quarterly": ("QS", 4, "quarterly, at quarter start", {"season": 4}),
    "quarter ends": ("QE", 4, "quarterly, at quarter end", {"season": 4}),
    "yearly": ("YS", 11, "yearly", {}),
    "business days": ("B", 5, "business days", {"season": 5}),
    "daily": ("D", 7, "daily", {"season": 7}),
    "month ends": ("ME", 12, "monthly, at month end", {"season": 12}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("freq", "period", "text", "steps"),
    [case if name == "weekly" else slow(*case) for name, case in AXES.items()],
    ids=AXES,
)
def test_every_kind_of_time_axis(freq, period, text, steps):
    index = pd.date_range("2019-03-04", periods=N + HORIZON, freq=freq)
    f = bk.forecast(pd.Series(seasonal(2, period=period), index[:N]), HORIZON)
    assert f.series.calendar.description == text
    np.testing.assert_array_equal(f.times, index[N:])
    in_steps = {name: length / f.series.calendar.step for name, length in f.seasons.items()}
    assert in_steps == pytest.approx(steps)
    sound(f)
    assert f.to_frame().index.equals(pd.DatetimeIndex(index[N:], freq=None).as_unit("s"))


@pytest.mark.slow
def test_integer_years():
    f = bk.forecast(seasonal(period=11), HORIZON, times=np.arange(1950, 1950 + N))
    np.testing.assert_array_equal(f.times, np.arange(1950 + N, 1950 + N + HORIZON))
    assert f.seasons == {} and f.components == ("trend", "cycles")
    assert f.to_frame().index.dtype.kind == "i"
    assert f.to_csv().splitlines()[1].split(",")[0] == "2010"
    sound(f)


@pytest.mark.slow
def test_irregular_times():
    rng = np.random.default_rng(5)
    days = np.cumsum(rng.choice([2, 3, 3, 5, 8], N))
    dates = np.datetime64("2020-01-01") + days
    f = bk.forecast(seasonal(3), HORIZON, times=dates, season=0)
    step = int(np.median(np.diff(days)))
    np.testing.assert_array_equal(f.times, dates[-1] + step * np.arange(1, HORIZON + 1))
    assert f.remarks == (f"irregular times: future points every {step} days (the median spacing)",)
    sound(f)
    numbers = np.cumsum(rng.uniform(0.1, 2.0, N))
    g = bk.forecast(seasonal(3), HORIZON, times=numbers)
    gap = np.median(np.diff(numbers))
    np.testing.assert_allclose(g.times, numbers[-1] + gap * np.arange(1, HORIZON + 1))
    assert g.remarks == (f"irregular times: future points every {gap:.6g} (the median spacing)",)
    sound(g)


@pytest.mark.slow
def test_seasons_of_ones_own():
    values = pd.Series(seasonal(period=12, noise=0.1), months())
    none = bk.forecast(values, HORIZON, season=0)
    assert none.seasons == {} and none.components == ("trend", "cycles")
    sound(none)
    other = bk.forecast(values, HORIZON, season=6)
    assert other.seasons == pytest.approx({"season": 0.5})
    # What is there is explained best by the season that is there.
    right = bk.forecast(values, HORIZON, season=12)
    evidence = [f.posterior.optimum.log_density for f in (none, other, right)]
    assert evidence[2] > max(evidence[:2]) + 2


@pytest.mark.slow
def test_two_seasons():
    """Three years of days, of which stretches of four weeks a quarter were kept."""
    day = np.arange(1100)
    kept = (day % 91 < 21) | (day >= 1086)
    truth = 2 * np.sin(2 * np.pi * day / 7) + 3 * np.cos(2 * np.pi * day / 365.25)
    rng = np.random.default_rng(0)
    values = truth + 0.2 * rng.standard_normal(1100)
    dates = np.datetime64("2020-01-01") + day
    past = kept & (day < 1094)
    f = bk.forecast(values[past], HORIZON, [7, 365.25], times=dates[past])
    assert f.components == ("trend", "season_7", "season_365_25", "cycles")
    np.testing.assert_array_equal(f.times, dates[1094:])
    sound(f)
    assert np.max(np.abs(f.median - truth[1094:])) < 0.5  # of a range of 10
    parts = f.decompose(dates)
    week, year = (parts[name]["median"] for name in ("season_7", "season_365_25"))
    # Each is its own sine but for a constant (the average over the days that were kept).
    assert np.std(week - 2 * np.sin(2 * np.pi * day / 7)) < 0.1
    assert np.std(year - 3 * np.cos(2 * np.pi * day / 365.25)) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, slow(4)])
def test_very_short(count):
    f = bk.forecast([1.0, 2.0, 4.0, 3.0][:count], 2)
    sound(f)
    # Three values say little: the interval is wider than their range.
    lower, upper = f.interval(0.95)
    assert np.all(upper - lower > np.ptp(f.series.values))


@pytest.mark.slow
def test_a_kernel_of_ones_own():
    """Nothing to learn but the noise: the optimum is that of a line search in SciPy."""
    t, z = np.arange(N), scipy.stats.zscore(seasonal())
    kernel = kernels.RBF(lengthscale=3.0).named("slow") + kernels.Periodic(12.0).named("year")
    f = bk.forecast(seasonal(), HORIZON, kernel=kernel, method="map")
    K = np.asarray(kernel(t))

    def loss(u):  # u = log noise; the prior of exp(u) with its Jacobian is Normal(-1.5, 1) in u
        C = K + np.exp(u) * np.eye(N)
        return -scipy.stats.multivariate_normal.logpdf(z, np.zeros(N), C) - scipy.stats.norm.logpdf(
            u, -1.5, 1
        )

    best = scipy.optimize.minimize_scalar(loss, (-4, 0))
    np.testing.assert_allclose(f.posterior.flat["noise"], np.exp(best.x), rtol=1e-5)
    np.testing.assert_allclose(f.posterior.optimum.log_density, -best.fun, rtol=1e-8)
    assert f.components == ("trend", "slow", "year")
    parts = f.decompose()
    np.testing.assert_allclose(sum(p["median"] for p in parts.values()), f.median, rtol=1e-9)


# -- constant series -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5.0, 0.0, -2.5])
def test_a_constant_series(tmp_path, value):
    f = bk.forecast(pd.Series(np.full(12, value), months(12), name="flat"), HORIZON)
    for path in (f.median, f.mean, *f.interval(0.8), f.quantile(0.01), *f.sample(3)):
        np.testing.assert_array_equal(path, np.full(HORIZON, value))
    np.testing.assert_array_equal(f.sd, 0)
    assert f.remarks == (
        "the series is constant: the forecast is flat and its interval has no width",
    )
    assert f.trust.verdict == "not assessable" and "constant" in f.trust.advice
    y = np.full(HORIZON, value)
    y[0] += 1
    np.testing.assert_array_equal(f.log_density(y), [-np.inf] + [np.inf] * (HORIZON - 1))
    assert np.all(f.to_frame()["upper_95"] == value)
    assert "constant" in repr(f) and f.components == ()
    assert [path.name for path in f.save(tmp_path)] == ["forecast.csv", "forecast.png"]
    with pytest.raises(ValueError, match="constant series has no components"):
        f.decompose()


@pytest.mark.slow
def test_small_values_are_not_constant():
    f = bk.forecast(1e-15 * seasonal(), HORIZON, **ONE_STRUCTURE)
    sound(f)
    g = bk.forecast(seasonal(), HORIZON, **ONE_STRUCTURE)
    np.testing.assert_allclose(f.median, 1e-15 * g.median, rtol=1e-6)
    assert "e-1" in bk.summary(f)  # and they are written so that they can be read


# -- components ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_components_make_up_the_median(either):
    parts = either.decompose()
    assert list(parts) == list(either.components) == ["trend", "season", "cycles"]
    medians = [part["median"] for part in parts.values()]
    whole = np.prod(medians, axis=0) if either.scale.log else np.sum(medians, axis=0)
    np.testing.assert_allclose(whole, either.median, rtol=1e-8)
    for part in parts.values():
        assert np.all((part["lower"] < part["median"]) & (part["median"] < part["upper"]))


@pytest.mark.slow
def test_components_average_to_nothing(either):
    parts = either.decompose(either.series.times)
    for name in ("season", "cycles"):
        part = parts[name]["median"]
        if either.scale.log:
            np.testing.assert_allclose(np.exp(np.mean(np.log(part))), 1, rtol=1e-8)
        else:
            np.testing.assert_allclose(np.mean(part), 0, atol=1e-8)
        assert np.std(part) > 1e-3
    level = np.mean(np.log(parts["trend"]["median"]) if either.scale.log else
                    parts["trend"]["median"])  # fmt: skip
    y = np.log(either.series.values) if either.scale.log else either.series.values
    # The trend carries the level: its average is that of the data, up to what noise averages to.
    assert abs(level - y.mean()) < 0.02 * y.std()


def test_one_component(raw):
    season = raw.component("season", level=0.5)
    wide = raw.component("season", level=0.95)
    ratio = (wide["upper"] - wide["lower"]) / (season["upper"] - season["lower"])
    expected = scipy.stats.norm.ppf(0.975) / scipy.stats.norm.ppf(0.75)
    np.testing.assert_allclose(ratio, expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"component='seasn' is not known.*Did you mean 'season'"):
        raw.component("seasn")


# -- out -------------------------------------------------------------------------------------------


def test_csv_and_frame_agree(either):
    frame = either.to_frame([0.8, 0.999])
    assert list(frame.columns) == [
        "median", "mean", "sd", "lower_80", "upper_80", "lower_99_9", "upper_99_9",
    ]  # fmt: skip
    assert frame.index.name == either.series.time_name
    np.testing.assert_array_equal(frame.index, pd.date_range("2020-01-01", periods=6, freq="MS"))
    np.testing.assert_array_equal(frame["upper_80"], either.interval(0.8)[1])
    text = either.to_csv([0.8, 0.999])
    assert text.endswith("\n") and "\r" not in text
    back = pd.read_csv(io.StringIO(text), index_col=0, parse_dates=True)
    first, *others = back.pop("verdict")
    assert first == f"{either.trust.verdict}: {either.trust.advice}"
    assert others == [either.trust.verdict] * (HORIZON - 1)
    pd.testing.assert_frame_equal(
        back, frame, check_index_type=False, check_freq=False, rtol=1e-9, check_exact=False
    )
    assert list(either.to_frame(0.9).columns)[-1] == "upper_90"


@pytest.mark.parametrize("name", ['a, "b"; <i>c</i>', "mean", "µ 時\n$x_1$", "lower_95"])
def test_names_do_not_break_the_csv(raw, name):
    values = pd.Series(np.full(5, 2.0), months(5), name=name).rename_axis(name)
    f = bk.forecast(values, 2)
    back = pd.read_csv(io.StringIO(f.to_csv([0.95])), header=None)
    assert list(back.iloc[0])[:-1] == [name, "median", "mean", "sd", "lower_95", "upper_95"]
    assert list(back.iloc[:, -1]) == [
        "verdict",
        f"{f.trust.verdict}: {f.trust.advice}",
        f.trust.verdict,
    ]
    assert list(back[0][1:]) == ["2015-06-01", "2015-07-01"]


def test_large_integers_are_written_in_full():
    times = 1_700_000_000_000 + 60_000 * np.arange(5)
    f = bk.forecast(np.full(5, 1.0), 2, times=times)
    written = [line.split(",")[0] for line in f.to_csv().splitlines()[1:]]
    assert written == [str(times[-1] + 60_000), str(times[-1] + 120_000)]


def test_frames_have_the_index_of_their_input(raw):
    polars = bk.forecast(
        pl.DataFrame({"month": months().to_numpy(), "y": raw.series.values}),
        HORIZON,
        **ONE_STRUCTURE,
    )
    np.testing.assert_array_equal(polars.median, raw.median)
    pd.testing.assert_frame_equal(polars.to_frame(), raw.to_frame())
    zoned = pd.date_range("2024-03-25", periods=5, freq="D", tz="America/New_York")
    frame = bk.forecast(pd.Series(np.full(5, 1.0), zoned), 2).to_frame()
    expected = pd.date_range("2024-03-30", periods=2, freq="D", tz="America/New_York")
    assert list(frame.index) == list(expected) and str(frame.index.tz) == "America/New_York"


def test_summary(raw):
    text = bk.summary(raw, rows=3, level=0.8)
    lines = text.splitlines()
    assert lines[0] == "y: 60 values of y, 2015-01-01 to 2019-12-01"
    assert all(len(line) <= 100 and line == line.rstrip() for line in lines)
    for words in ("monthly, at month start", "1 year", "as given", "smooth trend 100 %", "good"):
        assert words in text
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["month", "median", "80", "%", "interval"]
    assert [row.split()[0] for row in table[1:]] == [
        "2020-01-01", "2020-02-01", "2020-03-01", "...", "2020-06-01",
    ]  # fmt: skip
    _, median, lower, _, upper = table[1].split()
    np.testing.assert_allclose(
        [float(median), float(lower), float(upper)],
        [raw.median[0], *(side[0] for side in raw.interval(0.8))],
        atol=0.5e-3,
    )
    assert repr(raw) == bk.summary(raw)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [0, -3, 2.5, True, "6", None])
def test_bad_horizons(horizon):
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1"):
        bk.forecast("nile", horizon)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_sizes_that_cannot_be_squared(size):
    with pytest.raises(ValueError, match="give them in another unit"):
        bk.forecast(size * seasonal(), HORIZON)


def test_other_bad_arguments(raw):
    with pytest.raises(ValueError, match="season must be"):
        bk.forecast("nile", 5, season=1)
    with pytest.raises(ValueError, match=r"method='mpa' is not known.*Did you mean 'map'"):
        bk.forecast("nile", 5, method="mpa")
    for level in (0, 1, 95, "high"):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            raw.interval(level)
    with pytest.raises(ValueError, match="q must lie strictly between 0 and 1"):
        raw.quantile([0.5, 1.0])
    with pytest.raises(ValueError, match="has 2 values"):
        raw.log_density([1.0, 2.0])
    with pytest.raises(ValueError, match="this time axis is of dates"):
        raw.decompose(jnp.arange(3.0))


@pytest.mark.slow
@pytest.mark.parametrize("y", [np.arange(60.0), 5.0 + np.sin(2 * np.pi * np.arange(60.0) / 12)])
def test_a_series_without_noise_converges_and_goes_on_as_before(y):
    f = bk.forecast(y[:48], 12, season=12)
    assert f.trust.verdict == "good"
    np.testing.assert_allclose(f.median, y[48:], atol=0.01 * np.ptp(y))


def test_of_long_series_the_last_values_are_fitted(monkeypatch):
    module = importlib.import_module("bayeskern.forecast.forecast")
    monkeypatch.setattr(module, "MOST_FITTED", 40)
    long, last = pd.Series(seasonal(), months()), pd.Series(seasonal()[20:], months()[20:])
    one, other = (bk.forecast(s, HORIZON, **ONE_STRUCTURE) for s in (long, last))
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_allclose(one.median, other.median, rtol=1e-9)
    assert one.remarks == ("only the last 40 of 60 values are fitted",)
    # A kernel of one's own sees all of them.
    own = bk.forecast(long, HORIZON, kernel=kernels.RBF(0.3, 1.0), method="map")
    assert len(own.leading.y) == N and own.remarks == ()


def test_too_many_values_are_refused_before_anything_is_fitted():
    with pytest.raises(ValueError, match="value has 10001 values; at most 10000 can be fitted"):
        bk.forecast(np.arange(10_001.0), 12)


@pytest.mark.parametrize(
    ("count", "horizon", "most"), [(60, 10_000_000, 100_000), (10_000, 10_001, 10_000)]
)
def test_too_many_steps_are_refused_before_anything_is_fitted(count, horizon, most):
    message = f"horizon is {horizon}; from {count} values at most {most} steps"
    with pytest.raises(ValueError, match=message):
        bk.forecast(np.arange(float(count)), horizon)


def test_steps_beyond_the_last_year_of_a_date_are_refused():
    values = pd.Series(np.full(60, 2.0), months())
    last = 12 * (9998 - 2019)
    assert str(bk.forecast(values, last).times[-1]) == "9998-12-01T00:00:00"
    with pytest.raises(ValueError, match="95761 steps go beyond the year 9999"):
        bk.forecast(values, last + 13)


# -- remarks ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lowest", "advice"), [(0.0, "a model of counts"), (0.01, "a positive forecast")]
)
def test_an_interval_below_zero_of_values_that_are_not_is_remarked_on(lowest, advice):
    values = seasonal(noise=0.1)
    values += lowest - values.min()
    # A trend down to its lowest value, so that half of what comes is below.
    values = np.sort(values)[::-1]
    f = bk.forecast(values, HORIZON)
    (remark,) = f.remarks
    assert f.interval()[0].min() < 0
    assert remark.startswith("no value is negative, but the 95 % interval") and advice in remark
    assert remark in " ".join(bk.summary(f).split())


@pytest.mark.slow
def test_an_interval_above_zero_needs_no_remark(log):
    assert log.remarks == ()
    assert bk.forecast(100 + seasonal(), HORIZON).remarks == ()


def test_few_values_are_remarked_on():
    (remark,) = bk.forecast(seasonal(count=9), HORIZON, method="map").remarks
    assert remark.startswith("with 9 values, intervals built on a point estimate may be much too")
    assert bk.forecast(seasonal(count=11), HORIZON, method="map").remarks == ()
    (remark,) = bk.forecast(seasonal(count=9), HORIZON).remarks
    assert remark == "with 9 values, the intervals rest on the priors more than on the series"


def missing_mostly():
    values = 5.0 + seasonal()
    values[np.random.default_rng(1).permutation(N - 1)[:45]] = np.nan
    return values


def changed(place, value):
    values = 5.0 + seasonal()
    values[place] = value
    return values


HARD = {
    "shorter than a season": (5.0 + seasonal(count=8), 12, "shorter than a season"),
    "ten values": (5.0 + seasonal(count=10), 0, "with 10 values, the intervals rest on the priors"),
    "mostly missing": (missing_mostly(), 12, "45 missing values left out of the fit"),
    "an outlier": (changed(20, 1e6), 12, "at 20 is far from what all other values say of it"),
    "a shift at the end": (changed(-1, 60.0), 12, "60.00 at 59 is far from what all other values"),
}


@pytest.mark.parametrize(("values", "season", "remark"), HARD.values(), ids=HARD)
def test_hard_series_are_forecast_with_a_remark(values, season, remark):
    f = bk.forecast(values, HORIZON, season=season, progress=False)
    sound(f)
    assert any(remark in text for text in f.remarks), f.remarks
    # Nothing is forecast beyond what the series itself has ever done, more or less.
    observed = values[np.isfinite(values)]
    assert np.all(np.abs(f.median - np.median(observed)) < 3.0 * np.ptp(observed))
