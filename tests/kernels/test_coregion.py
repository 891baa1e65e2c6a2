"""Correlated outputs against Kronecker products and Gaussians written out in NumPy and SciPy."""

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from numpyro import handlers

import bayeskern as bk
from bayeskern.kernels import RBF, Coregion, Free, Matern12, sample
from bayeskern.kernels.description import InputAxis

RNG = np.random.default_rng(4)
W, KAPPA = RNG.normal(size=(3, 2)), np.array([0.5, 0.0, 1.3])
B = W @ W.T + np.diag(KAPPA)
BETWEEN = Coregion(outputs=3, rank=2, weights=W, kappa=KAPPA)


def rbf(x, z):
    return np.exp(-0.5 * np.subtract.outer(x, z) ** 2 / 0.8**2)


def pairs(x, outputs=3):
    """Every output at every x, the outputs changing slowest."""
    return np.column_stack([np.tile(x, outputs), np.repeat(np.arange(outputs), len(x))])


def test_all_outputs_at_all_points_give_a_kronecker_product():
    x, z = RNG.normal(size=5), RNG.normal(size=4)
    kernel = RBF(0.8).on([0]) * BETWEEN.on([1])
    X, Z = pairs(x), pairs(z)
    np.testing.assert_allclose(kernel(X), np.kron(B, rbf(x, x)), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernel(X, Z), np.kron(B, rbf(x, z)), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(X), np.repeat(np.diag(B), 5), rtol=1e-13)
    # The outputs need not be seen at the same points, nor in any order.
    rows = RNG.permutation(15)[:9]
    expected = np.kron(B, rbf(x, x))[np.ix_(rows, rows)]
    np.testing.assert_allclose(kernel(X[rows]), expected, rtol=1e-13, atol=1e-14)


def test_features():
    phi = BETWEEN.feature_map([2.0, 0.0])
    assert phi.shape == (2, 2 + 3)
    np.testing.assert_allclose(phi @ phi.T, B[np.ix_([2, 0], [2, 0])], rtol=1e-13)


@pytest.mark.slow
def test_a_process_of_three_outputs():
    x = np.linspace(0.0, 20.0, 86)
    X, noise = pairs(x), 0.2
    frame = pd.DataFrame(X, columns=["time", "output"])
    kernel = RBF(0.8).on(["time"]) * BETWEEN.on(["output"])
    process = bk.GaussianProcess(kernel, frame, noise)
    assert process.explain().solver == "kronecker"
    C = np.kron(B, rbf(x, x)) + noise * np.eye(len(X))
    y = RNG.multivariate_normal(np.zeros(len(X)), C)
    expected = scipy.stats.multivariate_normal(np.zeros(len(X)), C).logpdf(y)
    assert float(process.log_prob(y)) == pytest.approx(expected, rel=1e-10)
    new, outputs = [0.31, 7.7, 22.0], [0, 2, 1]
    prediction = process.condition(y).predict(
        pd.DataFrame({"time": new, "output": outputs}), latent=True
    )
    cross = [np.kron(B[j], rbf(x, v)) for v, j in zip(new, outputs, strict=True)]
    cross = np.stack(cross, axis=1)
    solved = np.linalg.solve(C, cross)
    np.testing.assert_allclose(prediction.mean, solved.T @ y, rtol=1e-8, atol=1e-10)
    variance = np.diag(B)[outputs] - np.sum(cross * solved, axis=0)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-8)


