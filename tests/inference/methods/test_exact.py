"""Closed forms: draws, evidence, and reasons where there is none."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import betaln
from scipy.stats import beta, kstest, multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import bayeskern as bk
from bayeskern.inference import Exact
from bayeskern.kernels import RBF
from bayeskern.protocols import ClosedForm, NoClosedFormError
from models import coin

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-2, 2, 12))
Y = np.sin(2 * X) + 0.3 * rng.normal(size=12)


def test_beta_posterior_of_a_coin():
    posterior = bk.infer(coin.model, *coin.data(), method="exact", progress=False)
    p = posterior.draws["p"]
    assert p.shape == (1, 4000)
    assert kstest(p[0], beta(2 + 14, 2 + 6).cdf).pvalue > 1e-3
    assert posterior.log_evidence.error == 0
    np.testing.assert_allclose(
        posterior.log_evidence.value, betaln(2 + 14, 2 + 6) - betaln(2, 2), atol=1e-10
    )
    assert posterior.trust.verdict == "good"
    # The unconstrained coordinates of the same draws.
    np.testing.assert_allclose(1 / (1 + np.exp(-posterior.z[..., 0])), p, atol=1e-12)


@pytest.mark.slow
def test_gp_draws_of_the_latent_function_equal_scikit_learn():
    model = bk.GPRegression(RBF(0.7, 1.3), noise=0.09, mean=0.2)
    posterior = bk.infer(model, X, Y, method=Exact(draws=8000), progress=False)
    f = posterior.draws["f"][0]
    peer = GaussianProcessRegressor(
        sk.ConstantKernel(1.3) * sk.RBF(0.7), alpha=0.09, optimizer=None
    )
    mean, covariance = peer.fit(X[:, None], Y - 0.2).predict(X[:, None], return_cov=True)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(f.mean(axis=0) - mean - 0.2) / sd, 0.06)
    np.testing.assert_allclose(np.cov(f.T), covariance, atol=0.06 * sd.max() ** 2)
    K = 1.3 * np.exp(-0.5 * np.square((X[:, None] - X) / 0.7)) + 0.09 * np.eye(12)
    np.testing.assert_allclose(
        posterior.log_evidence.value, multivariate_normal(np.full(12, 0.2), K).logpdf(Y), rtol=1e-9
    )
    assert posterior.trust.verdict == "good"
    assert posterior.trust.evidence["residual"] < 1e-10


def test_gp_predictions_equal_scikit_learn():
    model = bk.GPRegression(RBF(0.7, 1.3), noise=0.09)
    prediction = bk.infer(model, X, Y, method="exact", progress=False).predict(np.array([0.1, 3.0]))
    peer = GaussianProcessRegressor(
        sk.ConstantKernel(1.3) * sk.RBF(0.7), alpha=0.09, optimizer=None
    )
    mean, sd = peer.fit(X[:, None], Y).predict(np.array([[0.1], [3.0]]), return_std=True)
    np.testing.assert_allclose(prediction.mean, mean, atol=1e-9)
    np.testing.assert_allclose(prediction.sd, np.sqrt(sd**2 + 0.09), atol=1e-9)


def test_missing_closed_form_is_explained():
    open_model = bk.GPRegression(RBF(dist.LogNormal(0.0, 1.0)), noise=dist.HalfNormal(1.0))
    with pytest.raises(NoClosedFormError, match="lengthscale, noise are to be inferred"):
        bk.infer(open_model, X, Y, method="exact", progress=False)

    def by_hand(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal()), 1.0), obs=y)

    with pytest.raises(NoClosedFormError, match=r"by_hand has no method exact\(\*data\)"):
        bk.infer(by_hand, Y, method="exact", progress=False)


def test_large_residual_of_the_solve_is_bad():
    class Poor:
        def __init__(self, residual):
            self.residual = residual

        def __call__(self, y):
            numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal()), 1.0), obs=y)

        def exact(self, y):
            return ClosedForm(lambda key, n: {"mu": jnp.zeros(n)}, 0.0, self.residual)

    for residual in (1e-3, np.nan):
        posterior = bk.infer(Poor(residual), Y, method="exact", progress=False)
        assert posterior.trust.verdict == "bad"


def test_other_methods_refuse_a_model_without_latents():
    model = bk.GPRegression(RBF(0.7), noise=0.09)
    for method in ("map", "mle", "laplace", "svi", "importance", "pathfinder", "smc"):
        with pytest.raises(ValueError, match="no latent site"):
            bk.infer(model, X, Y, method=method, progress=False)
