"""Networks of equinox, each array of which is a site of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.module import eqx_module, random_eqx_module

import bayeskern as bk

# A network of one layer without activation is a linear regression, whose posterior is known.
LAYER = eqx.nn.Linear(2, 1, key=jax.random.key(0))
X = np.random.default_rng(0).normal(size=(30, 2))
Y = X @ [1.0, -0.5] + 0.3 + 0.2 * np.random.default_rng(1).normal(size=30)
NOISE = 0.2


def with_prior(x, y=None):
    net = random_eqx_module("net", LAYER, prior=dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], NOISE), obs=y)


def without_prior(x, y=None):
    net = eqx_module("net", LAYER)
    numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], NOISE), obs=y)


def in_part(x, y=None):
    net = random_eqx_module("net", LAYER, prior={"weight": dist.Normal(0.0, 2.0)})
    numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], NOISE), obs=y)


def exact():
    """Mean and covariance of the two weights and the bias under priors of sd 2."""
    A = np.column_stack([X, np.ones(30)])
    covariance = np.linalg.inv(A.T @ A / NOISE**2 + np.eye(3) / 4.0)
    return covariance @ A.T @ Y / NOISE**2, covariance


@pytest.mark.slow
def test_layer_with_a_prior_is_linear_regression(tmp_path):
    posterior = bk.infer(with_prior, X, Y, method="laplace", progress=False)
    assert posterior.trust.verdict == "good"
    assert set(posterior.draws) == {"net/weight", "net/bias"}
    mean, covariance = exact()
    draws = np.hstack([posterior.flat["net/weight"][:, 0], posterior.flat["net/bias"]])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4 * np.sqrt(covariance.max() / 4000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.1 * covariance.max())
    # Its own prediction, and from a file.
    expected = np.column_stack([X[:5], np.ones(5)]) @ mean
    prediction = posterior.predict(X[:5])
    np.testing.assert_allclose(prediction.mean, expected, atol=0.03)
    posterior.save(tmp_path / "net.nc")
    again = bk.load(tmp_path / "net.nc", with_prior)
    np.testing.assert_array_equal(again.predict(X[:5]).mean, prediction.mean)


def test_layer_without_a_prior_has_a_mode_and_no_posterior():
    posterior = bk.infer(without_prior, X, Y, method="mle", progress=False)
    A = np.column_stack([X, np.ones(30)])
    mode = [*posterior.flat["net$params.weight"][0, 0], posterior.flat["net$params.bias"][0, 0]]
    np.testing.assert_allclose(mode, np.linalg.lstsq(A, Y)[0], atol=1e-4)
    with pytest.raises(ValueError, match=r"'net\$params.weight', 'net\$params.bias' has no prior"):
        bk.infer(without_prior, X, Y, method="nuts", progress=False)


@pytest.mark.slow
def test_arrays_without_a_prior_are_values_without_a_density():
    posterior = bk.infer(in_part, X, Y, method="map", progress=False)
    assert set(posterior.draws) == {"net/weight", "net$params.bias"}
    # A flat bias beside weights of prior sd 2.
    A = np.column_stack([X, np.ones(30)])
    mode = np.linalg.solve(A.T @ A / NOISE**2 + np.diag([0.25, 0.25, 0.0]), A.T @ Y / NOISE**2)
    fitted = [*posterior.flat["net/weight"][0, 0], posterior.flat["net$params.bias"][0, 0]]
    np.testing.assert_allclose(fitted, mode, atol=1e-4)


@pytest.mark.slow
def test_names_of_several_layers_are_those_of_numpyro():
    mlp = eqx.nn.MLP(1, 1, 3, 1, activation=jnp.tanh, key=jax.random.key(0))

    def model(x, y):
        net = random_eqx_module("net", mlp, prior=dist.Normal())
        numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], 0.1), obs=y)

    posterior = bk.infer(model, X[:, :1], Y, method="map", progress=False)
    names = [f"net/layers[{i}].{array}" for i in (0, 1) for array in ("weight", "bias")]
    assert list(posterior.draws) == names
