"""Evidence of long series against a dense Gaussian process of the same covariance."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.optimize import approx_fprime
from scipy.special import ive

from bayeskern.forecast.history.basis import BasisOptions
from bayeskern.forecast.history.basis_evidence import BasisEvidence
from bayeskern.forecast.history.mode_search import ModeSearchOptions, find_mode
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL, SHORT_TERM
from tests.marks import few

DAY = 1.0 / 365.25
STEP = DAY / 4.0
N, HORIZON = 1100, 12
SEASONS = {"season_daily": DAY, "season_weekly": 7.0 * DAY}
OPTIONS = BasisOptions(level_functions=8, slope_functions=5)
RNG = np.random.default_rng(5)
HOLIDAY, PRICE = "holidays", "price"


def grid(n=N):
    return STEP * np.arange(n)


def irregular(n=N):
    """Irregular times with a gap of a month and one repeated time."""
    x = np.sort(RNG.uniform(0.0, n * STEP, n))
    x[n // 2 :] += 30.0 * DAY
    x[7] = x[6]
    return x


def effects_at(x):
    Z = np.stack([RNG.random(len(x)) < 0.05, RNG.standard_normal(len(x))], axis=1).astype(float)
    return Effects(("new_year", PRICE), (HOLIDAY, PRICE), np.ones(2), x, Z, STEP)


def series(x, effects):
    t = x / DAY
    y = np.sin(2 * np.pi * t) + 0.5 * np.sin(2 * np.pi * t / 7.0) + 0.3 * x
    y = y + 0.5 * RNG.standard_normal(len(x)) + effects.rows(x) @ np.array([1.0, -0.3])
    return (y - y.mean()) / y.std()


def evidence_at(x):
    future = x[-1] + STEP * np.arange(1, HORIZON + 1)
    effects = effects_at(np.append(x, future))
    options = {"step": STEP, "end": future[-1], "effects": effects, "options": OPTIONS}
    return BasisEvidence.of(x, series(x, effects), SEASONS, **options)


def point(evidence, ratio=2.0, lengthscale=1.5 * DAY, noise=0.1):
    """Hyperparameters away from the medians of their priors."""
    z = evidence.middle + 0.3 * np.cos(np.arange(len(evidence.names)))
    return np.append(z[:-3], np.log([lengthscale, ratio * noise, noise - evidence.min_noise]))


# -- the dense process -----------------------------------------------------------------------------


def scaled_columns(evidence, z, t):
    """Component -> columns at times t, scaled by the sds of their coefficients."""
    values, blocks = evidence.values(z), evidence.basis.blocks
    level, slope, daily, weekly = blocks[1:5]
    length, since = level.upper - level.lower, t - level.lower
    k, m = (np.pi * (np.arange(1, b.count + 1) - 0.5) / length for b in (level, slope))
    wandering = np.sin(np.outer(since, k)) / k
    wandering *= np.sqrt(2.0 / length * values["trend.brownian.variance"])
    bending = (1.0 - np.cos(np.outer(since, m))) / m**2
    bending *= np.sqrt(2.0 / length * values["trend.integratedbrownian.variance"])
    rate = values["season_daily.lengthscale"] ** -2.0
    j_day = np.append(0, daily.harmonics)
    of_day = values["season_daily.variance"] * ive(j_day, rate) * np.where(j_day == 0, 1.0, 2.0)
    of_week, _ = weekly.variances(np.array([values[name] for name in weekly.priors]))
    of_week = of_week[: len(weekly.harmonics)]
    line = np.stack([np.ones_like(t), t - blocks[0].center], axis=1)
    line *= np.sqrt([values["trend.constant.variance"], values["trend.linear.variance"]])
    out = {
        LEVEL: np.hstack([line, wandering, bending]),
        "season_daily": waves(t, j_day / DAY, of_day),
        "season_weekly": waves(t, weekly.harmonics / (7.0 * DAY), of_week),
    }
    rows = evidence.basis.effects.rows(t)
    return out | {HOLIDAY: rows[:, :1], PRICE: rows[:, 1:]}


def waves(t, frequencies, variances):
    angles = 2.0 * np.pi * np.outer(t, frequencies)
    return np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(np.tile(variances, 2))


def grams(evidence, z, s, t):
    """Component -> covariance of its values at times s and t."""
    values = evidence.values(z)
    columns = scaled_columns(evidence, z, s), scaled_columns(evidence, z, t)
    out = {name: columns[0][name] @ columns[1][name].T for name in columns[0]}
    decay = np.exp(-np.abs(s[:, None] - t) / values["short_term.lengthscale"])
    return out | {SHORT_TERM: values["short_term.variance"] * decay}


def dense(evidence, z, x_new=None):
    """K, and the mean and covariance of the function at x_new."""
    x, y, noise = evidence.x, evidence.y, evidence.values(z)["noise"]
    K = sum(grams(evidence, z, x, x).values()) + noise * np.eye(len(x))
    if x_new is None:
        return K
    cross = sum(grams(evidence, z, x, x_new).values())
    own = sum(grams(evidence, z, x_new, x_new).values())
    solved = np.linalg.solve(K, cross)
    return K, solved.T @ y, own - cross.T @ solved


def dense_log_density(evidence, z):
    factor = np.linalg.cholesky(dense(evidence, z))
    solved = solve_triangular(factor, evidence.y, lower=True)
    value = stats.norm.logpdf(solved).sum() - np.log(np.diag(factor)).sum()
    scales = np.diag(evidence.prior.information) ** -0.5
    return value + stats.norm(evidence.middle, scales).logpdf(z).sum()


@pytest.fixture(scope="module", params=[grid, irregular])
def evidence(request):
    return evidence_at(request.param())


@pytest.mark.parametrize("ratio", [1e-6, 1.0, 1e6])
def test_log_density_equals_dense_process(evidence, ratio):
    z = point(evidence, ratio, noise=min(0.1, 0.1 / ratio))
    expected = dense_log_density(evidence, z)
    np.testing.assert_allclose(evidence.log_density(z), expected, rtol=1e-6)


@pytest.mark.parametrize("ratio", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("lengthscale", [0.1 * STEP, DAY, 3.0])
def test_gradient_equals_finite_differences(evidence, ratio, lengthscale):
    z = point(evidence, ratio, lengthscale, noise=min(0.1, 0.1 / ratio))
    value, gradient = evidence.value_and_gradient(z)
    step = 1e-5
    ahead = approx_fprime(z, evidence.log_density, step)
    behind = approx_fprime(z, evidence.log_density, -step)
    np.testing.assert_allclose(value, evidence.log_density(z), rtol=1e-12)
    np.testing.assert_allclose(gradient, 0.5 * (ahead + behind), rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("ratio", few([1e-4, 1.0, 1e4], 1e4))
@pytest.mark.parametrize("place", ["future", "anywhere"])
def test_predictions_equal_dense_process(evidence, ratio, place):
    z = point(evidence, ratio, noise=min(0.1, 0.1 / ratio))
    x_new = evidence.x[-1] + STEP * np.arange(1, HORIZON + 1)
    if place == "anywhere":
        x_new = np.sort(np.concatenate([x_new, evidence.x[[0, 5, -1]], [-DAY, 40.0 * DAY]]))
    _, mean, covariance = dense(evidence, z, x_new)
    noise = evidence.values(z)["noise"]
    means, variances = evidence.moments(z[None], x_new)
    np.testing.assert_allclose(means[0], mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variances[0], np.diag(covariance) + noise, rtol=1e-6)
    joint = evidence.predictive(z[None], x_new)
    np.testing.assert_allclose(joint.means[0], mean, rtol=1e-6, atol=1e-6)
    scale = covariance.max()
    np.testing.assert_allclose(joint.covariances[0], covariance, atol=1e-6 * scale)
    np.testing.assert_allclose(joint.log_densities[0], evidence.log_density(z), rtol=1e-9)
    of_values = covariance + noise * np.eye(len(x_new))
    np.testing.assert_allclose(evidence.joint(z, x_new)[1], of_values, atol=1e-6 * scale)


@pytest.mark.parametrize("ratio", few([1e-4, 1.0, 1e4], 1e4))
def test_loo_equals_dense_process(evidence, ratio):
    z = point(evidence, ratio, noise=min(0.1, 0.1 / ratio))
    inverse = np.linalg.inv(dense(evidence, z))
    precision, weighted = np.diag(inverse), inverse @ evidence.y
    mean, variance, density = (part[0] for part in evidence.loo(z[None]))
    expected = evidence.y - weighted / precision
    np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, 1.0 / precision, rtol=1e-6)
    truth = stats.norm(expected, precision**-0.5).logpdf(evidence.y)
    np.testing.assert_allclose(density, truth, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("place", few(["future", "values"], "values"))
def test_components_equal_dense_process(evidence, place):
    z, x = point(evidence), evidence.x
    x_new = x[::50] if place == "values" else x[-1] + STEP * np.arange(1, HORIZON + 1)
    inverse = np.linalg.inv(dense(evidence, z))
    names = (LEVEL, "season_daily", "season_weekly", SHORT_TERM)
    within, cross = grams(evidence, z, x, x), grams(evidence, z, x_new, x)
    own = {name: np.diag(K) for name, K in grams(evidence, z, x_new, x_new).items()}
    expected = {name: (cross[name], own[name]) for name in (HOLIDAY, PRICE)}
    level, prior = cross[LEVEL].copy(), own[LEVEL].copy()
    for name in names[1:]:
        average, total = within[name].mean(axis=1), within[name].mean()
        expected[name] = cross[name] - average, own[name] - 2 * cross[name].mean(axis=1) + total
        level, prior = level + average, prior + total
    expected[LEVEL] = level, prior
    parts = evidence.components(z[None], x_new, LEVEL)
    assert set(parts) == set(expected) == {*evidence.component_names, HOLIDAY, PRICE}
    for name, (C, prior) in expected.items():
        mean, variance = (part[0] for part in parts[name])
        np.testing.assert_allclose(mean, C @ inverse @ evidence.y, atol=1e-7)
        truth = prior - np.sum(C * (C @ inverse), axis=1)
        np.testing.assert_allclose(variance, truth, rtol=1e-6, atol=1e-8)
    total = sum(mean[0] for mean, _ in parts.values())
    np.testing.assert_allclose(total, evidence.moments(z[None], x_new)[0][0], atol=1e-9)


@pytest.mark.parametrize("name", few([LEVEL, "season_weekly", SHORT_TERM, PRICE], LEVEL))
def test_changes_equal_dense_process(evidence, name):
    z, ends = point(evidence), evidence.x[[100, -1]]
    K = dense(evidence, z)
    cross = np.diff(grams(evidence, z, evidence.x, ends)[name], axis=1)[:, 0]
    own = grams(evidence, z, ends, ends)[name]
    mean, variance = evidence.changes(z[None], name, ends)
    np.testing.assert_allclose(mean[0], cross @ np.linalg.solve(K, evidence.y), rtol=1e-6)
    prior = own[0, 0] + own[1, 1] - 2.0 * own[0, 1]
    np.testing.assert_allclose(variance[0], prior - cross @ np.linalg.solve(K, cross), rtol=1e-5)


def test_coefficients_equal_dense_process(evidence):
    z, Z = point(evidence), evidence.basis.effects.rows(evidence.x)
    solved = np.linalg.solve(dense(evidence, z), Z)
    means, variances = evidence.coefficients(z[None])
    np.testing.assert_allclose(means[0], solved.T @ evidence.y, rtol=1e-7)
    np.testing.assert_allclose(variances[0], 1.0 - np.sum(Z * solved, axis=0), rtol=1e-7)


def test_rolling_forecasts_equal_forecasts_of_shorter_series(evidence):
    z, counts, reach = point(evidence), [30, 513, 900], [20, 7, 20]
    pairs = evidence.rolling(z, counts, reach)
    for (mean, variance), count, horizon in zip(pairs, counts, reach, strict=True):
        shorter = evidence.given(evidence.x[:count], evidence.y[:count])
        x_new = evidence.x[count : count + horizon]
        _, expected, covariance = dense(shorter, z, x_new)
        truth = np.diag(covariance) + evidence.values(z)["noise"]
        np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(variance, truth, rtol=1e-6)


def test_overflowing_hyperparameters_have_density_zero(evidence):
    z = point(evidence)
    for place, value in [(-3, 800.0), (-2, 800.0), (0, 800.0), (2, 800.0)]:
        extreme = z.copy()
        extreme[place] = value
        assert evidence.log_density(extreme) == -np.inf
        density, gradient = evidence.value_and_gradient(extreme)
        assert density == -np.inf and np.all(gradient == 0.0)


# -- the search ------------------------------------------------------------------------------------


def simulated(n, lengthscale, variance, noise, seed=2):
    """Times, true pattern, and values with an Ornstein-Uhlenbeck process and noise."""
    rng = np.random.default_rng(seed)
    hour = DAY / 24.0
    x = hour * np.arange(n)
    t = x / DAY
    truth = np.cos(2 * np.pi * t) + 0.5 * np.cos(4 * np.pi * t + 1.0) - (t % 7 >= 5)
    decay = np.exp(-hour / lengthscale)
    steps = np.sqrt(variance * (1.0 - decay**2)) * rng.standard_normal(n)
    u = np.zeros(n)
    for i in range(1, n):
        u[i] = decay * u[i - 1] + steps[i]
    return x, truth, truth + u + np.sqrt(noise) * rng.standard_normal(n)


@pytest.mark.slow
def test_search_recovers_simulated_hyperparameters():
    n, ahead, hour = 5000, 168, DAY / 24.0
    lengthscale, variance, noise = 8.0 * hour, 0.2, 0.05
    x, truth, y = simulated(n + ahead, lengthscale, variance, noise)
    evidence = BasisEvidence.of(x[:n], y[:n], SEASONS, step=hour, end=x[-1])
    mode, log_density = find_mode(evidence, ModeSearchOptions(parts=(700, 1500), max_compared=2000))
    values = evidence.values(mode)
    np.testing.assert_allclose(values["short_term.lengthscale"], lengthscale, rtol=0.25)
    np.testing.assert_allclose(values["short_term.variance"], variance, rtol=0.2)
    np.testing.assert_allclose(values["noise"], noise, rtol=0.1)
    value, gradient = evidence.value_and_gradient(mode)
    np.testing.assert_allclose(value, log_density)
    assert np.abs(gradient).max() < 0.5
    means, variances = evidence.moments(mode[None], x[n:])
    assert np.sqrt(np.mean(np.square(means[0] - truth[n:]))) < 0.3
    errors = (y[n:] - means[0]) / np.sqrt(variances[0])
    assert 0.6 < np.std(errors) < 1.4
    # The process is hardly known a week ahead: its variance is that of u and e.
    np.testing.assert_allclose(variances[0, -1], variance + noise, rtol=0.2)


def test_density_at_mode_exceeds_surroundings():
    evidence = evidence_at(grid(1500))
    mode, log_density = find_mode(evidence)
    for i in range(len(mode)):
        for step in (-0.2, 0.2):
            z = mode.copy()
            z[i] += step
            assert evidence.log_density(z) < log_density


@pytest.mark.parametrize("y", [np.zeros(12), np.array([1.0, -1.0, 0.5])])
def test_mode_of_few_values_is_finite(y):
    x = STEP * np.arange(len(y))
    evidence = BasisEvidence.of(x, y, SEASONS, step=STEP, end=x[-1] + DAY, options=OPTIONS)
    mode, log_density = find_mode(evidence)
    assert np.isfinite(log_density)
    means, variances = evidence.moments(mode[None], x[-1] + STEP * np.arange(1, 4))
    assert np.all(np.isfinite(means)) and np.all(variances > 0.0)


def test_memory_is_linear_in_the_number_of_values():
    n = 20_000
    x = STEP * np.arange(n)
    y = np.sin(2 * np.pi * x / DAY)
    tracemalloc.start()
    evidence = BasisEvidence.of(x, y, SEASONS, step=STEP, end=x[-1] + DAY, options=OPTIONS)
    z = point(evidence)
    evidence.value_and_gradient(z)
    evidence.loo(z[None])
    evidence.moments(z[None], x[-1] + STEP * np.arange(1, 5))
    evidence.components(z[None], x[::100], LEVEL)
    evidence.rolling(z, [5000, 15_000], [24, 24])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * 8 * evidence.basis.size
