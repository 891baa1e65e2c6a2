"""Forecasts: against NumPy's Gaussian process, simulation, pandas' dates and fits made by hand."""

import io
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.model.building import build_model
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.model.trends import TRENDS
from bayeskern.inference import MAP
from tests.forecast.examples import DRAWS, HORIZON, ONE_STRUCTURE, N, months, seasonal, sound
from tests.forecast.growth import grown, limits_of
from tests.marks import slow

# -- the fit ---------------------------------------------------------------------------------------


def years(f):
    """Months since the first, in years, worked out by pandas: of the data and of the future."""
    past = months(N + HORIZON)
    t = ((past.year - past[0].year) * 12 + past.month - past[0].month).to_numpy() / 12
    return t[:N], t[N:]


@pytest.mark.slow
def test_cached_fits_depend_on_the_series_and_its_options():
    """What is asked for after others is what it was alone: nothing is taken for another thing."""
    y = np.exp(0.1 * seasonal())
    model = bk.StructuralModel(log=False)
    options = {"trend": "drift", "season": 0, "model": model}
    asked = [
        (y, HORIZON, options),
        (y, HORIZON + 1, options),
        (y, HORIZON, {**options, "seed": 1}),
        (y, HORIZON, {**options, "model": replace(model, log=True)}),
        (y, HORIZON, {**options, "season": 12}),
        (y, HORIZON, {**options, "model": replace(model, robust=True)}),
        (y, HORIZON, {**options, "model": replace(model, changes=[30])}),
        (y, HORIZON, {**options, "model": replace(model, method="map")}),
        (np.append(y[:-1], y[-1] + 1e-9), HORIZON, options),
    ]

    def numbers():
        forecasts = [bk.forecast(values, h, **given) for values, h, given in asked]
        return [np.concatenate([f.median, f.sd, f.past_scores.ours.crps]) for f in forecasts]

    first = numbers()
    assert len({tuple(values) for values in first}) == len(asked)
    for again, before in zip(numbers(), first, strict=True):
        np.testing.assert_array_equal(again, before)
    twice = [bk.forecast(y, HORIZON, **options) for _ in range(2)]
    assert twice[0].combination is twice[1].combination


def conditional(K, z, known, ahead):
    """Mean and sd of z[ahead] given z[known]: Rasmussen and Williams, algorithm 2.1."""
    weights = np.linalg.solve(K[known, known], K[known, ahead]).T
    variance = np.diag(K[ahead, ahead]) - np.sum(weights * K[known, ahead].T, axis=1)
    return weights @ z[known], np.sqrt(variance)


def values_by_hand(z, mean, scale):
    """The values y at z; on the log scale growth depends on the median forecast, at the mean."""
    if not scale.log:
        return scale.shift + scale.size * z
    return grown(scale.shift + scale.size * z, scale.shift + scale.size * mean, scale)


def error_by_hand(y, mean, sd, scale):
    """The standardised error at which the forecast is y, by SciPy's search for a root."""

    def off(e):
        return values_by_hand(mean + sd * e, mean, scale) - y

    return scipy.optimize.brentq(off, -100.0, 100.0, xtol=1e-12)


