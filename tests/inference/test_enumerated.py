"""Discrete latents that are summed out, against mixtures written out by hand."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import beta, norm

import bayeskern as bk
from bayeskern.inference import Target, enumerated

pytest.importorskip("funsor")
Y = np.array([-0.3, 0.4, 4.1, 5.2, 0.1])


def assigned(y):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    m = numpyro.sample("m", dist.Normal(jnp.array([0.0, 5.0]), 1.0).to_event(1))
    with numpyro.plate("row", len(y)):
        k = numpyro.sample("k", dist.Bernoulli(p))
        numpyro.sample("y", dist.Normal(m[k], 1.0), obs=y)


def parts(z):
    p, m = 1.0 / (1.0 + np.exp(-z[0])), z[1:]
    prior = beta(2, 3).logpdf(p) + norm.logpdf(m, [0.0, 5.0]).sum() + np.log(p * (1 - p))
    data = np.log((1 - p) * norm.pdf(Y, m[0]) + p * norm.pdf(Y, m[1])).sum()
    return prior, data


def test_the_density_is_that_of_the_mixture():
    target, z = Target.of(assigned, (Y,), {}), np.array([-0.4, 0.2, 4.5])
    prior, data = parts(z)
    assert target.discrete == ("k",)
    np.testing.assert_allclose(target.log_density(jnp.asarray(z)), prior + data, rtol=1e-12)
    np.testing.assert_allclose(target.log_prior(jnp.asarray(z)), prior, rtol=1e-12)
    likelihood = target.log_density(jnp.asarray(z), jacobian=False, prior=False)
    np.testing.assert_allclose(likelihood, data, rtol=1e-10)
    slope = jax.grad(target.log_density)(jnp.asarray(z))
    step = 1e-6 * np.array([0.0, 1.0, 0.0])
    expected = (sum(parts(z + step)) - sum(parts(z - step))) / 2e-6
    np.testing.assert_allclose(slope[1], expected, rtol=1e-6)


def test_a_fit_has_the_continuous_sites_and_predicts():
    posterior = bk.infer(assigned, Y, method="importance", progress=False)
    assert list(posterior.draws) == ["p", "m"]
    assert posterior.trust.verdict == "good"
    assert posterior.predict(Y).mean.shape == Y.shape
    with pytest.raises(ValueError, match="'k' was summed out"):
        posterior.log_likelihood()
    assert "log_likelihood" not in posterior.to_arviz()


def test_values_without_end_are_refused():
    def model(y):
        k = numpyro.sample("k", dist.Poisson(3.0))
        numpyro.sample("y", dist.Normal(k, 1.0), obs=y)

    with pytest.raises(ValueError, match="'k' is discrete and has infinitely many values"):
        bk.infer(model, 1.0)


def test_without_funsor_it_says_what_would_help(monkeypatch):
    monkeypatch.setattr(enumerated, "find_spec", lambda name: None)
    assert importlib.util.find_spec("funsor") is not None
    with pytest.raises(ValueError, match=r"'k' is discrete.*MixtureSameFamily.*install funsor"):
        bk.infer(assigned, Y)
