"""Steady filter against the dense process of the same kernel, and against its state-space model."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.linalg import block_diag, solve_discrete_are

from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.prior import NumpyPrior
from bayeskern.engine.state_blocks import _integrated
from bayeskern.engine.steady.filter import SteadyFilter, System, steady_covariance
from bayeskern.engine.steady.log_marginal import SteadyLogMarginal
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL, default_noise
from bayeskern.forecast.model.processes.state_prior import StatePrior
from bayeskern.forecast.model.trends import BEND, TRENDS, default_kernel
from tests.marks import few

N, AHEAD, STEP = 130, 9, 1.0 / 12.0
MISSING = [1, 7, 8, 40, 41, 42, N - 2]
X = STEP * np.arange(N)
FUTURE = X[-1] + STEP * np.arange(1, AHEAD + 1)
SEASONS = {"none": {}, "one": {"season": 1.0}}
RNG = np.random.default_rng(6)
Z = RNG.standard_normal((N + AHEAD, 3))
EFFECTS = Effects(
    ("price", "new_year", "easter"), ("price", "holidays", "holidays"), np.ones(3),
    np.append(X, FUTURE), Z, STEP,
)  # fmt: skip
VALUES = np.sin(2.0 * np.pi * X) + np.cumsum(0.1 * RNG.standard_normal(N)) + 0.3 * Z[:N, 0]
# Trends whose states are exact; those of RBF are an approximation.
EXACT = few([t for t, trend in TRENDS.items() if trend.states and BEND not in trend.terms], "slope")
DATA = pytest.mark.parametrize("missing", few([(), tuple(MISSING)], tuple(MISSING)))


def prior_of(trend, seasons):
    prior = NumpyPrior(default_kernel(trend, seasons), default_noise())
    center = {"trend.drift.center": 5.0} if TRENDS[trend].has_drift else {}
    return prior.with_numbers({"trend.start.variance": 3.0, **center})


def pair(trend, seasons, missing=(), effects=EFFECTS):
    """The dense and the filtered density of the same data, and a point."""
    prior, known = prior_of(trend, seasons), np.setdiff1d(np.arange(N), missing)
    states = StatePrior.for_trend(prior, trend, seasons, STEP)
    data = X[known], VALUES[known], effects
    z = prior.middle + 0.6 * np.cos(np.arange(len(prior.names))) - 0.5
    # The shape of a year has no more harmonics than 12 months determine.
    z = np.where([name.endswith("seasonal.lengthscale") for name in prior.names], -0.2, z)
    return DenseLogMarginal(prior, *data), SteadyLogMarginal(states, *data), z


@DATA
@pytest.mark.parametrize("season", few(SEASONS, "one"))
@pytest.mark.parametrize("trend", EXACT)
def test_density_and_gradient_equal_the_dense_process(trend, season, missing):
    # With at most 8 lines, effects and missing values, the trace in the gradient is exact.
    dense, steady, z = pair(trend, SEASONS[season], missing[:3])
    value, gradient = dense.value_and_gradient(z)
    again, slopes = steady.value_and_gradient(z)
    np.testing.assert_allclose([again, steady.log_density(z)], value, rtol=1e-10)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-7, atol=1e-7)


def test_estimated_trace_of_many_missing_values():
    dense, steady, z = pair("slope", SEASONS["one"], tuple(range(20, 60)), None)
    _, gradient = dense.value_and_gradient(z)
    _, slopes = steady.value_and_gradient(z)
    # The error of the trace is small beside the scale of the prior, 1.
    assert 0.0 < np.abs(slopes - gradient).max() < 1.0


@DATA
@pytest.mark.parametrize("trend", EXACT)
def test_predictions_equal_the_dense_process(trend, missing):
    dense, steady, z = pair(trend, SEASONS["one"], missing)
    one, other = dense.conditioned(z), steady.conditioned(z)
    # Observed, missing and future times, in any order.
    times = np.concatenate([X[[40, 0, 99, 1, 7]], FUTURE[::2], X[-1:]])
    for function in ("moments", "joint"):
        expected, result = getattr(one, function)(times), getattr(other, function)(times)
        for e, r in zip(expected, result, strict=True):
            np.testing.assert_allclose(r, e, rtol=1e-7, atol=1e-9)
    for e, r in zip(one.loo(), other.loo(), strict=True):
        np.testing.assert_allclose(r, e, rtol=1e-7, atol=1e-8)
    for e, r in zip(one.elements(FUTURE, ()), other.elements(FUTURE, ()), strict=True):
        np.testing.assert_allclose(r, e, rtol=1e-7, atol=1e-9)
    for e, r in zip(one.coefficients(), other.coefficients(), strict=True):
        np.testing.assert_allclose(r, e, rtol=1e-7, atol=1e-9)
    for name in (LEVEL, "season"):
        ends = np.array([X[30], FUTURE[3]])
        np.testing.assert_allclose(other.change(name, ends), one.change(name, ends), rtol=1e-6)
    assert other.log_density == pytest.approx(dense.log_density(z), rel=1e-10)


@pytest.mark.parametrize("trend", EXACT)
def test_components_equal_the_dense_process(trend):
    dense, steady, z = pair(trend, SEASONS["one"])
    expected = dense.conditioned(z).components(X[::10], LEVEL)
    result = steady.conditioned(z).components(X[::10], LEVEL)
    assert set(result) == set(expected) == {LEVEL, "season", "price", "holidays"}
    for name, (mean, variance) in expected.items():
        np.testing.assert_allclose(result[name][0], mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(result[name][1], variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("trend", EXACT)
def test_rolling_predictions_equal_the_dense_process(trend):
    dense, steady, z = pair(trend, SEASONS["one"])
    counts, ahead = [20, 60, 61, N - 4], [5, 8, 1, 4]
    expected, result = dense.rolling(z, counts, ahead), steady.rolling(z, counts, ahead)
    for e, r in zip(expected, result, strict=True):
        np.testing.assert_allclose(r, e, rtol=1e-7)


def test_rolling_predictions_before_missing_values():
    """Missing values are known from all data: their predictions change by less than a tenth."""
    dense, steady, z = pair("slope", SEASONS["one"], MISSING, None)
    counts, ahead = [60, 90], [8, 8]
    for (m, v), (mean, variance) in zip(
        dense.rolling(z, counts, ahead), steady.rolling(z, counts, ahead), strict=True
    ):
        assert np.all(np.abs(mean - m) < 0.1 * np.sqrt(v))
        np.testing.assert_allclose(variance, v, rtol=0.1)


def test_the_smooth_trend_is_close_to_the_dense_process():
    """Its RBF kernels are approximated to 0.3 % of their variance."""
    dense, steady, z = pair("smooth", SEASONS["one"], MISSING)
    process, (mean, covariance) = steady.conditioned(z), dense.conditioned(z).joint(FUTURE)
    m, C = process.joint(FUTURE)
    sds = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(m - mean) < 0.05 * sds)
    np.testing.assert_allclose(np.sqrt(np.diag(C)), sds, rtol=0.02)
    assert steady.log_density(z) == pytest.approx(dense.log_density(z), abs=0.5)


def test_gradient_of_the_smooth_trend():
    _, steady, z = pair("smooth", SEASONS["one"], (), None)
    _, gradient = steady.value_and_gradient(z)
    step = 1e-5 * np.eye(len(z))
    values = [[steady.log_density(z + sign * row) for sign in (1.0, -1.0)] for row in step]
    np.testing.assert_allclose(
        gradient, np.subtract(*np.transpose(values)) / 2e-5, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("seasons", [{"quarter": 4.0}, {"daily": 6.0, "weekly": 42.0}])
def test_density_equals_that_of_the_states(seasons):
    """Seasons of so few steps sum to zero, unlike the continuous kernel at these steps."""
    prior = prior_of("slope", seasons)
    states = StatePrior.for_trend(prior, "slope", seasons, 1.0)
    z = prior.middle + 0.3
    series = SteadyLogMarginal(states, np.arange(90.0), VALUES[:90])
    K = covariance(states.state_space(z).system, 90)
    expected = stats.multivariate_normal(np.zeros(90), K).logpdf(VALUES[:90])
    expected += prior.log_density(z)
    assert series.log_density(z) == pytest.approx(expected, rel=1e-9)
    for season in states.seasons:
        assert np.sum(lagged(season, prior.all_values(z))) == pytest.approx(0.0, abs=1e-9)


def lagged(season, values):
    """Prior covariance of the first value with the values of the first period."""
    T, _, P = season.matrices(values, 1.0)
    H = season.observation(values)
    return [H @ np.linalg.matrix_power(T, t) @ P @ H for t in range(int(season.period))]


def test_days_of_a_week_have_their_own_shapes():
    prior = prior_of("slope", {"daily": 6.0, "weekly": 42.0})
    states = StatePrior.for_trend(prior, "slope", {"daily": 6.0, "weekly": 42.0}, 1.0)
    daily, weekly = states.seasons
    assert (daily.harmonics, weekly.ratio, weekly.harmonics) == (3, 7, 3)
    # Harmonics 7 k - 3, ..., 7 k + 3 of the week, without those of the day.
    assert len(weekly.observation(prior.all_values(prior.middle))) == 2 * (3 + 6 + 6 + 3)


def covariance(system, n):
    """Covariance of n values of a linear model."""
    K, P, T, H = np.zeros((n, n)), system.start, system.transition, system.observation
    for t in range(n):
        row = P @ H
        for u in range(t, n):
            K[t, u] = K[u, t] = H @ row
            row = T @ row
        P = T @ P @ T.T + system.state_noise
    return K + system.noise * np.eye(n)


@pytest.mark.parametrize("noise", [1e-8, 0.1, 10.0])
@pytest.mark.parametrize("drift", few([1e-10, 1e-3, 1.0], 1e-3))
def test_steady_covariance_solves_the_riccati_equation(noise, drift):
    angle = 2.0 * np.pi / 7.0
    turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    T = block_diag([[1.0, 1.0], [0.0, 0.8]], turn)
    H, Q = np.array([1.0, 0.0, 1.0, 0.0]), drift * np.diag([1.0, 2.0, 0.5, 0.5])
    P = steady_covariance(System(T, H, Q, noise, np.eye(4)))
    expected = solve_discrete_are(T.T, H[:, None], Q, [[noise]])
    np.testing.assert_allclose(P, expected, rtol=1e-5, atol=1e-9 * np.abs(expected).max())
    steady = SteadyFilter.of(System(T, H, Q, noise, P))
    assert np.abs(steady.eigenvalues).max() < 1.0


def test_times_off_the_grid_are_refused():
    _, steady, z = pair("slope", {}, (), None)
    with pytest.raises(ValueError, match=r"must lie on the grid.*got 10\.99"):
        steady.conditioned(z).moments(np.array([FUTURE[0], 10.99]))


def test_data_and_effects_can_be_replaced():
    dense, steady, z = pair("slope", SEASONS["one"], ())
    shorter = dense.given(X[:90], VALUES[:90]), steady.given(X[:90], VALUES[:90])
    assert shorter[1].log_density(z) == pytest.approx(shorter[0].log_density(z), rel=1e-9)
    assert steady.with_effects(EFFECTS).log_density(z) == pytest.approx(steady.log_density(z))


@pytest.mark.parametrize("trend", few(["slope", "smooth"], "smooth"))
@pytest.mark.parametrize("shift", [600.0, -600.0])
def test_overflow_is_a_density_of_zero(trend, shift):
    _, steady, z = pair(trend, SEASONS["one"], ())
    value, gradient = steady.value_and_gradient(z + shift)
    assert value == -np.inf and not gradient.any()
    # A draw that overflows does not stop the others.
    predictive = steady.predictive(np.stack([z, z + shift]), FUTURE)
    assert predictive.log_densities[1] == -np.inf
    assert predictive.log_densities[0] == pytest.approx(steady.log_density(z))
    mean, covariance = steady.conditioned(z).joint(FUTURE)
    np.testing.assert_allclose(predictive.means[0], mean)
    np.testing.assert_allclose(predictive.covariances[0], covariance)


def test_values_off_the_grid_are_refused():
    prior = StatePrior.for_trend(prior_of("slope", {}), "slope", {}, STEP)
    series = SteadyLogMarginal(prior, np.array([0.0, STEP, 2.4 * STEP]), VALUES[:3])
    with pytest.raises(ValueError, match="must lie on the grid"):
        series.log_density(series.middle)


@pytest.mark.parametrize("r", [1e-6, 0.01, 0.0199, 0.0201, 1.0, 5.0])
def test_variance_of_an_integrated_slope(r):
    """Twice the integral of (1 - exp(-s))^2, by quadrature."""
    expected, _ = quad(lambda s: 2.0 * np.expm1(-s) ** 2, 0.0, r, epsabs=0.0, epsrel=1e-13)
    assert _integrated(r) == pytest.approx(expected, rel=1e-9)
