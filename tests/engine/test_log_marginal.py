"""Log density in NumPy against the same model in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayeskern as bk
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.prior import NumpyPrior
from bayeskern.forecast.model.kernels import default_noise
from bayeskern.forecast.model.trends import TRENDS, default_kernel
from bayeskern.gp.components import centered_components
from bayeskern.gp.posterior import ProcessPredictive
from bayeskern.inference.model.bound import BoundModel
from bayeskern.kernels import (
    RBF,
    Brownian,
    ChangePoint,
    Constant,
    Cosine,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    Linear,
    Matern12,
    Matern32,
    Periodic,
    Seasonal,
)
from tests.marks import few

RNG = np.random.default_rng(17)
X = np.sort(RNG.uniform(0.0, 6.0, 40))
Y = np.sin(X) + 0.2 * RNG.normal(size=40)


def ln(location=0.0, scale=1.0):
    return dist.LogNormal(location, scale)


# The structures of forecasts, each with a season.
STRUCTURES = {trend: default_kernel(trend, {"season": 1.0}) for trend in TRENDS}
KERNELS = {
    **STRUCTURES,
    "two seasons": default_kernel("drift", {"a": 1.0, "b": 0.25}),
    "changes": default_kernel("slope", {"season": 1.0}, (2.1, 4.0), 0.02),
    "season": Seasonal(ln(), ln(-0.5), ln()) + Matern12(ln(), ln()),
    "drifting season": (Constant(ln()) + Brownian(ln(), 1.2)) * Seasonal(1.0, ln(-0.5), 1.0),
    "scaled product": ln(-1.0) * (RBF(ln()) * Periodic(ln(0.3), ln(), ln())).named("a") + 0.3,
    "three factors": Linear(ln(), 2.0) * RBF(2.0, ln()) * Cosine(ln(1.0), ln()),
    "sum in a product": (RBF(ln()) + Constant(ln())) * (Linear(ln()) + Cosine(2.0, ln())),
    "line": Linear(ln(), ln(0.5)) + Constant(ln()),
    "level": Brownian(ln(), ln(1.2)) + Constant(ln()),
    "integrated level": IntegratedBrownian(ln(), ln(1.2)) + Linear(ln()),
    "damped slope": IntegratedOrnsteinUhlenbeck(ln(), ln(), ln(1.2)) * Brownian() + Constant(ln()),
    "lone": RBF(ln(), ln()),
    "change": ChangePoint(RBF(ln(), ln()), Linear(ln(), 2.0), ln(1.0), ln(-1.0)) + Brownian(ln()),
    "sums of both kinds": (RBF(ln()) + Linear(ln(), 4.0)) * (Linear(ln()) + Cosine(2.0, ln())),
}
NOISES = {"default": default_noise(), "plain": ln(-2.0, 0.5), "known": 0.1}


# At any times, and at regular ones with gaps, of which each lag is looked at once.
TIMES = {"irregular": X, "regular": np.flatnonzero(np.arange(46) % 9 != 4)[:40] / 12.0 + 3.0}


def both(kernel, noise, x=X):
    model = bk.GPRegression(kernel, noise)
    series = DenseLogMarginal(NumpyPrior(kernel, noise), x, Y)
    return series, BoundModel.from_model(model, (x, Y), {}, None, None).target()


@pytest.mark.parametrize("times", few(TIMES, "regular"))
@pytest.mark.parametrize("noise", few(NOISES, "default"))
@pytest.mark.parametrize("name", few(KERNELS, "slope", "smooth"))
def test_density_and_gradient_equal_jax(name, noise, times):
    series, target = both(KERNELS[name], NOISES[noise], TIMES[times])
    assert series.names == tuple(site.name for site in target.latents)
    density = jax.jit(jax.value_and_grad(target.log_density))
    rng = np.random.default_rng(3)
    for z in series.middle + 0.7 * rng.normal(size=(3, len(series.names))):
        value, gradient = series.value_and_gradient(z)
        assert series.log_density(z) == value
        expected, slope = density(jnp.asarray(z))
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-8 * abs(slope).max())


def by_hand(name, series, z, x=X):
    """Covariance of the function (n, n) by the kernel in JAX, and the noise variance at z."""
    values = {key: float(v) for key, v in series.values(z).items()}
    noise = values.pop("noise")
    return np.asarray(KERNELS[name].at(values)(x)), noise


@pytest.mark.parametrize("name", few(STRUCTURES, "slope"))
def test_predictions_equal_gaussian_process(name):
    series, _ = both(KERNELS[name], NOISES["default"])
    z = series.middle + 0.3
    model = bk.GPRegression(KERNELS[name], NOISES["default"]).at(series.values(z))
    new = np.linspace(5.0, 8.0, 7)
    process = model.condition(X, Y)
    expected = process.predict(new, noise=model.noise)
    covariance = np.asarray(process.covariance(new))
    mean, joint = series.joint(z, new)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-10)
    noise = float(model.noise) * np.eye(7)
    np.testing.assert_allclose(joint, covariance + noise, rtol=1e-7, atol=1e-9)
    (mean,), (variance,) = series.moments(z[None], new)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8)
    predictive = series.predictive(z[None], new)
    np.testing.assert_allclose(predictive.log_densities, [series.log_density(z)], rtol=1e-12)
    np.testing.assert_allclose(predictive.means, [expected.mean], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(predictive.covariances, [covariance], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(predictive.noise, [float(model.noise)], rtol=1e-12)


def test_new_values_do_not_have_the_noise_factors_of_the_data():
    series, _ = both(KERNELS["slope"], NOISES["default"])
    z, new, factors = series.middle, np.array([5.0, 8.0]), np.linspace(0.5, 4.0, len(Y))
    predictive = series.with_noise_factors(factors, -2.0).predictive(z[None], new)
    K, noise = by_hand("slope", series, z, np.append(X, new))
    n = len(Y)
    data = K[:n, :n] + noise * np.diag(factors)
    weights = np.linalg.solve(data, K[:n, n:])
    np.testing.assert_allclose(predictive.means, [weights.T @ Y], rtol=1e-8)
    covariance = K[n:, n:] - K[:n, n:].T @ weights
    np.testing.assert_allclose(predictive.covariances, [covariance], rtol=1e-8, atol=1e-10)
    marginal = scipy.stats.multivariate_normal.logpdf(Y, cov=data)
    expected = marginal + series.prior.log_density(z) - 2.0
    np.testing.assert_allclose(predictive.log_densities, [expected], rtol=1e-10)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", few(STRUCTURES, "reverting"))
def test_rolling_forecasts_condition_on_earlier_values(name, times):
    """Direct conditional distribution of the next values given the first n."""
    series, _ = both(KERNELS[name], NOISES["default"], TIMES[times])
    z = series.middle - 0.4
    K, noise = by_hand(name, series, z, TIMES[times])
    counts, reach = [5, 17, 30, 39], [4, 12, 6, 1]
    pairs = series.rolling(z, counts, reach)
    for n, k, (means, variances) in zip(counts, reach, pairs, strict=True):
        ahead = slice(n, n + k)
        weights = np.linalg.solve(K[:n, :n] + noise * np.eye(n), K[:n, ahead])
        np.testing.assert_allclose(means, weights.T @ Y[:n], rtol=1e-7, atol=1e-9)
        expected = np.diag(K[ahead, ahead]) - np.sum(weights * K[:n, ahead], axis=0) + noise
        np.testing.assert_allclose(variances, expected, rtol=1e-7)
    # What comes after an origin does not matter to it.
    later = series.given(TIMES[times], np.where(np.arange(40) < 17, Y, 100.0))
    for ours, theirs in zip(later.rolling(z, [17], [12])[0], pairs[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rolling_forecasts_ignore_noise_factors_of_new_values():
    """Noise factors are known only after the value."""
    series, _ = both(KERNELS["lone"], NOISES["default"])
    z, factors = series.middle, RNG.uniform(0.5, 30.0, 40)
    K, noise = by_hand("lone", series, z)
    ((means, variances),) = series.with_noise_factors(factors, 0.0).rolling(z, [20], [9])
    weights = np.linalg.solve(K[:20, :20] + noise * np.diag(factors[:20]), K[:20, 20:29])
    np.testing.assert_allclose(means, weights.T @ Y[:20], rtol=1e-7)
    expected = np.diag(K)[20:29] - np.sum(weights * K[:20, 20:29], axis=0) + noise
    np.testing.assert_allclose(variances, expected, rtol=1e-7)


@pytest.mark.parametrize("times", few(TIMES, "regular"))
@pytest.mark.parametrize(
    "name", few([*STRUCTURES, "two seasons", "scaled product", "level"], "smooth")
)
def test_components_equal_jax(name, times):
    series, target = both(KERNELS[name], NOISES["default"], TIMES[times])
    z = series.middle + 0.3 * RNG.normal(size=(2, len(series.names)))
    new = np.linspace(2.0, 8.0, 9)
    parts = series.components(z, new, "trend")
    expected = centered_components(
        target.model, series.values(z), target.args, new[:, None], "trend"
    )
    assert list(parts) == list(expected)
    for part, (means, variances) in parts.items():
        np.testing.assert_allclose(means, expected[part].parts[0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(variances, expected[part].parts[1], rtol=1e-6, atol=1e-8)


def test_loo_equals_gaussian_process():
    series, _ = both(KERNELS["smooth"], NOISES["default"])
    z = series.middle + 0.3
    model = bk.GPRegression(KERNELS["smooth"], NOISES["default"]).at(series.values(z))
    expected = model.condition(X, Y).loo()
    for ours, theirs in zip(series.loo(z[None]), expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs, rtol=1e-7)


def test_changes_of_component_equal_posterior_covariance():
    series, target = both(KERNELS["smooth"], NOISES["default"])
    z, ends = series.middle + 0.3, np.array([0.5, 5.2])
    (mean,), (variance,) = series.changes(z[None], "season", ends)
    process = target.model.at(series.values(z)).condition(X, Y)
    K = process.solver.covariance(process.matrix, "season", process.factor, ends[:, None])
    expected = ProcessPredictive(process, "season", ends[:, None], 0.0, 0.0).mean()
    np.testing.assert_allclose(mean, expected[1] - expected[0], rtol=1e-7)
    np.testing.assert_allclose(variance, K[0, 0] + K[1, 1] - 2.0 * K[0, 1], rtol=1e-6)


def test_noise_factors_scale_noise_of_each_value():
    series, _ = both(KERNELS["lone"], NOISES["plain"])
    factors, z = RNG.uniform(0.5, 3.0, len(X)), series.middle
    values = series.values(z)
    noise = values.pop("noise")
    kernel = KERNELS["lone"].at(values)
    expected = bk.GaussianProcess(kernel, X, noise * factors).log_prob(Y)
    prior = -0.5 * len(z) * np.log(2.0 * np.pi) - np.log(0.5)
    weighted = series.with_noise_factors(factors, 1.5)
    np.testing.assert_allclose(weighted.log_density(z), expected + prior + 1.5, rtol=1e-10)
    step = 1e-5 * np.eye(len(z))
    slopes = [weighted.log_density(z + h) - weighted.log_density(z - h) for h in step]
    gradient = weighted.value_and_gradient(z)[1]
    np.testing.assert_allclose(gradient, np.array(slopes) / 2e-5, rtol=1e-5, atol=1e-7)


def test_density_without_factor_is_zero():
    series, _ = both(RBF(ln(), ln()), 0.0)
    z = np.array([9.0, 3.0])
    value, gradient = series.value_and_gradient(z)
    assert value == -np.inf and np.all(gradient == 0.0)
    assert np.all(np.isnan(series.moments(z[None], X[:2])))
    assert np.all(np.isnan(series.rolling(z, [20], [3])))


def test_density_without_free_hyperparameters():
    series, _ = both(RBF(0.9, 1.2), 0.1)
    value, gradient = series.value_and_gradient(np.zeros(0))
    expected = bk.GaussianProcess(RBF(0.9, 1.2), X, 0.1).log_prob(Y)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    assert gradient.shape == (0,)


WITHOUT_FORMULA = {
    "kernel": (Matern32(ln()), 0.1),
    "prior": (RBF(dist.Gamma(2.0, 1.0)), 0.1),
    "lengthscales": (RBF(lengthscale=[1.0, 2.0]), 0.1),
    "columns": (RBF(ln()).on([0]), 0.1),
    "noise": (RBF(ln()), bk.from_sd(dist.LogNormal())),
    "priors": (RBF(dist.LogNormal(np.zeros(2))), 0.1),
    "names in a product": (2.0 * (RBF(ln()).named("a") + Constant().named("b")), 0.1),
}


@pytest.mark.parametrize("name", WITHOUT_FORMULA)
def test_unsupported_kernels_and_priors_are_refused(name):
    with pytest.raises(NotImplementedError):
        NumpyPrior(*WITHOUT_FORMULA[name])
