"""Claims of notebook 12 (Gaussian processes from scratch) against formulas and SciPy."""

from functools import partial

import arviz as az
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

import bayeskern as bk
from bayeskern.kernels import RBF

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)
NOISE = 0.04
X = np.sort(RNG.uniform(0, 8, 14))
Y = np.sin(X) + np.sqrt(NOISE) * RNG.normal(size=14)
infer = partial(bk.infer, progress=False)


def close(actual, expected, rtol=1e-10, atol=1e-10):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


def rbf(x, z, lengthscale):
    return np.exp(-0.5 * (x[:, None] - z) ** 2 / lengthscale**2)


def noisy(x, lengthscale):
    return rbf(x, x, lengthscale) + NOISE * np.eye(len(x))


def by_scipy(lengthscale):
    """The log evidence."""
    return stats.multivariate_normal(np.zeros(14), noisy(X, lengthscale)).logpdf(Y)


def test_type_ii_maximises_the_evidence():
    model = bk.GPRegression(RBF(bk.Free(1.0)), noise=NOISE)
    found = infer(model, X, Y, method="mle").flat["lengthscale"][0]
    best = minimize_scalar(lambda t: -by_scipy(t), bounds=(0.5, 5.0), options={"xatol": 1e-9})
    close(found, best.x, rtol=1e-5)


def test_full_bayes_agrees_with_a_grid():
    model = bk.GPRegression(RBF(dist.LogNormal(0.0, 1.0)), noise=NOISE)
    posterior = infer(model, X, Y, method="nuts", seed=0)
    draws = posterior.draws["lengthscale"]
    grid = np.geomspace(0.05, 20.0, 600)
    log_joint = [by_scipy(t) + stats.lognorm(1.0).logpdf(t) for t in grid]
    density = np.exp(np.array(log_joint) - max(log_joint)) * grid  # Even in the logarithm.
    density /= density.sum()
    mean = density @ grid
    error = np.sqrt(density @ (grid - mean) ** 2 / az.ess(np.asarray(draws)))
    assert abs(np.mean(draws) - mean) < 5.0 * error
    # The variance of the mixture is the mean variance and the variance of the means.
    far = np.array([9.0])
    means, variances = [], []
    for t in grid:
        k, C = rbf(far, X, t)[0], noisy(X, t)
        means.append(k @ np.linalg.solve(C, Y))
        variances.append(1.0 - k @ np.linalg.solve(C, k))
    truth = density @ variances + density @ np.square(means) - (density @ means) ** 2
    close(posterior.predict(far, latent=True).variance, truth, rtol=0.15)
    free = bk.GPRegression(RBF(bk.Free(1.0)), noise=NOISE)
    type_2 = infer(free, X, Y, method="mle").predict(far, latent=True).sd[0]
    assert np.sqrt(truth) > 1.2 * type_2


@pytest.mark.parametrize("noise", [1e-3, 1e-8, 1e-12])
def test_cholesky_residual_is_small_for_any_condition(noise):
    many = np.linspace(0, 8, 100)
    C = rbf(many, many, 1.2) + noise * np.eye(100)
    a = RNG.normal(size=100)
    conditioned = bk.GaussianProcess(RBF(1.2), many, noise=noise).condition(C @ a)
    assert conditioned.residual < 1e-13
    # The weights themselves lose as many digits as the condition number has.
    error = np.linalg.norm(conditioned.weights - a) / np.linalg.norm(a)
    assert error < 100 * np.linalg.cond(C) * np.finfo(float).eps


def test_jitter_without_noise_is_of_rounding_size():
    many, between = np.linspace(0, 8, 100), np.linspace(0.04, 7.96, 99)
    conditioned = bk.GaussianProcess(RBF(1.2), many, noise=0.0).condition(np.sin(many))
    # 100 times the machine precision, or ten times that, and so on.
    growths = np.log10(float(conditioned.jitter) / (100 * np.finfo(float).eps))
    assert growths >= -1e-9
    close(growths, round(growths), atol=1e-6)
    mean = conditioned.predict(between, latent=True).mean
    close(mean, np.sin(between), atol=1e-6)
