"""Conditioned sites in predictions, against NumPyro's Predictive and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer import Predictive

import bayeskern as bk
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.upstream import upstream_sites

RNG = np.random.default_rng(11)


def fit(model, *args, **kwargs):
    return bk.infer(model, *args, method=bk.Laplace(draws=2000), progress=False, **kwargs)


# -- a Markov chain inside a scan ------------------------------------------------------------------


def walk(y, future=0):
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    count = len(y) if y is not None else 0

    def step(last, _):
        now = numpyro.sample("y", dist.Normal(0.9 * last, sigma))
        return now, now

    if y is None:
        return scan(step, 0.0, None, length=future)[1]
    with handlers.condition(data={"y": y}):
        return scan(step, 0.0, None, length=count + future)[1]


def simulated(n, sigma=0.5):
    y = np.zeros(n + 1)
    for t in range(n):
        y[t + 1] = 0.9 * y[t] + sigma * RNG.standard_normal()
    return y[1:]


@pytest.mark.slow
def test_markov_chain_continues_from_its_data():
    y = simulated(60)
    posterior = fit(walk, y)
    prediction = posterior.predict(y, future=5, seed=1)
    draws = prediction.draws.reshape(-1, 65)
    np.testing.assert_array_equal(draws[:, :60], np.broadcast_to(y, (len(draws), 60)))
    sigma = posterior.draws["sigma"].reshape(-1)
    # y_{60 + k} given y_60 is N(0.9^k y_60, sigma^2 (1 + 0.81 + ...)).
    powers = 0.9 ** np.arange(1, 6)
    variance = np.mean(sigma**2) * np.cumsum(0.81 ** np.arange(5))
    error = np.sqrt(variance / len(draws))
    assert np.all(np.abs(draws[:, 60:].mean(axis=0) - powers * y[-1]) < 4.5 * error)
    np.testing.assert_allclose(draws[:, 60:].var(axis=0), variance, rtol=0.2)
    steps = draws[:, 60:] - 0.9 * draws[:, 59:-1]
    np.testing.assert_allclose(steps.var(axis=0), np.mean(sigma**2), rtol=0.2)


@pytest.mark.slow
def test_replicates_of_a_markov_chain_agree_with_numpyro():
    y = simulated(60)
    posterior = fit(walk, y)
    new = posterior.replicates(1000)["y"]
    sigma = posterior.draws["sigma"].reshape(-1)[::2]
    theirs = Predictive(walk, {"sigma": jnp.asarray(sigma)})(jax.random.key(0), None, 60)["y"]
    for of_path in (lambda p: np.std(np.diff(p, axis=1)), np.std):
        np.testing.assert_allclose(of_path(new), of_path(np.asarray(theirs)), rtol=0.05)


def observed_inside(y):
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))

    def step(last, value):
        now = numpyro.sample("y", dist.Normal(0.9 * last, sigma), obs=value)
        return now, now

    scan(step, 0.0, y)


@pytest.mark.slow
def test_observations_in_a_scan_are_replicated():
    y = simulated(60)
    posterior = fit(observed_inside, y)
    new = posterior.replicates(1000)["y"]
    innovations = new[:, 1:] - 0.9 * new[:, :-1]
    np.testing.assert_allclose(innovations.std(), posterior.draws["sigma"].mean(), rtol=0.05)


# -- sites that others depend on ------------------------------------------------------------------


def line(x, y=None):
    a = numpyro.sample("a", dist.Normal(0.0, 10.0))
    b = numpyro.sample("b", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Normal(a + b * x, 1.0), obs=y)


X = np.linspace(-1.0, 1.0, 30)
Y = 1.0 + 2.0 * X + RNG.standard_normal(30)


def test_conditioned_latent_keeps_its_value():
    posterior = fit(handlers.condition(line, {"a": 1.0}), X, Y)
    prediction = posterior.predict(np.zeros(1), seed=2)
    # a is 1 and x is 0, so that y is N(1, 1).
    draws = np.ravel(prediction.draws)
    assert abs(draws.mean() - 1.0) < 4.5 / np.sqrt(len(draws))
    np.testing.assert_allclose(draws.std(), 1.0, rtol=0.1)
    assert list(posterior.log_likelihood()) == ["y"]
    assert list(posterior.replicates(3)) == ["y"]


def errors_in_variables(x=None, y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    b = numpyro.sample("b", dist.Normal(0.0, 10.0))
    x = numpyro.sample("x", dist.Normal(mu, 1.0).expand([30]), obs=x)
    numpyro.sample("y", dist.Normal(b * x, 0.1), obs=y)


@pytest.mark.slow
def test_observed_covariate_keeps_its_new_values():
    posterior = fit(errors_in_variables, X, 2.0 * X)
    at = np.linspace(5.0, 6.0, 30)
    prediction = posterior.predict(at, seed=3)
    np.testing.assert_allclose(prediction.mean, 2.0 * at, atol=0.5)
    # In replicates of the data it is drawn too, as it is part of them.
    assert sorted(posterior.replicates(3)) == ["x", "y"]
    assert sorted(posterior.log_likelihood()) == ["x", "y"]


@pytest.mark.slow
def test_formerly_deterministic_site_keeps_its_draws():
    def model(y=None, new=False):
        mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
        if new:
            level = numpyro.sample("level", dist.Normal(0.0, 10.0))
        else:
            level = numpyro.deterministic("level", mu + 1.0)
        numpyro.sample("y", dist.Normal(level, 0.1).expand([20]), obs=y)

    posterior = fit(model, 3.0 + 0.1 * RNG.standard_normal(20))
    prediction = posterior.predict(new=True)
    np.testing.assert_allclose(prediction.mean, 3.0, atol=0.2)


def test_upstream_sites():
    def sites(model, *args):
        return upstream_sites(Target.from_model(model, args, {}))

    assert sites(line, X, Y) == (frozenset(), frozenset())
    assert sites(errors_in_variables, X, Y) == (frozenset({"x"}), frozenset())
    held = handlers.condition(line, {"a": 1.0})
    assert sites(held, X, Y) == (frozenset({"a"}), frozenset({"a"}))


# -- arguments of the model that have the name of an option ----------------------------------------


def seeded(y, seed=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Normal(mu * seed, 1.0), obs=y)


@pytest.mark.slow
def test_model_kwargs_reach_the_model():
    posterior = bk.infer(
        seeded, 4.0 * np.ones(50), method="laplace", progress=False, model_kwargs={"seed": 2.0}
    )
    np.testing.assert_allclose(posterior.draws["mu"].mean(), 2.0, atol=0.1)
    prediction = posterior.predict(np.zeros(50), model_kwargs={"seed": 5.0})
    np.testing.assert_allclose(np.mean(prediction.mean), 10.0, atol=0.5)


@pytest.mark.slow
def test_model_kwargs_reach_the_model_in_simulations():
    tree = bk.prior_predictive(seeded, np.zeros(2), model_kwargs={"seed": 100.0})
    assert tree["prior_predictive"]["y"].std() > 500.0
    found = bk.calibrate(
        seeded,
        np.zeros(2),
        method="laplace",
        simulations=10,
        progress=False,
        model_kwargs={"seed": 0.0},
    )
    # Then the data say nothing of mu, and the posterior is the prior.
    assert "mu" in found.uniforms and not found.failures


@pytest.mark.slow
def test_ambiguous_argument_name_is_refused():
    with pytest.raises(ValueError, match="seed=7 may be meant for infer"):
        bk.infer(seeded, np.zeros(3), method="laplace", seed=7, progress=False)
    posterior = bk.infer(seeded, np.zeros(3), method="laplace", progress=False)
    with pytest.raises(ValueError, match="seed=7 may be meant for predict"):
        posterior.predict(np.zeros(3), seed=7)
    with pytest.raises(ValueError, match="seed=7 .* for prior_predictive"):
        bk.prior_predictive(seeded, np.zeros(3), seed=7)
    with pytest.raises(ValueError, match="seed=7 may be meant for calibrate"):
        bk.calibrate(seeded, np.zeros(3), method="laplace", seed=7)
    with pytest.raises(ValueError, match="y is given by name and in model_kwargs"):
        bk.infer(seeded, y=np.zeros(3), model_kwargs={"y": np.zeros(3)}, progress=False)
    both = bk.infer(
        seeded, np.zeros(3), method="laplace", seed=7, model_kwargs={"seed": 1.0}, progress=False
    )
    assert both.seed == 7


# -- masks -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "importance"])
def test_masked_prior_does_not_lower_the_verdict(method):
    def model(y):
        with handlers.mask(mask=False):
            x = numpyro.sample("x", dist.Normal(0.0, 0.3))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    posterior = bk.infer(model, np.array([0.3, 0.9]), method=method, progress=False)
    assert posterior.trust.verdict == "good"
    np.testing.assert_allclose(posterior.draws["x"].mean(), 0.6, atol=0.1)
    np.testing.assert_allclose(posterior.draws["x"].std(), np.sqrt(0.5), rtol=0.1)
