"""Verdicts on predictions: by quadrature, by draws made wrong on purpose, and by long chains."""

from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.kernels import RBF
from bayeskern.likelihoods import Poisson
from tests.marks import few

X, COUNTS, NEW = np.array([0.0, 1.0]), np.array([30, 2]), np.array([0.4])
METHODS = {
    "laplace": bk.Laplace(),
    "svi": bk.SVI("full_rank"),
    "importance": bk.ImportanceSampling(),
    "nuts": bk.NUTS(),
}


def exact_rate():
    """Mean and sd of the rate, and mean and sd of f, at NEW: by quadrature over (f_0, f_1)."""
    f = np.linspace(-6.0, 8.0, 801)
    f0, f1 = np.meshgrid(f, f, indexing="ij")
    rho = np.exp(-0.5)
    log_p = norm.logpdf(f0) + norm.logpdf(f1, rho * f0, np.sqrt(1.0 - rho**2))
    log_p += COUNTS[0] * f0 - np.exp(f0) + COUNTS[1] * f1 - np.exp(f1)
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    K = np.array([[1.0, rho], [rho, 1.0]])
    k = np.exp(-0.5 * (NEW - X) ** 2)
    b = np.linalg.solve(K, k)
    mean, variance = b[0] * f0 + b[1] * f1, 1.0 - k @ b
    first = np.sum(weights * np.exp(mean + 0.5 * variance))
    f_mean = np.sum(weights * mean)
    f_sd = np.sqrt(variance + np.sum(weights * (mean - f_mean) ** 2))
    return first, f_mean, f_sd


def latent_gp(method, seed):
    model = bk.LatentGP(RBF(1.0), Poisson())
    return bk.infer(model, X, COUNTS, method=METHODS[method], seed=seed, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("case", few([f"{m} {s}" for m in METHODS for s in range(10)], "laplace 0"))
def test_a_good_prediction_keeps_its_promise(case):
    method, seed = case.split()
    posterior = latent_gp(method, int(seed))
    rate, mean, sd = exact_rate()
    assert rate == pytest.approx(14.29, abs=0.01)
    for draws in (None, 200, 2_000):
        f = posterior.predict(NEW, latent=True, draws=draws)
        y = posterior.predict(NEW, draws=draws)
        if f.trust.verdict == "good":
            assert abs(f.mean[0] - mean) < 0.25 * sd
        if y.trust.verdict == "good":
            assert abs(y.mean[0] - rate) < 0.25 * y.sd[0]
    # The default is enough.
    assert posterior.predict(NEW, latent=True).trust.verdict == posterior.trust.verdict == "good"


def test_wrong_draws_that_are_averaged_are_found():
    posterior = latent_gp("laplace", 0)
    rows = np.arange(200)
    shifted = {name: values[:, rows] + 1.0 for name, values in posterior.draws.items()}
    wrong = replace(posterior, draws=shifted).predict(NEW, latent=True)
    right = posterior.predict(NEW, latent=True)
    trust = right.check(wrong)
    assert posterior.trust.verdict == "good"
    assert trust.verdict == "bad"
    assert trust.evidence["mean_shift"] > 0.5
    assert "means differ by at most" in trust.advice


def coin(y=None):
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    with numpyro.plate("flips", 10):
        numpyro.sample("y", dist.Bernoulli(p), obs=y)


@pytest.mark.slow
def test_all_draws_are_compared_by_halves():
    y = np.array([1, 1, 0, 1, 0, 1, 1, 1, 0, 1])
    posterior = bk.infer(coin, y, method="nuts", seed=0, progress=False)
    trust = posterior.predict().trust
    assert trust.verdict == posterior.trust.verdict == "good"
    assert trust.evidence["compared_with"] == "halves of the draws"
    # Of a point there is nothing to compare; nor without a posterior.
    mode = bk.infer(coin, y, method="map", seed=0, progress=False)
    assert mode.predict().trust.verdict == "not assessable"
    lone = bk.GaussianProcess(RBF(), X, 0.1).condition(COUNTS).predict(NEW)
    assert lone.trust.verdict == "not assessable"


def test_number_of_draws_is_checked():
    with pytest.raises(ValueError, match="draws"):
        latent_gp("laplace", 0).predict(NEW, draws=0)
