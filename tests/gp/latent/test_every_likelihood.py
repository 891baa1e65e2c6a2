"""Latent Gaussian processes with every likelihood against SciPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats
from scipy.optimize import minimize

import bayeskern as bk
from bayeskern.kernels import RBF
from tests.likelihoods.families import CASES, FIRST, SEVERAL, of_each_family

X = 1.5 * np.arange(6.0)
MEAN = 0.5


def covariance(n):
    return 0.8 * np.exp(-0.5 * np.square(X[:n, None] - X[:n]))


def values_of(case):
    """Values of y, (6,)."""
    y = np.resize(case.values, len(X))
    return np.minimum(y, case.extra["trials"]) if "trials" in case.extra else y


def log_joint(likelihood, f, y, extra):
    """Log joint density of y and f, (n,) or (outputs, n), which is sampled."""
    n = f.shape[-1]
    white = np.linalg.solve(np.linalg.cholesky(covariance(n)), (f - MEAN).T).T
    model = bk.LatentGP(RBF(variance=0.8), likelihood, MEAN, integrate=False, solver="dense")
    prepared, args = model.prepare(X[:n], y, **extra)
    found = float(log_density(prepared, args, {}, {"white": jnp.asarray(white)})[0])
    return found, stats.norm.logpdf(white).sum()


@of_each_family
def test_log_joint_density_is_prior_times_density_of_scipy(case):
    y = values_of(case)
    found, prior = log_joint(case.likelihood, case.eta, y, case.extra)
    # Jitter of the covariance moves f by about 1e-8.
    np.testing.assert_allclose(found, prior + np.sum(case.log_density(y)), rtol=1e-6)


@pytest.mark.parametrize("name", SEVERAL)
def test_log_joint_density_of_several_predictors(name):
    likelihood, eta, y = SEVERAL[name]
    labels = y if likelihood.classes is None else np.array(likelihood.classes)[y]
    found, prior = log_joint(likelihood, eta.T, labels, {})
    density = likelihood.distribution(jnp.asarray(eta)).log_prob(jnp.asarray(y))
    np.testing.assert_allclose(found, prior + np.sum(density), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in FIRST if not CASES[n].likelihood.kinked])
def test_log_marginal_by_laplace_from_the_mode_that_scipy_finds(name):
    case, K = CASES[name], covariance(6)
    y = values_of(case)

    def log_densities(f):
        return case._replace(predictor=f).log_density(y)

    def negative(f):
        return 0.5 * (f - MEAN) @ np.linalg.solve(K, f - MEAN) - np.sum(log_densities(f))

    mode = np.full(6, MEAN)
    for _ in range(2):
        mode = minimize(negative, mode, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14}).x
    h = 1e-3
    W = (2.0 * log_densities(mode) - log_densities(mode + h) - log_densities(mode - h)) / h**2
    wanted = -negative(mode) - 0.5 * np.linalg.slogdet(np.eye(6) + K * W)[1]
    process = bk.LatentProcess(RBF(variance=0.8), X, case.likelihood, MEAN, case.extra)
    np.testing.assert_allclose(process.log_prob(jnp.asarray(y)), wanted, rtol=0, atol=1e-5)