def test_scalar_prior_applies_to_every_weight():
    kernel = Coregion(3, 2, weights=dist.Normal(0.5, 2.0), kappa=dist.HalfNormal(1.5))
    with handlers.seed(rng_seed=0), handlers.trace() as trace:
        drawn = sample(kernel)
    assert drawn.weights.shape == (3, 2) and drawn.kappa.shape == (3,)
    assert len(np.unique(drawn.weights)) == 6
    densities = {name: np.sum(trace[name]["fn"].log_prob(trace[name]["value"])) for name in trace}
    assert densities == {
        "weights": pytest.approx(scipy.stats.norm(0.5, 2.0).logpdf(drawn.weights).sum()),
        "kappa": pytest.approx(scipy.stats.halfnorm(scale=1.5).logpdf(drawn.kappa).sum()),
    }
    free = Coregion(3, 2, weights=Free(0.3), kappa=Free([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(free.weights.init, np.full((3, 2), 0.3))
    np.testing.assert_array_equal(free.kappa.init, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(Coregion(2)([0.0, 1.0]), [[2.0, 1.0], [1.0, 2.0]])


@pytest.mark.slow
def test_mode_of_the_weights_matches_scipy():
    """The mode against SciPy's, of the density written with SciPy."""
    x = np.linspace(0.0, 4.0, 6)
    X, noise = pairs(x, 2), 0.1
    L = np.linalg.cholesky(np.kron([[1.5, -1.2], [-1.2, 1.3]], rbf(x, x)) + noise * np.eye(12))
    y = L @ RNG.normal(size=12)
    kernel = RBF(0.8).on([0]) * Coregion(2, weights=dist.Normal(0.3, 1.0), kappa=0.2).on([1])
    model = bk.GPRegression(kernel, noise)
    point = bk.infer(model, X, y, method="map", seed=0).point("mean")
    mode = np.asarray(point["coregion.weights"])[:, 0]

    def loss(w):
        C = np.kron(np.outer(w, w) + 0.2 * np.eye(2), rbf(x, x)) + noise * np.eye(12)
        likelihood = scipy.stats.multivariate_normal(np.zeros(12), C).logpdf(y)
        return -likelihood - scipy.stats.norm(0.3, 1.0).logpdf(w).sum()

    starts = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    best = min((scipy.optimize.minimize(loss, start) for start in starts), key=lambda r: r.fun)
    assert loss(mode) == pytest.approx(best.fun, abs=1e-6)
    np.testing.assert_allclose(mode, best.x, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outputs": 0}, "outputs must be a whole number of at least 1, got 0"),
        ({"outputs": 2, "rank": 1.5}, "rank must be a whole number of at least 1, got 1.5"),
        (
            {"outputs": 2, "weights": [1.0, 2.0]},
            r"Coregion.weights has shape \(2,\): give it the shape \(2, 1\), or one number",
        ),
        ({"outputs": 2, "kappa": dist.Gamma(np.ones(3), 1.0)}, r"kappa has shape \(3,\)"),
        ({"outputs": 2, "kappa": [1.0, -0.1]}, "Coregion.kappa must be nonnegative and finite"),
        ({"outputs": 2, "kappa": dist.Normal(0.0, 1.0)}, "kappa must be nonnegative, but .*below"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Coregion(**arguments)


@pytest.mark.parametrize("output", [3.0, -1.0, 0.5])
def test_unknown_output_is_refused(output):
    with pytest.raises(
        ValueError, match=rf"row 1 has the output {output}.* accepts 0 to 2. Number"
    ):
        BETWEEN([0.0, output])
    assert np.isnan(jax.jit(lambda X: BETWEEN(X))(np.array([0.0, output]))[0, 1])


def test_wrong_columns_and_shapes_are_refused():
    with pytest.raises(ValueError, match=r"2 columns; select the column.*\.on\(column\)"):
        BETWEEN(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"Coregion.weights has shape \(\): .*\(3, 2\)"):
        BETWEEN.at({"weights": 2.0})([0.0])


def test_description_and_repr():
    axis = InputAxis("", (1.0, 1.0), ("time", "output"))
    assert BETWEEN.on([1]).describe(axis) == ("ties 3 outputs together (in output)")
    assert repr(Coregion(2) * Matern12()) == (
        "Coregion(outputs=2, rank=1, weights=[[1.0], [1.0]], kappa=[1.0, 1.0]) * "
        "Matern12(lengthscale=1.0, variance=1.0)"
    )
