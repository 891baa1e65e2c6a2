"""The log likelihood of observations whose discrete latents are summed out, and LOO from it."""

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.inference.model.trace.enumeration import NoPointwiseError
from tests.inference.any_draws import AnyDraws
from tests.inference.hidden_markov import chain, paths, scanned
from tests.marks import slow

pytest.importorskip("funsor")
# So far apart that a probability in place of its logarithm would be zero.
Y = np.array([-0.3, 1.4, 80.0, 5.2, 0.1])


def fit(model, *args, draws=20):
    return bk.infer(model, *args, method=AnyDraws(draws), progress=False)


def assigned(y):
    m = numpyro.sample("m", dist.Normal(jnp.array([0.0, 3.0]), 0.5).to_event(1))
    with numpyro.plate("row", len(y)):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(m[k], 1.0), obs=y)


def marginal(y):
    m = numpyro.sample("m", dist.Normal(jnp.array([0.0, 3.0]), 0.5).to_event(1))
    chances = dist.Categorical(jnp.array([0.7, 0.3]))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(chances, dist.Normal(m, 1.0)), obs=y)


@pytest.mark.slow
def test_summed_out_mixture_equals_the_marginal_model():
    ours, by_hand = fit(assigned, Y), fit(marginal, Y)
    found, expected = ours.log_likelihood()["y"], by_hand.log_likelihood()["y"]
    assert found.shape == (1, 20, 5)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_loo_equals_that_of_the_marginal_model():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(40) < 0.3, 3.0, 0.0) + rng.normal(size=40)
    posteriors = [fit(m, y, draws=500) for m in (assigned, marginal)]
    found, expected = (az.loo(posterior.to_arviz()).elpd for posterior in posteriors)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    (alone,) = bk.compare({"ours": posteriors[0]}).table.values()
    np.testing.assert_allclose(alone["elpd"], expected, atol=0.02)


@pytest.mark.slow
def test_observations_of_one_latent_are_conditioned_on_each_other():
    def both(x, y):
        m = numpyro.sample("m", dist.Normal(3.0, 0.5))
        with numpyro.plate("row", len(y)):
            k = numpyro.sample("k", dist.Bernoulli(0.3))
            numpyro.sample("x", dist.Normal(k * m, 2.0), obs=x)
            numpyro.sample("y", dist.Normal(k * m, 1.0), obs=y)
            numpyro.sample("z", dist.Normal(m, 1.0), obs=x)

    x = np.array([0.5, 2.0, 3.0])
    y, posterior = Y[:3] / 10.0, fit(both, x, Y[:3] / 10.0)
    m = posterior.draws["m"][..., None]
    p_x = np.stack([0.7 * norm.pdf(x, 0.0, 2.0) + 0.0 * m, 0.3 * norm.pdf(x, m, 2.0)])
    p_y = np.stack([norm.pdf(y) + 0.0 * m, norm.pdf(y, m)])
    found = posterior.log_likelihood()
    expected = np.log((p_x * p_y).sum(axis=0) / p_x.sum(axis=0))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-10)
    np.testing.assert_allclose(found["z"], norm.logpdf(x, m), rtol=1e-10)


@pytest.mark.slow
def test_event_is_one_observation():
    def vectors(y):
        m = numpyro.sample("m", dist.Normal(3.0, 0.5))
        with numpyro.plate("row", len(y)):
            k = numpyro.sample("k", dist.Bernoulli(0.3))
            means = (k * m)[..., None] * jnp.ones(2)
            numpyro.sample("y", dist.Normal(means, 1.0).to_event(1), obs=y)

    y = np.array([[0.1, 2.0], [3.0, 2.5], [-1.0, 0.0]])
    posterior = fit(vectors, y)
    m = posterior.draws["m"][..., None, None]
    terms = [0.7 * norm.pdf(y).prod(axis=-1), 0.3 * norm.pdf(y, m).prod(axis=-1)]
    np.testing.assert_allclose(posterior.log_likelihood()["y"], np.log(sum(terms)), rtol=1e-10)
    assert posterior.to_arviz()["log_likelihood"]["y"].dims == ("chain", "draw", "row")


@pytest.mark.slow
def test_steps_of_a_markov_chain_are_conditioned_on_the_others():
    y, posterior = Y[[0, 1, 3, 4]], fit(chain, Y[[0, 1, 3, 4]], draws=3)
    found = posterior.log_likelihood()
    all_paths, prior = paths(4)
    for i, level in enumerate(posterior.flat["level"]):
        data = norm.pdf(y, level * all_paths)
        whole = np.prod(prior * data, axis=1).sum()
        for t in range(4):
            others = np.prod(prior, axis=1) * np.prod(np.delete(data, t, axis=1), axis=1)
            expected = np.log(whole / others.sum())
            np.testing.assert_allclose(found[f"y_{t}"].ravel()[i], expected, rtol=1e-8)


def one_for_all(y):
    m = numpyro.sample("m", dist.Normal(3.0, 0.5))
    k = numpyro.sample("k", dist.Bernoulli(0.3))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(k * m, 1.0), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "says"),
    [(one_for_all, "'k'. tie several"), slow(scanned, "beside a scan .*'state'")],
)
def test_observations_tied_by_one_latent_are_refused(model, says):
    posterior = fit(model, Y)
    with pytest.raises(NoPointwiseError, match=says):
        posterior.log_likelihood()
    with pytest.warns(UserWarning, match="log_likelihood is left out"):
        tree = posterior.to_arviz()
    assert "log_likelihood" not in tree.children and "observed_data" in tree.children
    assert np.isnan(bk.compare({"tied": posterior}).table["tied"]["elpd"])