@pytest.mark.slow
def test_forecast_matches_a_process_in_numpy(either):
    """Conditionals on the rows as they are: padding changes nothing. The width by its formula."""
    f = either
    t, new = years(f)
    y = np.log(f.series.values) if f.scale.log else f.series.values
    z = scipy.stats.zscore(y)
    values = {name: v[0] for name, v in f.posterior.flat.items()}
    noise = values.pop("noise")
    kernel = f.model.kernel.at(values)
    times = np.concatenate([t, new])
    K = np.asarray(kernel(times)) + noise * np.eye(len(times))
    mean, sd = conditional(K, z, slice(N), slice(N, None))
    np.testing.assert_allclose(f.median, values_by_hand(mean, mean, f.scale), rtol=1e-7)

    # Mean of the squared errors from earlier origins and of the prior.
    width, residuals = f.choices.learned.width, []
    for origin in f.combination.origins:
        past = zip(*conditional(K, z, slice(origin.count), origin.ahead), strict=True)
        ahead = zip(f.series.values[origin.ahead], past, strict=True)
        residuals += [error_by_hand(value, *moments, f.scale) for value, moments in ahead]
    residuals = np.clip(residuals, -5.0, 5.0)
    squares = width.prior_count * np.exp(width.log_scale) ** 2 + np.sum(residuals**2)
    through = np.minimum(np.arange(len(new)) / (width.horizon - 1), 1.0)
    scale = np.sqrt(squares / (width.prior_count + len(residuals)))
    scale = scale * np.exp(width.widening * through)
    ends = mean + sd * scale * scipy.stats.t(width.degrees).ppf([[0.1], [0.9]])
    np.testing.assert_allclose(f.interval(0.8), values_by_hand(ends, mean, f.scale), rtol=1e-6)

    # The density that was maximised, too: padded and masked against SciPy's normal distribution.
    X, target, mask = f.posterior.target.args
    assert X.shape[0] == 64 and int(mask.sum()) == N
    padded = bk.GaussianProcess(kernel, X, noise, mask=mask).log_prob(target)
    by_scipy = scipy.stats.multivariate_normal.logpdf(z, np.zeros(N), K[:N, :N])
    np.testing.assert_allclose(padded, by_scipy, rtol=1e-9)


def by_hand(f, log):
    """Log density of y at the optimum of a fit without padding, with the Jacobian of the scale."""
    values = f.series.values
    y = np.log(values) if log else values
    structure, t = Structure("smooth", log), np.arange(N) / 12
    model = build_model(f.choices, structure, t, Scale.from_values(values, log), values)
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
def test_the_more_probable_scale_leads(values, log, turned):
    assert (values > 0).all()
    f = bk.forecast(pd.Series(values, months()), HORIZON, **ONE_STRUCTURE)
    (as_given, given_fit), (logarithm, log_fit) = (by_hand(f, log) for log in (False, True))
    assert (logarithm > as_given) == log
    without = log_fit.optimum.log_density > given_fit.optimum.log_density
    assert (without != log) == turned
    assert f.scale.log == log
    expected = log_fit if log else given_fit
    found = f.posterior.optimum
    assert tuple(expected.target.coordinates) == found.coordinates
    at_mode = float(expected.target.log_density(found.z))
    np.testing.assert_allclose(found.log_density, at_mode, atol=1e-6)
    # Noise alone has several modes, of hyperparameters that it says little about.
    assert found.log_density > expected.optimum.log_density - 0.5


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


# -- the numbers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def draws(either):
    return either.sample(DRAWS, seed=3)


@pytest.mark.slow
def test_quantiles_match_draws(either, draws):
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


def test_mean_and_sd_match_draws(either, draws):
    centred = draws - draws.mean(axis=0)
    sd = draws.std(axis=0)
    kurtosis = np.mean(centred**4, axis=0) / sd**4
    assert np.all(np.abs(either.mean - draws.mean(axis=0)) < 4.5 * sd / np.sqrt(DRAWS))
    assert np.all(np.abs(either.sd / sd - 1) < 4.5 * np.sqrt((kurtosis - 1) / (4 * DRAWS)))


