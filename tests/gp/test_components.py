"""Centred components against NumPy: the joint Gaussian of data and components, conditioned."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.gp.components import centered_components
from bayeskern.kernels import RBF, Constant, Linear, Periodic
from tests.marks import few

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 4, 12))[:, None]
Y = np.sin(2 * np.pi * X[:, 0]) + X[:, 0] + 0.2 * rng.standard_normal(12)
NEW = np.array([[-0.5], [1.0], [2.2], [4.0], [5.5]])
DRAWS = {"noise": np.array([0.05, 0.4, 0.1]), "season.variance": np.array([1.0, 0.3, 2.0])}


def linear(A, B, variance, center):
    return variance * (A - center) @ (B - center).T


def rbf(A, B, lengthscale, variance):
    return variance * np.exp(-0.5 * ((A - B.T) / lengthscale) ** 2)


def periodic(A, B, lengthscale, variance):
    return variance * np.exp(-2 * np.sin(np.pi * (A - B.T)) ** 2 / lengthscale**2)


def brute_force(parts, noise, X, y, new, level):
    """Mean and covariance of every component at `new`, centred over X, given y.

    parts: name -> covariance function. Works on the stacked vector (f_1(X), f_1(new), f_2(X), ...),
    of which y and the centred components are linear maps.
    """
    n, m = len(X), len(new)
    points = np.vstack([X, new])
    names = list(dict.fromkeys([level, *parts]))
    zero = np.zeros((n + m, n + m))
    prior = [parts[name](points, points) if name in parts else zero for name in names]
    blocks = [[p if i == j else zero for j in range(len(names))] for i, p in enumerate(prior)]
    joint = np.block(blocks)
    to_data = np.hstack([np.hstack([np.eye(n), np.zeros((n, m))]) for _ in names])
    average = np.hstack([np.full((m, n), 1 / n), np.zeros((m, m))])
    here = np.hstack([np.zeros((m, n)), np.eye(m)])
    nothing = np.zeros((m, n + m))
    found = {}
    for i, name in enumerate(names):
        if name == level:
            row = [here if i == j else average for j in range(len(names))]
        else:
            row = [here - average if i == j else nothing for j in range(len(names))]
        A = np.hstack(row)
        K = to_data @ joint @ to_data.T + noise * np.eye(n)
        gain = A @ joint @ to_data.T @ np.linalg.inv(K)
        found[name] = gain @ y, A @ joint @ A.T - gain @ to_data @ joint @ A.T
    return found


def model(trend=True):
    kernel = Periodic(1.0, 1.3, dist.LogNormal(0, 1)).named("season") + RBF(0.7, 0.5)
    if trend:
        kernel = (Linear(0.6, 1.5) + Constant(2.0)).named("trend") + kernel
    return bk.GPRegression(kernel, dist.LogNormal(0, 1))


def truth(i, trend=True):
    parts = {
        "season": lambda A, B: periodic(A, B, 1.3, DRAWS["season.variance"][i]),
        "rest": lambda A, B: rbf(A, B, 0.7, 0.5),
    }
    if trend:
        parts["trend"] = lambda A, B: linear(A, B, 0.6, 1.5) + 2.0
    return brute_force(parts, DRAWS["noise"][i], X, Y, NEW, "trend")


@pytest.mark.parametrize("trend", few([True, False], True), ids=["its own trend", "no trend"])
@pytest.mark.parametrize("masked", few([False, True], True))
def test_centered_components_equal_the_conditioned_gaussian(trend, masked):
    data = (jnp.asarray(X), jnp.asarray(Y))
    if masked:  # three more rows, in the middle, that do not count
        order = np.argsort(np.append(np.arange(12), [2.5, 2.6, 7.5]))
        mask = np.append(np.ones(12, bool), np.zeros(3, bool))[order]
        more = np.vstack([X, [[9.0], [0.0], [-3.0]]])[order]
        data = (jnp.asarray(more), jnp.asarray(np.append(Y, [7.0, -9.0, 0.0])[order]), mask)
    found = centered_components(model(trend), DRAWS, data, jnp.asarray(NEW), "trend")
    assert list(found) == ["trend", "season", "rest"]
    for i in range(3):
        for name, (mean, covariance) in truth(i, trend).items():
            means, variances = found[name].parts
            np.testing.assert_allclose(means[i], mean, rtol=1e-8, atol=1e-10, err_msg=name)
            np.testing.assert_allclose(variances[i], np.diag(covariance), rtol=1e-8, atol=1e-10)


def test_centered_components_have_no_joint_draws():
    found = centered_components(model(), DRAWS, (jnp.asarray(X), jnp.asarray(Y)), NEW, "trend")
    with pytest.raises(ValueError, match="no joint draws"):
        found["season"].sample(3)
