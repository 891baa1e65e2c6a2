"""Log densities at many points against SciPy."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import bayeskern as bk
from bayeskern.inference.model import cost
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.kernels import RBF

Y = np.array([0.3, 2.0])


def model(y):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    s = numpyro.sample("s", dist.Gamma(3.0, 2.0))
    numpyro.sample("y", dist.Normal(mu, s), obs=y)


def parts(z):
    """log p(y | z), log p(values) and log |d values / d z|."""
    mu, s = z[:, 0], np.exp(z[:, 1])
    likelihood = stats.norm(mu[:, None], s[:, None]).logpdf(Y).sum(axis=1)
    prior = stats.norm(1.0, 2.0).logpdf(mu) + stats.gamma(3.0, scale=0.5).logpdf(s)
    return likelihood, prior, z[:, 1]


@pytest.mark.parametrize("max_cheap", [0, 2**18])
def test_any_number_of_points(monkeypatch, max_cheap):
    monkeypatch.setattr(cost, "MAX_CHEAP_NUMBERS", max_cheap)
    target = Target.from_model(model, (Y,), {})
    # Not a multiple of any batch.
    z = np.random.default_rng(0).normal(size=(300, 2))
    likelihood, prior, log_det = parts(z)
    expected = likelihood + prior + log_det
    for n in (1, 300):
        np.testing.assert_allclose(log_densities(target, z[:n]), expected[:n], rtol=1e-12)
    values = log_densities(target, z, jacobian=False, prior=False)
    np.testing.assert_allclose(values, likelihood, rtol=1e-12)


@pytest.mark.slow
def test_costly_density_in_threads():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(160, 2)), rng.normal(size=160)
    kernel = RBF(dist.LogNormal(jnp.zeros(2), 1.0).to_event(1), dist.LogNormal(0.0, 1.0))
    gp, (X, y) = bk.GPRegression(kernel, noise=dist.LogNormal(-1.0, 1.0)).prepare(X, y)
    target = Target.from_model(gp, (X, y), {})
    assert cost.is_costly(target)
    z = 0.3 * rng.normal(size=(40, target.size))
    expected = []
    for at in z:
        scaled = np.asarray(X) / np.exp(at[:2])
        r2 = np.sum(np.square(scaled[:, None] - scaled[None]), axis=2)
        K = np.exp(at[2]) * np.exp(-0.5 * r2) + np.exp(at[3]) * np.eye(160)
        prior = stats.norm([0.0, 0.0, 0.0, -1.0]).logpdf(at).sum()
        expected.append(stats.multivariate_normal(cov=K).logpdf(y) + prior)
    np.testing.assert_allclose(log_densities(target, z), expected, rtol=1e-10)