@pytest.mark.slow
def test_mean_and_sd_on_the_log_scale_match_quadrature(log):
    """One draw of the hyperparameters: log y has Student's t distribution up to a limit.

    From there on y is linear. SciPy's quadrature leaves out tails of one in a million, as the
    moments of a forecast do.
    """
    part, spread = log.parts[0], log.combination.errors(np.arange(HORIZON))
    (mean,), (variance,) = part.fitted.density.moments(part.draws.z, years(log)[1])
    errors = scipy.stats.t(spread.degrees)
    end = errors.ppf(1.0 - 1e-6)
    for i in range(HORIZON):
        centre = log.scale.shift + log.scale.size * mean[i]
        sd = log.scale.size * np.sqrt(variance[i]) * spread.scales[i]
        kinks = [(limit - centre) / sd for limit in limits_of(centre, log.scale)]

        def value(e, centre=centre, sd=sd):
            return grown(centre + sd * e, centre, log.scale)

        def moment(k, value=value, kinks=kinks):
            places = sorted({-end, 0.0, *np.clip(kinks, -end, end), end})
            return sum(
                scipy.integrate.quad(lambda e: value(e) ** k * errors.pdf(e), *ends)[0]
                for ends in itertools.pairwise(places)
            ) / (1.0 - 2e-6)

        np.testing.assert_allclose(log.mean[i], moment(1), rtol=1e-6)
        np.testing.assert_allclose(log.sd[i], np.sqrt(moment(2) - moment(1) ** 2), rtol=1e-5)
    assert np.all(log.mean > log.median)


def test_draws_have_the_correlations_of_the_process(raw):
    """Neighbours in a path are as correlated as NumPy's posterior covariance says.

    Kendall's tau of an elliptical distribution is 2 / pi arcsin(correlation), whatever its tails:
    Lindskog, McNeil and Schmock (2003), "Kendall's tau for elliptical distributions".
    """
    values = {name: v[0] for name, v in raw.posterior.flat.items()}
    noise = values.pop("noise")
    kernel, (t, new) = raw.model.kernel.at(values), years(raw)
    cross = np.asarray(kernel(t, new))
    K = np.asarray(kernel(t)) + noise * np.eye(N)
    joint = np.asarray(kernel(new)) + noise * np.eye(HORIZON) - cross.T @ np.linalg.solve(K, cross)
    sd = np.sqrt(np.diag(joint))
    correlations, paths = joint / np.outer(sd, sd), raw.sample(DRAWS, seed=4)
    above = np.triu_indices(HORIZON, 1)
    expected = 2.0 / np.pi * np.arcsin(correlations[above])
    tau = [scipy.stats.kendalltau(*paths[:, pair].T).statistic for pair in zip(*above, strict=True)]
    assert np.max(np.abs(correlations[above])) > 0.05
    # The variance of tau is at most 2 (1 - tau^2) / n: Kendall and Gibbons (1990), section 4.12.
    assert np.all(np.abs(tau - expected) < 5.0 * np.sqrt(2.0 / DRAWS))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(either):
    np.testing.assert_array_equal(either.sample(5, seed=1), either.sample(5, seed=1))
    assert not np.array_equal(either.sample(5, seed=1), either.sample(5, seed=2))
    one, other = (bk.forecast(either.series.values, HORIZON, seed=7) for _ in range(2))
    np.testing.assert_array_equal(one.median, other.median)


@pytest.mark.slow
def test_the_density_integrates_to_one(either):
    outside = 1e-6
    # Normal scores spread the grid over the centre and the heavy tails alike.
    end = scipy.stats.norm.isf(outside)
    grid = either.quantile(scipy.stats.norm.cdf(np.linspace(-end, end, 2001)))
    density = np.exp([either.log_density(y) for y in grid])
    total = scipy.integrate.simpson(density, x=grid, axis=0)
    np.testing.assert_allclose(total, 1 - 2 * outside, rtol=1e-4)
    lower, upper = either.interval(0.8)
    within = np.linspace(lower, upper, 2001)
    density = np.exp([either.log_density(y) for y in within])
    np.testing.assert_allclose(scipy.integrate.simpson(density, x=within, axis=0), 0.8, rtol=1e-6)


