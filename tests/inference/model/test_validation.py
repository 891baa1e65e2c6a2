"""Checks of sites before a fit, and subsampled plates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam
from scipy.stats import norm

import bayeskern as bk
from bayeskern.inference import Target

Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1, -0.4])


def mean_of(y, scale=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(mu, scale), obs=y)


def event(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(mu * jnp.ones(len(y)), 1.0).to_event(1), obs=y)


def test_one_event_has_the_density_of_separate_observations():
    z = jnp.array([0.3])
    as_event, separate = (Target.from_model(model, (Y,), {}) for model in (event, mean_of))
    np.testing.assert_allclose(as_event.log_density(z), separate.log_density(z), rtol=1e-12)


def test_a_factor_may_be_in_a_plate():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
        with numpyro.plate("rows", len(y)):
            numpyro.factor("y", dist.Normal(mu, 1.0).log_prob(y))

    expected = norm.logpdf(0.3, 0.0, 2.0) + np.sum(norm.logpdf(Y, 0.3, 1.0))
    log_density = Target.from_model(model, (Y,), {}).log_density(jnp.array([0.3]))
    np.testing.assert_allclose(log_density, expected, rtol=1e-12)


# -- names and shapes of sites -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["draw", "chain", "sample"])
def test_plates_named_like_an_axis_of_the_draws_are_refused(name):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate(name, len(y)):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    with pytest.raises(ValueError, match=f"plate is named '{name}'.*Rename"):
        Target.from_model(model, (Y,), {})


def test_deterministics_need_the_shape_of_their_plate():
    def model(y, value):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", len(y)):
            numpyro.deterministic("d", mu * value)
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    for value, shape in ((2.0, r"\(\)"), (np.ones(3), r"\(3,\)")):
        with pytest.raises(ValueError, match=f"'d' has shape {shape} inside plate 'rows'.*6 rows"):
            Target.from_model(model, (Y, value), {})
    assert Target.from_model(model, (Y, np.ones(6)), {}).deterministics == ("d",)


def test_deterministics_may_have_event_axes_behind_their_plate():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", len(y)):
            with handlers.reparam(config={"theta": LocScaleReparam(0)}):
                theta = numpyro.sample("theta", dist.Normal(mu * jnp.ones(3), 1.0).to_event(1))
            numpyro.sample("y", dist.Normal(theta[:, 0], 1.0), obs=y)

    target = Target.from_model(model, (Y,), {})
    assert target.deterministics == ("theta",)
    assert target.sites()["theta"].shape == (6, 3)


# -- subsampled plates ---------------------------------------------------------------------------


def in_parts(y, subsample_size=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("rows", len(y), subsample_size=subsample_size):
        batch = numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(mu, s), obs=batch)


def test_log_density_of_a_subsampled_plate_counts_all_rows():
    whole = Target.from_model(in_parts, (Y,), {})
    # 4 does not divide the 6 rows.
    parts = Target.from_model(in_parts, (Y,), {"subsample_size": 4})
    assert parts.subsampled and not whole.subsampled
    for z in np.random.default_rng(0).normal(size=(1, 2)):
        for options in ({}, {"jacobian": False}, {"prior": False}):
            np.testing.assert_allclose(
                parts.log_density(z, **options), whole.log_density(z, **options), rtol=1e-12
            )


def test_rows_indexed_by_a_subsampled_plate():
    def model(y, size):
        mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
        with numpyro.plate("rows", len(y), subsample_size=size) as i:
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=jnp.asarray(y)[i])

    z = jnp.array([0.4])
    log_p = [Target.from_model(model, (Y, size), {}).log_density(z) for size in (None, 2)]
    np.testing.assert_allclose(log_p[0], log_p[1], rtol=1e-12)


@pytest.mark.slow
def test_subsampled_log_density_is_unbiased():
    target = Target.from_model(in_parts, (Y,), {"subsample_size": 2})
    z = jnp.array([0.3, -0.2])
    keys = jax.random.split(jax.random.key(0), 4_000)
    noisy = np.asarray(jax.vmap(lambda key: target.noisy_log_density(z, key))(keys))
    assert noisy.std() > 0.1
    assert abs(noisy.mean() - target.log_density(z)) < 4 * noisy.std() / np.sqrt(4_000)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["map", "laplace"])
def test_fit_of_a_subsampled_model_is_that_of_the_whole(method):
    whole = bk.infer(in_parts, Y, method=method, progress=False)
    parts = bk.infer(in_parts, Y, subsample_size=3, method=method, progress=False)
    np.testing.assert_allclose(parts.optimum.z, whole.optimum.z, atol=1e-5)
    np.testing.assert_allclose(parts.optimum.hessian, whole.optimum.hessian, rtol=1e-4)
    assert parts.trust.verdict == whole.trust.verdict


def test_latents_inside_subsampled_plates_are_whole():
    def model(y, size):
        with numpyro.plate("people", 3, subsample_size=size):
            x = numpyro.sample("x", dist.Normal())
        numpyro.deterministic("sum", x.sum())
        with numpyro.plate("rows", len(y), subsample_size=size) as i:
            numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=jnp.asarray(y)[i])

    whole, parts = (Target.from_model(model, (Y, size), {}) for size in (None, 2))
    assert parts.coordinates == whole.coordinates == ["x[0]", "x[1]", "x[2]"]
    z = jnp.array([0.4, -0.2, 1.0])
    np.testing.assert_allclose(parts.log_density(z), whole.log_density(z), rtol=1e-12)
