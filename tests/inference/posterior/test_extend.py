"""Predictions for new members of a plate, against closed forms."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from tests.inference.any_draws import AnyDraws


def groups(sd, y=None):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    tau = numpyro.sample("tau", dist.LogNormal(0.0, 0.3))
    with numpyro.plate("group", len(sd)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        # New members may depend on other new members.
        means = theta[..., None] * jnp.ones(2)
        slope = numpyro.sample("slope", dist.Normal(means, 0.5).to_event(1))
        numpyro.deterministic("total", slope.sum(axis=-1))
        numpyro.sample("y", dist.Normal(theta, sd), obs=y)


def fit(model, *args, draws=4000, **options):
    return bk.infer(model, *args, method=AnyDraws(draws), progress=False, **options)


@pytest.fixture(scope="module")
def fitted():
    return fit(groups, np.array([1.0, 2.0]), np.array([0.3, -1.0]))


def is_standard_normal(z):
    """Within four errors of its mean and its variance."""
    n = len(z)
    return np.all(np.abs(z.mean(axis=0)) < 4.0 / np.sqrt(n)) and np.all(
        np.abs(np.mean(z**2, axis=0) - 1.0) < 4.0 * np.sqrt(2.0 / n)
    )


@pytest.mark.slow
def test_new_groups_are_drawn_from_their_prior(fitted):
    sd = np.array([1.0, 2.0, 0.7])
    flat, total = fitted.flat, fitted.deterministics(sd, extend=True)["total"]
    np.testing.assert_array_equal(total[:, :2], flat["slope"].sum(axis=-1))
    mu, tau = flat["mu"], flat["tau"]
    # The sum of two slopes: twice theta, and the noise of both.
    assert is_standard_normal((total[:, 2] - 2.0 * mu) / np.sqrt(4.0 * tau**2 + 0.5))
    y = fitted.predict(sd, extend=True).draws
    assert is_standard_normal((y[:, :2] - flat["theta"]) / sd[:2])
    assert is_standard_normal((y[:, 2] - mu) / np.sqrt(tau**2 + sd[2] ** 2))
    # Independent given theta.
    again = fitted.predict(sd, extend=True, seed=1).draws
    assert np.all(again[:, 2] != y[:, 2])


def test_extend_without_new_groups_changes_nothing(fitted):
    sd = np.array([1.0, 3.0])
    np.testing.assert_array_equal(fitted.predict(sd, extend=True).draws, fitted.predict(sd).draws)


@pytest.mark.slow
def test_new_groups_of_a_point_estimate_have_a_spread():
    posterior = bk.infer(groups, np.ones(2), np.array([0.3, -1.0]), method="map", progress=False)
    y = posterior.predict(np.ones(3), extend=True).draws
    mu, tau = (posterior.flat[name][0] for name in ("mu", "tau"))
    assert y.shape == (1000, 3) and is_standard_normal((y[:, 2:] - mu) / np.sqrt(tau**2 + 1.0))


def walk(steps, y=None):
    x = numpyro.sample("x", dist.GaussianRandomWalk(1.0, num_steps=steps))
    with numpyro.plate("time", steps):
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "old", "new", "options"),
    [
        (groups, (np.ones(2), np.zeros(2)), (np.ones(3),), {}),
        # Fewer groups: which of them is unknown.
        (groups, (np.ones(2), np.zeros(2)), (np.ones(1),), {"extend": True}),
        # No plate declares that its steps can be drawn separately.
        (walk, (4, np.zeros(4)), (6,), {"extend": True}),
    ],
)
def test_latents_that_cannot_be_extended_are_refused(model, old, new, options):
    posterior = fit(model, *old, draws=10)
    with pytest.raises(ValueError, match="'(theta|x)' has shape.*take extend=True"):
        posterior.predict(*new, **options)


def test_flat_prior_cannot_be_extended():
    def flat(n):
        with numpyro.plate("group", n):
            numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))
            numpyro.sample("y", dist.Normal(), obs=jnp.zeros(n))

    with pytest.raises(ValueError, match="'x' cannot be drawn: ImproperUniform"):
        fit(flat, 2, draws=10).predict(3, extend=True)


def test_closed_form_model_cannot_be_extended():
    X = jnp.arange(4.0)
    posterior = bk.infer(bk.BayesianLinearRegression(noise_variance=1.0), X, X, progress=False)
    with pytest.raises(ValueError, match="no plate of latents to extend"):
        posterior.predict(X, extend=True)


def test_ambiguous_extend_argument_is_refused():
    def model(extend=None):
        numpyro.sample("x", dist.Normal())

    with pytest.raises(ValueError, match="extend=True may be meant for predict"):
        fit(model, draws=10).predict(extend=True)
