"""Claims of notebook 11 (Bayesian learning) against formulas and integrals."""

from functools import partial

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.preprocessing import FunctionTransformer

import bayeskern as bk
from bayeskern.course import coefficient_path
from bayeskern.kernels import RBF

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(11)
infer = partial(bk.infer, progress=False)


def close(actual, expected, rtol=1e-10, atol=1e-10):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


# -- a line ----------------------------------------------------------------------------------------

NOISE, ALPHA = 0.04, 2.0


@pytest.fixture
def line():
    x = RNG.uniform(-1, 1, 20)
    return x, -0.3 + 0.5 * x + 0.2 * RNG.normal(size=20)


@pytest.mark.parametrize("n", [1, 2, 20])
def test_posterior_of_a_line_on_a_grid(line, n):
    x, y = (values[:n] for values in line)
    X = np.column_stack([np.ones(n), x])
    model = bk.BayesianLinearRegression(prior_sd=ALPHA**-0.5, noise_variance=NOISE, intercept=False)
    weights = infer(model, X, y, method="exact").predict(np.eye(2), latent=True)
    # A sum over a fine grid that holds all of the mass.
    axes = [
        m + sd * np.linspace(-9, 9, 301) for m, sd in zip(weights.mean, weights.sd, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    log_joint = stats.norm(grid @ X.T, NOISE**0.5).logpdf(y).sum(-1)
    log_joint += stats.norm(0, ALPHA**-0.5).logpdf(grid).sum(-1)
    density = np.exp(log_joint - log_joint.max())
    density /= density.sum()
    mean = np.einsum("ij,ijk->k", density, grid)
    close(weights.mean, mean, rtol=1e-6, atol=1e-8)
    close(weights.variance, np.einsum("ij,ijk->k", density, (grid - mean) ** 2), rtol=1e-6)


def test_predictive_variance_far_from_the_data(line):
    x, y = line
    centres, far = np.linspace(-1, 1, 9), [[40.0]]
    bumps = FunctionTransformer(lambda X: np.exp(-0.5 * ((X - centres) / 0.4) ** 2))
    by_bumps = bk.BayesianLinearRegression(
        bumps, prior_sd=ALPHA**-0.5, noise_variance=NOISE, intercept=False
    )
    process = bk.GPRegression(RBF(0.4, variance=1 / ALPHA), noise=NOISE)
    by_line = bk.BayesianLinearRegression(
        prior_sd=ALPHA**-0.5, noise_variance=NOISE, intercept=dist.Normal(0.0, ALPHA**-0.5)
    )
    variances = [
        infer(model, x[:, None], y, method="exact").predict(far).variance[0]
        for model in (by_bumps, process, by_line)
    ]
    X = np.column_stack([np.ones(20), x])
    S = np.linalg.inv(ALPHA * np.eye(2) + X.T @ X / NOISE)
    at = np.array([1.0, 40.0])
    close(variances, [NOISE, NOISE + 1 / ALPHA, NOISE + at @ S @ at])


# -- penalties and priors --------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "order"), [("ridge", 2), ("lasso", 1)])
def test_penalised_solution_is_constrained_least_squares(kind, order):
    X = RNG.normal(size=(60, 2))
    y = X @ [0.4, 1.2] + 0.5 * RNG.normal(size=60)
    b = coefficient_path(X, y, [60.0], kind=kind).coefficients[0]
    radius = np.linalg.norm(b, ord=order)

    # b = u - v with u, v >= 0 makes the norms smooth.
    def split(point):
        return point[:2] - point[2:]

    def room(point):
        return radius**order - np.sum((point[:2] + point[2:]) ** order)

    best = minimize(
        lambda point: np.mean((y - X @ split(point)) ** 2),
        np.full(4, 0.1),
        bounds=[(0, None)] * 4,
        constraints={"type": "ineq", "fun": room},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert best.success
    close(b, split(best.x), rtol=1e-4, atol=1e-5)
