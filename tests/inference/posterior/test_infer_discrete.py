"""Draws of discrete sites that were summed out, against Bayes' rule."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayeskern as bk
from tests.inference.any_draws import AnyDraws
from tests.inference.hidden_markov import chain, paths, scanned

pytest.importorskip("funsor")
Y = np.array([-0.3, 1.4, 2.1, 5.2, 0.1])


def mixture(y):
    m = numpyro.sample("m", dist.Normal(jnp.array([0.0, 3.0]), 0.5).to_event(1))
    with numpyro.plate("row", len(y)):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(m[k], 1.0), obs=y)


def fit(model, *args, draws=3000):
    return bk.infer(model, *args, method=AnyDraws(draws), progress=False)


@pytest.mark.slow
def test_assignments_follow_bayes_rule(tmp_path):
    posterior = fit(mixture, Y)
    k = posterior.infer_discrete()["k"]
    assert k.shape == (3000, 5) and set(np.unique(k)) == {0, 1}
    first, second = (norm.pdf(Y, posterior.flat["m"][:, [i]]) for i in (0, 1))
    chance = 0.3 * second / (0.7 * first + 0.3 * second)
    # Independent given the means: z-scores of sums of Bernoullis.
    z = np.sum(k - chance, axis=0) / np.sqrt(np.sum(chance * (1.0 - chance), axis=0))
    assert np.all(np.abs(z) < 3.5)
    # And they follow the draws, not only their average.
    likely = chance > 0.5
    assert np.mean(k[likely]) > 0.5 > np.mean(k[~likely])
    np.testing.assert_array_equal(posterior.infer_discrete()["k"], k)
    assert np.any(posterior.infer_discrete(seed=1)["k"] != k)
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", model=mixture)
    np.testing.assert_array_equal(loaded.infer_discrete()["k"], k)
    with pytest.raises(ValueError, match="needs the model"):
        bk.load(tmp_path / "fit.nc").infer_discrete()


@pytest.mark.slow
def test_states_of_a_markov_chain_are_drawn_jointly():
    y = Y[:4]
    posterior = fit(chain, y)
    states = posterior.infer_discrete()
    drawn = np.stack([states[f"state_{t}"] for t in range(4)], axis=1)
    # The probability of each of the sixteen paths at each draw.
    all_paths, prior = paths(4)
    data = norm.pdf(y, posterior.flat["level"][:, None, None] * all_paths)
    chance = np.prod(prior * data, axis=-1)
    chance /= chance.sum(axis=1, keepdims=True)
    found = np.array([np.sum(np.all(drawn == path, axis=1)) for path in all_paths])
    error = np.sqrt(np.sum(chance * (1.0 - chance), axis=0))
    assert np.all(np.abs(found - chance.sum(axis=0)) < 4.0 * error + 3.0)


def test_states_of_a_scan_are_refused():
    with pytest.raises(ValueError, match="drawn beside a scan.*'state'.*markov"):
        fit(scanned, Y, draws=10).infer_discrete()


def test_model_without_discrete_sites_has_none():
    def model():
        numpyro.sample("x", dist.Normal())

    assert fit(model, draws=10).infer_discrete() == {}
