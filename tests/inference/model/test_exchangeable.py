"""Exchangeable members of latent sites: found, sorted, shuffled, copied."""

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference.model.evaluation import draw_prior, log_densities
from bayeskern.inference.model.exchangeable import Exchange, find_exchanges
from bayeskern.inference.model.target import Target

rng = np.random.default_rng(0)
Y = np.concatenate([rng.normal(-3.0, 1.0, 15), rng.normal(0.0, 1.0, 20), rng.normal(3.0, 1.0, 15)])
X = rng.normal(size=(20, 4))


def mixture(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0).expand([3]).to_event(1))
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    parts = dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(mu, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", parts, obs=y)


def network(X, y):
    W = numpyro.sample("W", dist.Normal().expand([4, 3]))
    b = numpyro.sample("b", dist.Normal().expand([3]))
    v = numpyro.sample("v", dist.Normal().expand([3]))
    numpyro.sample("y", dist.Normal(jnp.tanh(X @ W + b) @ v, 1.0), obs=y)


def states(y):
    """A row and a column of A belong to each state."""
    A = numpyro.sample("A", dist.Dirichlet(jnp.ones(3)).expand([3]))
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0).expand([3]))
    numpyro.factor("pairs", jnp.log(jnp.exp(mu) @ A @ jnp.exp(-mu)) + y * jnp.sum(jnp.diag(A)))


def two_groups(X):
    """Two vectors of three members each, without anything in common."""
    a = numpyro.sample("a", dist.Normal().expand([3]))
    b = numpyro.sample("b", dist.HalfNormal().expand([3]))
    numpyro.factor("data", jnp.prod(jnp.sin(a)) + jnp.sum(jnp.square(b)) * X)


def regression(X, y):
    w = numpyro.sample("w", dist.Normal().expand([4]))
    numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


