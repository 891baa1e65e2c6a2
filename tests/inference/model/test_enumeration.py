"""Discrete latents that are summed out, against mixtures written out by hand."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from scipy.stats import beta, norm

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.model.trace import enumeration
from tests.marks import few

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


@pytest.mark.slow
def test_log_density_of_a_mixture():
    target, z = Target.from_model(assigned, (Y,), {}), np.array([-0.4, 0.2, 4.5])
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


@pytest.mark.slow
def test_fit_has_the_continuous_sites_and_predicts():
    posterior = bk.infer(assigned, Y, method="importance", progress=False)
    assert list(posterior.draws) == ["p", "m"]
    assert posterior.trust.verdict == "good"
    assert posterior.predict(Y).mean.shape == Y.shape


def test_unbounded_discrete_latents_are_refused():
    def model(y):
        k = numpyro.sample("k", dist.Poisson(3.0))
        numpyro.sample("y", dist.Normal(k, 1.0), obs=y)

    with pytest.raises(ValueError, match="'k' is discrete and has infinitely many values"):
        bk.infer(model, 1.0)


def test_error_without_funsor(monkeypatch):
    monkeypatch.setattr(enumeration, "find_spec", lambda name: None)
    assert importlib.util.find_spec("funsor") is not None
    with pytest.raises(ValueError, match=r"'k' is discrete.*MixtureSameFamily.*pip install"):
        bk.infer(assigned, Y)


def unplated(y, where):
    a = numpyro.sample("a", dist.Normal(jnp.zeros(2 if where == "latent" else ()), 1.0))
    k = numpyro.sample("k", dist.Bernoulli(0.3).expand([2] if where == "discrete" else []))
    if where == "factor":
        numpyro.factor("penalty", -jnp.square(y))
    numpyro.sample("y", dist.Normal(jnp.sum(a) + 3.0 * jnp.sum(k), 1.0), obs=y[0])


@pytest.mark.parametrize(
    ("where", "site"), [("latent", "a"), ("discrete", "k"), ("factor", "penalty")]
)
def test_axes_outside_a_plate_are_refused(where, site):
    """An axis as long as the values would be taken for them, and the density would be wrong."""
    with pytest.raises(ValueError, match=rf"{site!r} has an axis of 2 outside a plate.*\('k'\)"):
        bk.infer(unplated, np.zeros(2), where)


def test_observations_of_one_discrete_latent_need_a_plate():
    def model(y, plate):
        a = numpyro.sample("a", dist.Normal())
        k = numpyro.sample("k", dist.Bernoulli(0.3))
        if not plate:
            numpyro.sample("y", dist.Normal(a + 3.0 * k, 1.0), obs=y)
            return
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(a + 3.0 * k, 1.0), obs=y)

    y = np.linspace(-1.0, 2.0, 2)
    with pytest.raises(ValueError, match=r"'y' has an axis of 2 .*numpyro.plate\('rows', 2\)"):
        bk.infer(model, y, False)
    log_p = Target.from_model(model, (y, True), {}).log_density(jnp.array([0.5]))
    each = [np.prod(norm.pdf(y, 0.5 + 3.0 * k)) for k in (0, 1)]
    expected = norm.logpdf(0.5) + np.log(0.7 * each[0] + 0.3 * each[1])
    assert float(log_p) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_steps_of_a_scan_need_no_plate():
    def model(y):
        p = numpyro.sample("p", dist.Beta(2.0, 2.0))

        def step(before, y):
            k = numpyro.sample("k", dist.Bernoulli(jnp.where(before == 1, 0.7, 0.2)))
            numpyro.sample("y", dist.Normal(3.0 * k + 0.0 * p, 1.0), obs=y)
            return k, None

        scan(step, 0, y)

    # The forward algorithm of a hidden Markov chain.
    move, forward = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([1.0, 0.0])
    for value in Y:
        forward = (forward @ move) * norm.pdf(value, [0.0, 3.0])
    log_p = Target.from_model(model, (Y,), {}).log_density(jnp.zeros(1))
    expected = np.log(forward.sum()) + beta(2, 2).logpdf(0.5) + np.log(0.25)
    assert float(log_p) == pytest.approx(expected, rel=1e-12)


def test_models_with_discrete_latents_only_are_refused():
    def model(y):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(3.0 * k, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"no latent site beside \('k',\)"):
        bk.infer(model, 1.0, method="laplace")


def summed_over_its_plate(y):
    a = numpyro.sample("a", dist.Normal())
    with numpyro.plate("group", 3):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(a + 3.0 * k.sum(), 1.0), obs=y[0])


def in_another_plate(y):
    a = numpyro.sample("a", dist.Normal())
    with numpyro.plate("group", len(y)):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(a + 3.0 * k, 1.0), obs=y)


def taken_for_an_event(y):
    a = numpyro.sample("a", dist.Normal())
    k = numpyro.sample("k", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(a + 3.0 * k, 1.0).expand([len(y)]).to_event(1), obs=y)


def from_two(y):
    # NumPyro 0.22 gives -3.523 at a = 0, y = 1, in the place of -3.507.
    a = numpyro.sample("a", dist.Normal())
    k = numpyro.sample("k", dist.DiscreteUniform(2, 5))
    numpyro.sample("y", dist.Normal(a + k, 1.0), obs=y[0])


@pytest.mark.filterwarnings("ignore:Out-of-support values")
@pytest.mark.parametrize(
    "model",
    few([summed_over_its_plate, in_another_plate, taken_for_an_event, from_two], from_two),
)
def test_densities_that_sum_over_enumerated_values_are_refused(model):
    with pytest.raises(ValueError, match="the site 'y' has another density .*of 'k' at once"):
        bk.infer(model, np.array([1.0, 2.0]), method="laplace")


def test_models_that_fail_with_enumerated_values_are_refused():
    with pytest.raises(ValueError, match=r"all values of 'k' at once.* write z\[..., None\]"):
        bk.infer(taken_for_an_event, np.zeros(10), method="laplace")


def nested(y):
    a = numpyro.sample("a", dist.Normal())
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("group", 3, dim=-2):
        k = numpyro.sample("k", dist.Categorical(w))
        with numpyro.plate("row", 2, dim=-1):
            j = numpyro.sample("j", dist.Bernoulli(0.2 + 0.1 * k))
            numpyro.sample("y", dist.Normal(a + k + 2.0 * j, 1.0), obs=y)
            numpyro.factor("penalty", -0.1 * k * j)


def event(y):
    a = numpyro.sample("a", dist.Normal())
    k = numpyro.sample("k", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(a + 3.0 * k[..., None] + 0.0 * y[0], 1.0).to_event(1), obs=y[0])


def indexed(y):
    with numpyro.plate("group", 4):
        m = numpyro.sample("m", dist.Normal())
    with numpyro.plate("row", 2, subsample_size=1) as i:
        k = numpyro.sample("k", dist.Categorical(jnp.ones(4) / 4))
        numpyro.sample("y", dist.Normal(m[k], 1.0), obs=y[0, i])


@pytest.mark.slow
@pytest.mark.parametrize("model", few([nested, event, indexed], nested))
def test_densities_that_can_be_summed_are_accepted(model):
    Target.from_model(model, (np.arange(6.0).reshape(3, 2),), {}).require_summable()
