"""The evidence in NumPy against the same model in JAX, whose kernels and gradients are its own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.forecast.model import default_kernel, default_noise
from bayeskern.gp.numpy_evidence import NumpyEvidence
from bayeskern.inference.model.bound import BoundModel
from bayeskern.kernels import (
    RBF,
    Brownian,
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
def test_density_gradient_and_curvature_are_those_of_jax(name, noise, times):
    evidence, target = both(KERNELS[name], NOISES[noise], TIMES[times])
    assert evidence.names == tuple(site.name for site in target.latents)
    density = jax.jit(jax.value_and_grad(target.log_density))
    for z in evidence.middle + 0.7 * RNG.normal(size=(3, len(evidence.names))):
        value, gradient = evidence.log_density(z)
        expected, slope = density(jnp.asarray(z))
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-8 * abs(slope).max())
    curvature = -np.asarray(jax.jit(jax.hessian(target.log_density))(jnp.asarray(z)))
    atol = 1e-6 * np.abs(curvature).max()
    np.testing.assert_allclose(evidence.curvature(z), curvature, rtol=1e-4, atol=atol)


def test_predictions_are_those_of_the_process():
    evidence, _ = both(KERNELS["default"], NOISES["default"])
    z = evidence.middle + 0.3
    model = bk.GPRegression(KERNELS["default"], NOISES["default"]).at(evidence.values(z))
    new = np.linspace(5.0, 8.0, 7)
    mean, variance = evidence.predict(z, new)
    process = model.condition(X, Y)
    expected = process.predict(new, noise=model.noise)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8)
    # Unit vectors in place of normal draws show the factor of the covariance.
    factor = (evidence.draw(z, new, np.eye(7)) - mean).T
    covariance = process.covariance(new) + float(model.noise) * np.eye(7)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-7, atol=1e-9)


def test_where_there_is_no_factor_there_is_no_density():
    evidence, _ = both(RBF(ln(), ln()), 0.0)
    value, gradient = evidence.log_density(np.array([9.0, 3.0]))
    assert value == -np.inf and np.all(gradient == 0.0)
    assert np.all(np.isnan(evidence.predict(np.array([9.0, 3.0]), X[:2])))


def test_a_model_without_free_hyperparameters_has_the_evidence_of_its_process():
    evidence, _ = both(RBF(0.9, 1.2), 0.1)
    value, gradient = evidence.log_density(np.zeros(0))
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
    ],
    ids=repr,
)
def test_other_models_are_left_to_jax(model):
    assert NumpyEvidence.of(model, X, Y) is None
