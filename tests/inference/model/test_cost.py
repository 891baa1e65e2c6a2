"""Cost of log densities, counted by hand, and assessments of costly ones."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference.model import cost
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.kernels import RBF


def test_cost_counts_loops_and_functions():
    def steps(x):
        def step(total, one):
            # Two numbers each time.
            return total + one * one, None

        return jax.lax.scan(step, jnp.zeros(()), x)[0]

    once = cost.numbers_made(jax.make_jaxpr(jnp.square)(jnp.zeros(7)).jaxpr)
    assert once == 7
    made = [cost.numbers_made(jax.make_jaxpr(steps)(jnp.zeros(n)).jaxpr) for n in (10, 110)]
    assert made[1] - made[0] == 200


def test_loops_of_unknown_length():
    def halved(x):
        return jax.lax.while_loop(lambda x: x > 1.0, lambda x: 0.5 * x, x)

    def model(loops):
        a = numpyro.sample("a", dist.Normal())
        numpyro.factor("f", jax.jit(halved)(a) if loops else a)

    for loops in (True, False):
        assert cost.has_open_loop(Target.from_model(model, (loops,), {})) is loops


def test_largest_array_inside_loops_and_functions():
    def model(x):
        a = numpyro.sample("a", dist.Normal())

        def step(total, one):
            return total + jnp.sum(a * one[:, None] * one[None, :]), None

        numpyro.factor("f", jax.lax.scan(jax.jit(step), jnp.zeros(()), x)[0])

    # An outer product of each row.
    assert cost.largest_array(Target.from_model(model, (np.ones((4, 9)),), {})) == 81


@pytest.mark.slow
def test_processes_are_costly_and_regressions_are_not():
    def regression(X, y):
        w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)

    X = np.random.default_rng(1).normal(size=(300, 5))
    assert not cost.is_costly(Target.from_model(regression, (X, X[:, 0]), {}))
    model = bk.GPRegression(RBF(dist.LogNormal(0.0, 1.0)), noise=dist.HalfNormal(1.0))
    posterior = bk.infer(model, X[:, :1], X[:, 0], method="map", progress=False)
    assert cost.is_costly(posterior.fitted_target)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "verdict"), [(300, "good"), (12, "caution or bad")])
def test_costly_densities_are_assessed_at_a_few_hundred_draws(monkeypatch, n, verdict):
    """A normal posterior is its own Laplace approximation; that of a scale of few values is not."""
    rng = np.random.default_rng(2)

    def model(y):
        x = numpyro.sample("x", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        sd = 1.0 if verdict == "good" else jnp.exp(3.0 * x[1])
        numpyro.sample("y", dist.Normal(x[0], sd), obs=y)

    y = rng.standard_normal(n)
    whole = bk.infer(model, y, method="laplace", seed=1, progress=False).trust
    monkeypatch.setattr(cost, "MAX_CHEAP_NUMBERS", 0)
    few = bk.infer(model, y, method="laplace", seed=1, progress=False).trust
    assert "draws_weighed" not in whole.evidence
    if verdict == "good":
        assert (few.verdict, few.evidence["draws_weighed"]) == ("good", 512)
    else:
        assert few.evidence["draws_weighed"] in (512, 2048) and few.verdict != "good"
    assert few.verdict == whole.verdict


@pytest.mark.slow
def test_missed_mode_of_a_costly_density_needs_no_more_draws(monkeypatch):
    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 10.0))
        numpyro.factor("f", jnp.logaddexp(-2.5 * (x + 6.0) ** 2, -2.5 * (x - 6.0) ** 2))

    monkeypatch.setattr(cost, "MAX_CHEAP_NUMBERS", 0)
    trust = bk.infer(model, method="laplace", progress=False).trust
    assert trust.verdict == "bad" and trust.evidence["modes_missed"] == 1
    assert trust.evidence["draws_weighed"] == 512


@pytest.mark.slow
def test_large_difference_of_a_costly_density_needs_no_more_draws(monkeypatch):
    """rate | y ~ Gamma(y + 1, 2): the means of Laplace's lognormal and of it are 0.4 sds apart."""

    def model(y):
        numpyro.sample("y", dist.Poisson(numpyro.sample("rate", dist.Exponential(1.0))), obs=y)

    monkeypatch.setattr(cost, "MAX_CHEAP_NUMBERS", 0)
    posterior = bk.infer(model, 1, method="laplace", progress=False)
    trust = posterior.trust
    expected = (np.exp(0.25) - 1.0) / np.sqrt(0.5)
    assert abs(trust.evidence["mean_shift"] - expected) < 4.0 * trust.evidence["error"]
    assert trust.verdict != "good" and trust.evidence["draws_weighed"] == 512
    # The log densities of the other draws are computed on request.
    whole = log_densities(posterior.fitted_target, posterior.z[0])
    np.testing.assert_allclose(posterior.log_p, whole, rtol=1e-12)
