"""The evidence in NumPy against the same model in JAX, whose kernels and gradients are its own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.forecast.model.kernels import default_kernel, default_noise
from bayeskern.gp.components import centered_components
from bayeskern.gp.numpy_evidence import NumpyEvidence
from bayeskern.gp.posterior import posterior_covariance, posterior_mean
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
    Matern32,
    Periodic,
)
from tests.marks import few

RNG = np.random.default_rng(17)
X = np.sort(RNG.uniform(0.0, 6.0, 40))
Y = np.sin(X) + 0.2 * RNG.normal(size=40)


def ln(location=0.0, scale=1.0):
    return dist.LogNormal(location, scale)


KERNELS = {
    "default": default_kernel({"season": 1.0}, 1.0, 3.0),
    "two seasons": default_kernel({"a": 1.0, "b": 0.25}, 1.0, 3.0),
    "scaled product": ln(-1.0) * (RBF(ln()) * Periodic(ln(0.3), ln(), ln())).named("a") + 0.3,
    "three factors": Linear(ln(), 2.0) * RBF(2.0, ln()) * Cosine(ln(1.0), ln()),
    "sum in a product": (RBF(ln()) + Constant(ln())) * (Linear(ln()) + Cosine(2.0, ln())),
    "line": Linear(ln(), ln(0.5)) + Constant(ln()),
    "level": Brownian(ln(), ln(1.2)) + Constant(ln()),
    "slope": IntegratedBrownian(ln(), ln(1.2)) + Linear(ln()),
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
    return NumpyEvidence.of(model, x, Y), BoundModel.of(model, (x, Y), {}, None, None).target()


@pytest.mark.parametrize("times", few(TIMES, "regular"))
@pytest.mark.parametrize("noise", few(NOISES, "default"))
@pytest.mark.parametrize("name", few(KERNELS, "default"))
def test_density_and_gradient_are_those_of_jax(name, noise, times):
    evidence, target = both(KERNELS[name], NOISES[noise], TIMES[times])
    assert evidence.names == tuple(site.name for site in target.latents)
    density = jax.jit(jax.value_and_grad(target.log_density))
    for z in evidence.middle + 0.7 * RNG.normal(size=(3, len(evidence.names))):
        value, gradient = evidence.value_and_gradient(z)
        assert evidence.log_density(z) == value
        expected, slope = density(jnp.asarray(z))
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-8 * abs(slope).max())


@pytest.mark.slow
def test_predictions_are_those_of_the_process():
    evidence, _ = both(KERNELS["default"], NOISES["default"])
    z = evidence.middle + 0.3
    model = bk.GPRegression(KERNELS["default"], NOISES["default"]).at(evidence.values(z))
    new = np.linspace(5.0, 8.0, 7)
    (mean,), (variance,) = evidence.moments(z[None], new)
    process = model.condition(X, Y)
    expected = process.predict(new, noise=model.noise)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8)
    paths = evidence.paths(z, new, 40_000, seed=3)
    covariance = process.covariance(new) + float(model.noise) * np.eye(7)
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(paths.T) / size, covariance / size, atol=5 / 200)
    assert np.all(np.abs(paths.mean(axis=0) - mean) < 4.5 * np.sqrt(variance) / 200)
    np.testing.assert_array_equal(paths, evidence.paths(z, new, 40_000, seed=3))


@pytest.mark.parametrize("times", few(TIMES, "regular"))
@pytest.mark.parametrize(
    "name", few(["default", "two seasons", "scaled product", "level"], "default")
)
def test_components_are_those_of_jax(name, times):
    evidence, target = both(KERNELS[name], NOISES["default"], TIMES[times])
    z = evidence.middle + 0.3 * RNG.normal(size=(2, len(evidence.names)))
    new = np.linspace(2.0, 8.0, 9)
    parts = evidence.components(z, new, "trend")
    expected = centered_components(
        target.model, evidence.values(z), target.args, new[:, None], "trend"
    )
    assert list(parts) == list(expected)
    for part, (means, variances) in parts.items():
        np.testing.assert_allclose(means, expected[part].parts[0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(variances, expected[part].parts[1], rtol=1e-6, atol=1e-8)


def test_values_left_out_are_those_of_the_process():
    evidence, _ = both(KERNELS["default"], NOISES["default"])
    z = evidence.middle + 0.3
    model = bk.GPRegression(KERNELS["default"], NOISES["default"]).at(evidence.values(z))
    expected = model.condition(X, Y).loo()
    for ours, theirs in zip(evidence.loo(z[None]), expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs, rtol=1e-7)


def test_changes_of_a_component_are_those_of_its_paths():
    evidence, target = both(KERNELS["default"], NOISES["default"])
    z, ends = evidence.middle + 0.3, np.array([0.5, 5.2])
    (mean,), (variance,) = evidence.changes(z[None], "season", ends)
    process = target.model.at(evidence.values(z)).condition(X, Y)
    K = posterior_covariance(process, "season", ends[:, None])
    expected = posterior_mean(process, "season", ends[:, None])
    np.testing.assert_allclose(mean, expected[1] - expected[0], rtol=1e-7)
    np.testing.assert_allclose(variance, K[0, 0] + K[1, 1] - 2.0 * K[0, 1], rtol=1e-6)


def test_noise_factors_are_noise_that_differs_from_value_to_value():
    evidence, _ = both(KERNELS["lone"], NOISES["plain"])
    factors, z = RNG.uniform(0.5, 3.0, len(X)), evidence.middle
    values = evidence.values(z)
    noise = values.pop("noise")
    kernel = KERNELS["lone"].at(values)
    expected = bk.GaussianProcess(kernel, X, noise * factors).log_prob(Y)
    prior = -0.5 * len(z) * np.log(2.0 * np.pi) - np.log(0.5)
    weighted = evidence.with_noise_factors(factors, 1.5)
    np.testing.assert_allclose(weighted.log_density(z), expected + prior + 1.5, rtol=1e-10)
    step = 1e-5 * np.eye(len(z))
    slopes = [weighted.log_density(z + h) - weighted.log_density(z - h) for h in step]
    gradient = weighted.value_and_gradient(z)[1]
    np.testing.assert_allclose(gradient, np.array(slopes) / 2e-5, rtol=1e-5, atol=1e-7)


def test_where_there_is_no_factor_there_is_no_density():
    evidence, _ = both(RBF(ln(), ln()), 0.0)
    value, gradient = evidence.value_and_gradient(np.array([9.0, 3.0]))
    assert value == -np.inf and np.all(gradient == 0.0)
    assert np.all(np.isnan(evidence.moments(np.array([[9.0, 3.0]]), X[:2])))


def test_a_model_without_free_hyperparameters_has_the_evidence_of_its_process():
    evidence, _ = both(RBF(0.9, 1.2), 0.1)
    value, gradient = evidence.value_and_gradient(np.zeros(0))
    expected = bk.GaussianProcess(RBF(0.9, 1.2), X, 0.1).log_prob(Y)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    assert gradient.shape == (0,)


@pytest.mark.parametrize(
    "model",
    [
        bk.GPRegression(Matern32(ln()), 0.1),
        bk.GPRegression(RBF(dist.Gamma(2.0, 1.0)), 0.1),
        bk.GPRegression(RBF(lengthscale=[1.0, 2.0]), 0.1),
        bk.GPRegression(RBF(ln()).on([0]), 0.1),
        bk.GPRegression(RBF(ln()), 0.1, mean=1.0),
        bk.GPRegression(RBF(ln()), 0.1, mean=dist.Normal()),
        bk.GPRegression(RBF(ln()), bk.from_sd(dist.LogNormal())),
        bk.GPRegression(RBF(dist.LogNormal(np.zeros(2))), 0.1),
        bk.GPRegression(2.0 * (RBF(ln()).named("a") + Constant().named("b")), 0.1),
    ],
    ids=repr,
)
def test_other_models_are_left_to_jax(model):
    assert NumpyEvidence.of(model, X, Y) is None