def test_weights_of_trends_and_scales():
    """Of a default forecast: all structures, and draws from the average of their quantiles."""
    f = bk.forecast(pd.Series(np.exp(0.3 * seasonal()), months()), HORIZON)
    weights = f.weights
    assert weights["trend"].keys() <= TRENDS.keys()
    assert list(weights["trend"].values()) == sorted(weights["trend"].values(), reverse=True)
    for shares in weights.values():
        assert sum(shares.values()) == pytest.approx(1.0) and min(shares.values()) >= 0.0
    by_log = sum(part.weight for part in f.parts if part.structure.log)
    assert weights["scale"]["logarithm"] == pytest.approx(by_log)
    p = np.array([0.05, 0.5, 0.95])
    share = np.mean(f.sample(DRAWS, seed=3)[:, None] < f.quantile(p), axis=0)
    assert np.all(np.abs(share - p[:, None]) < 4.5 * np.sqrt(p * (1 - p) / DRAWS)[:, None])
    one = bk.forecast(seasonal(), HORIZON, trend="drift").weights
    assert one == {"trend": {"drift": 1.0}, "scale": {"values": 1.0, "logarithm": 0.0}}


def test_the_log_scale_keeps_forecasts_above_zero(log):
    assert log.scale.log
    assert np.all(log.sample(2000, seed=0) > 0) and np.all(log.quantile(1e-12) > 0)
    possible = log.log_density(log.median)
    y = log.median.copy()
    y[:2] = 0.0, -1.0
    densities = log.log_density(y)
    np.testing.assert_array_equal(densities[:2], -np.inf)
    np.testing.assert_array_equal(densities[2:], possible[2:])


def test_the_log_scale_needs_positive_values():
    values = np.exp(seasonal())
    values[7] = 0.0
    with pytest.raises(ValueError, match="above zero; the value at 2015-08-01 is 0"):
        bk.forecast(pd.Series(values, months()), HORIZON, model=bk.StructuralModel(log=True))


@pytest.mark.slow
def test_a_given_kernel():
    """Nothing to learn but the noise: the optimum is that of a line search in SciPy."""
    t, z = np.arange(N), scipy.stats.zscore(seasonal())
    kernel = kernels.RBF(lengthscale=3.0).named("slow") + kernels.Periodic(12.0).named("year")
    f = bk.forecast(seasonal(), HORIZON, model=bk.StructuralModel(kernel=kernel, method="map"))
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


# -- components ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_components_add_up_to_the_median(either):
    parts = either.decompose()
    assert list(parts) == list(either.components) == ["trend", "season", "cycles"]
    medians = [part["median"] for part in parts.values()]
    whole = np.prod(medians, axis=0) if either.scale.log else np.sum(medians, axis=0)
    np.testing.assert_allclose(whole, either.median, rtol=1e-8)
    for part in parts.values():
        assert np.all((part["lower"] < part["median"]) & (part["median"] < part["upper"]))


@pytest.mark.slow
def test_components_are_centred(either):
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
    with pytest.raises(ValueError, match="'seasn' .* Did you mean 'season'"):
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
def test_names_are_quoted_in_csv(raw, name):
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
    times = 170_000_000_000 + 60_000 * np.arange(5)
    f = bk.forecast(bk.read_series(np.full(5, 1.0), times=times), 2)
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
    text = bk.summary(raw, rows=4, level=0.8)
    lines = text.splitlines()
    assert lines[0] == "y: 60 values of y, 2015-01-01 to 2019-12-01"
    assert all(len(line) <= 100 and line == line.rstrip() for line in lines)
    assert f"verdict   {raw.trust.verdict}:" in text
    for words in ("monthly, at month start", "1 year", "as given", "smooth trend 100 %"):
        assert words in text
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["month", "median", "80", "%", "interval"]
    assert [row.split()[0] for row in table[1:]] == [
        "2020-01", "2020-02", "2020-03", "...", "2020-06",
    ]  # fmt: skip
    _, median, lower, _, upper = table[1].split()
    np.testing.assert_allclose(
        [float(median), float(lower), float(upper)],
        [raw.median[0], *(side[0] for side in raw.interval(0.8))],
        atol=0.5e-2,
    )
    assert repr(raw) == bk.summary(raw)
