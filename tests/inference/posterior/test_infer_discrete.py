"""Draws of what was summed out, against Bayes' rule and the forward-backward recursion."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.contrib.funsor import markov
from scipy.stats import norm

import bayeskern as bk
from tests.inference.any_draws import AnyDraws

pytest.importorskip("funsor")
Y = np.array([-0.3, 1.4, 2.1, 5.2, 0.1])


def mixture(y):
    m = numpyro.sample("m", dist.Normal(jnp.array([0.0, 3.0]), 0.5).to_event(1))
    with numpyro.plate("row", len(y)):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(m[k], 1.0), obs=y)


def fit(model, *args, draws=3000):
    return bk.infer(model, *args, method=AnyDraws(draws), progress=False)


def test_assignments_follow_bayes_rule_at_each_draw(tmp_path):
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


STAY = np.array([[0.9, 0.1], [0.3, 0.7]])


def chain(y):
    level = numpyro.sample("level", dist.Uniform(1.999, 2.001))
    state = 0
    for t in markov(range(len(y))):
        state = numpyro.sample(f"state_{t}", dist.Categorical(jnp.asarray(STAY)[state]))
        numpyro.sample(f"y_{t}", dist.Normal(level * state, 1.0), obs=y[t])


@pytest.mark.slow
def test_states_of_a_chain_are_drawn_together():
    y = Y[:4]
    states = fit(chain, y).infer_discrete()
    drawn = np.stack([states[f"state_{t}"] for t in range(4)], axis=1)
    # All sixteen paths, by hand.
    paths = np.array(np.meshgrid(*[[0, 1]] * 4, indexing="ij")).reshape(4, -1).T
    before = np.column_stack([np.zeros(16, int), paths[:, :-1]])
    weights = np.prod(STAY[before, paths] * norm.pdf(y, 2.0 * paths), axis=1)
    weights /= weights.sum()
    found = np.array([np.mean(np.all(drawn == path, axis=1)) for path in paths])
    error = np.sqrt(weights * (1.0 - weights) / len(drawn))
    assert np.all(np.abs(found - weights) < 4.0 * error + 0.002)


def test_states_of_a_scan_are_refused():
    def hidden(y):
        level = numpyro.sample("level", dist.Normal(2.0, 1.0))

        def step(state, y_t):
            state = numpyro.sample("state", dist.Categorical(jnp.asarray(STAY)[state]))
            numpyro.sample("y", dist.Normal(level * state, 1.0), obs=y_t)
            return state, None

        scan(step, 0, y)

    with pytest.raises(ValueError, match=r"states of a scan cannot be drawn.*'state'.*markov"):
        fit(hidden, Y, draws=10).infer_discrete()


def test_where_nothing_was_summed_out_there_are_none():
    def model():
        numpyro.sample("x", dist.Normal())

    assert fit(model, draws=10).infer_discrete() == {}
