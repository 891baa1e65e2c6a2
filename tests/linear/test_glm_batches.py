"""Generalized linear models fitted by SVI with minibatches."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy import optimize
from scipy.special import expit

import bayeskern as bk
from bayeskern import likelihoods as lk
from tests.marks import slow

RNG = np.random.default_rng(5)
X = RNG.normal([0.0, 1.0], 1.0, size=(60, 2))
EXPOSURE = RNG.uniform(0.5, 2.0, 60)
COUNTS = RNG.poisson(EXPOSURE * np.exp(0.3 + X @ [0.5, -0.2]))
THREE = RNG.integers(0, 3, 60)


@pytest.mark.parametrize(
    ("likelihood", "y", "extra"),
    [(lk.Poisson(), COUNTS, {"exposure": EXPOSURE}), slow(lk.Categorical(), THREE, {})],
    ids=["poisson", "categorical"],
)
def test_minibatch_density_is_unbiased(likelihood, y, extra):
    whole, args = bk.BayesianGLM(likelihood).prepare(X, y, **extra)
    batched, _ = bk.BayesianGLM(likelihood, batch=7).prepare(X, y, **extra)
    with handlers.seed(rng_seed=1), handlers.trace() as trace:
        whole(*args)
    sites = {name: trace[name]["value"] for name in ("weights", "intercept")}

    def density(model, key):
        return log_density(handlers.seed(model, key), args, {}, sites)[0]

    keys = jax.random.split(jax.random.key(0), 4000)
    by_batch = np.asarray(jax.jit(jax.vmap(lambda key: density(batched, key)))(keys))
    expected, error = float(density(whole, keys[0])), by_batch.std() / np.sqrt(len(keys))
    assert error > 0.0 and abs(by_batch.mean() - expected) < 5.0 * error


@pytest.mark.slow
def test_other_methods_use_all_rows():
    data = {"exposure": EXPOSURE}
    fits = [
        bk.infer(bk.BayesianGLM(lk.Poisson(), batch=batch), X, COUNTS, method="laplace", **data)
        for batch in (None, 7)
    ]
    for name, draws in fits[0].draws.items():
        np.testing.assert_allclose(fits[1].draws[name], draws, rtol=1e-6, atol=1e-8)
    assert fits[1].log_likelihood()["y"].shape[-1] == 60
    assert fits[1].predict(X, **data).mean.shape == (60,)
    prior = bk.BayesianGLM(lk.Poisson(), batch=7).prior_predictive(X, COUNTS, draws=5, **data)
    assert prior.sample(5).shape == (5, 60)


@pytest.mark.slow
def test_minibatch_svi_finds_the_posterior():
    """Of 5,000 rows the posterior is Gaussian but for a few hundredths of a standard deviation."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0]
    y = (rng.random(5000) < expit(x @ [0.5, -0.4, 1.0] - 0.3)).astype(int)
    Z = np.column_stack([np.ones(5000), x])
    precision = np.array([0.25, 1.0, 1.0, 1.0])

    def loss(b):
        eta = Z @ b
        return np.sum(np.logaddexp(0.0, eta) - y * eta) + 0.5 * precision @ b**2

    def gradient(b):
        return Z.T @ (expit(Z @ b) - y) + precision * b

    mode = optimize.minimize(loss, np.zeros(4), jac=gradient, tol=1e-8).x
    p = expit(Z @ mode)
    sd = np.sqrt(np.diag(np.linalg.inv((Z.T * (p * (1.0 - p))) @ Z + np.diag(precision))))
    intercept = dist.Normal(0.0, 2.0)
    model = bk.BayesianGLM(lk.Bernoulli(), prior_sd=1.0, intercept=intercept, batch=500)
    posterior = bk.infer(model, x, y, method=bk.SVI("full_rank"), seed=0)
    draws = np.column_stack([posterior.flat["intercept"], posterior.flat["weights"]])
    # The bounds that a verdict sets to the distance of an approximation from the posterior.
    assert np.abs((draws.mean(axis=0) - mode) / sd).max() < 0.15
    assert np.abs(np.log(draws.std(axis=0) / sd)).max() < 0.15
    assert posterior.trust.verdict == "good"


@pytest.mark.parametrize("batch", [0, -3, 2.5, True])
def test_bad_batches_are_refused(batch):
    with pytest.raises(ValueError, match=f"batch must be .* got {batch}"):
        bk.BayesianGLM(lk.Bernoulli(), batch=batch)