def unlike(y):
    """Priors of their own keep members apart."""
    mu = numpyro.sample("mu", dist.Normal(jnp.arange(3.0), 5.0).to_event(1))
    parts = dist.MixtureSameFamily(dist.Categorical(jnp.ones(3) / 3.0), dist.Normal(mu, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", parts, obs=y)


MODELS = {
    "mixture": (mixture, (Y,), [{"mu": (0,), "w": (0,)}]),
    "network": (network, (X, X[:, 0]), [{"W": (1,), "b": (0,), "v": (0,)}]),
    "states": (states, (0.5,), [{"A": (0, 1), "mu": (0,)}]),
    "two groups": (two_groups, (0.3,), [{"a": (0,)}, {"b": (0,)}]),
    "regression": (regression, (X, X[:, 0]), []),
    "unlike": (unlike, (Y,), []),
}


def exchanges_of(name, count=3):
    """The target, draws from its prior, and the exchanges that hold at three of them."""
    model, args, _ = MODELS[name]
    target = Target.from_model(model, args, {})
    z = draw_prior(target, np.random.default_rng(1), np.ones(count))
    return target, z, find_exchanges(target, z[:3])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_exchanges_and_the_orders_of_their_members(name):
    target, z, exchanges = exchanges_of(name)
    assert [exchange.axes for exchange in exchanges.exchanges] == MODELS[name][2]
    assert bool(exchanges) == bool(MODELS[name][2])
    ordered = exchanges.sorted(z)
    assert exchanges.are_sorted(ordered).all()
    np.testing.assert_array_equal(exchanges.sorted(ordered), ordered)
    for point, sorted_point in zip(z, ordered, strict=True):
        copies = exchanges.copies(point)
        # All orders but its own.
        assert len(copies) == min(24, 6 ** len(exchanges.exchanges) - 1)
        expected = np.tile(sorted_point, (len(copies), 1))
        np.testing.assert_allclose(exchanges.sorted(copies), expected, atol=1e-9)
        orders = np.vstack([point, copies])
        assert len(np.unique(np.round(orders, 6), axis=0)) == len(orders)
        if len(exchanges.exchanges) == 1:
            assert np.sum(exchanges.are_sorted(orders)) == 1
    for exchange in exchanges.exchanges:
        np.testing.assert_allclose(
            exchange.log_density(exchanges.copies(z[0])), exchange.log_density(z[:1])[0], rtol=1e-8
        )
    assert np.ptp(log_densities(target, z)) > 0.0


@pytest.mark.slow
def test_random_orders_are_equally_frequent():
    _, z, exchanges = exchanges_of("mixture")
    shuffled = exchanges.shuffled(np.tile(z[0], (6000, 1)), np.random.default_rng(0))
    _, counts = np.unique(np.round(shuffled, 6), axis=0, return_counts=True)
    # Six orders: four standard deviations of a binomial count about 1,000.
    assert len(counts) == 6 and np.max(np.abs(counts - 1000)) < 4.0 * np.sqrt(6000 * 5 / 36)


def test_copies_of_many_members_have_two_of_them_swapped():
    def model():
        a = numpyro.sample("a", dist.Normal().expand([7]))
        numpyro.factor("data", -jnp.prod(a))

    target = Target.from_model(model, (), {})
    exchange = Exchange(target, 7, {"a": (0,)})
    np.testing.assert_array_equal(exchange.copies(np.arange(7.0)), [[1, 0, 2, 3, 4, 5, 6]])


# -- what follows for inference ------------------------------------------------------------------

PRIOR_SD, COUNT = 5.0, 40
SHORT = np.concatenate([rng.normal(-2.0, 1.0, COUNT // 2), rng.normal(2.0, 1.0, COUNT // 2)])


def two_components(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, PRIOR_SD).expand([2]).to_event(1))
    parts = dist.MixtureSameFamily(dist.Categorical(jnp.ones(2) / 2.0), dist.Normal(mu, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", parts, obs=y)


def quadrature():
    """Log evidence, mean and sd of each mean, over a grid of both means."""
    grid = np.linspace(-8.0, 8.0, 801)
    log_density = -0.5 * np.square(SHORT[:, None] - grid) - 0.5 * np.log(2.0 * np.pi)
    log_prior = -0.5 * np.square(grid / PRIOR_SD) - np.log(PRIOR_SD * np.sqrt(2.0 * np.pi))
    pairs = np.logaddexp(log_density[:, :, None], log_density[:, None, :]) - np.log(2.0)
    log_p = pairs.sum(axis=0) + log_prior[:, None] + log_prior
    p, step = np.exp(log_p - log_p.max()), grid[1] - grid[0]
    log_evidence = np.log(p.sum() * step**2) + log_p.max()
    marginal = p.sum(axis=1) / p.sum()
    mean = marginal @ grid
    return log_evidence, mean, np.sqrt(marginal @ np.square(grid - mean))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("method", [bk.NUTS(evidence=True), "importance", "auto"])
def test_draws_and_evidence_cover_every_order(method, seed):
    posterior = bk.infer(two_components, SHORT, method=method, seed=seed, progress=False)
    log_evidence, mean, sd = quadrature()
    draws = posterior.flat["mu"]
    assert posterior.trust.verdict == "good", posterior.trust
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.05)
    if posterior.log_evidence is not None:
        value, error = posterior.log_evidence
        assert abs(value - log_evidence) < 4.0 * error


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_verdict_on_chains_that_stay_in_one_order(seed):
    method = bk.NUTS(modes="report", evidence=True)
    posterior = bk.infer(two_components, SHORT, method=method, seed=seed, progress=False)
    assert posterior.trust.verdict == "caution"
    assert "The 2 members of mu can change places" in posterior.trust.advice
    assert posterior.has_chains
    # The table of the chains and the verdict on them show one R-hat.
    evidence = posterior.trust.evidence
    assert evidence["rhat_sorted"] < 1.01
    table = az.summary(posterior.to_arviz(), kind="diagnostics", round_to="none")
    np.testing.assert_allclose(evidence["rhat"], table["r_hat"].max())
    value, error = posterior.log_evidence
    assert abs(value - quadrature()[0]) < 4.0 * error


@pytest.mark.slow
def test_chains_that_take_every_order_are_good():
    """iid members without data: the chains are in every order."""

    def prior_only(y):
        a = numpyro.sample("a", dist.Normal().expand([3]))
        numpyro.sample("y", dist.Normal(jnp.sum(a), 1.0), obs=y)

    posterior = bk.infer(prior_only, 1.0, method="nuts", seed=0, progress=False)
    assert posterior.trust.verdict == "good"
    assert "3 members of a" in posterior.trust.evidence["exchangeable"]
