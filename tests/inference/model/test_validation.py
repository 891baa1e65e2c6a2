"""What is refused at the door, by the name of its site, and plates that are taken in parts."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

import bayeskern as bk
from bayeskern.inference import Target
from tests.marks import slow

Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1, -0.4])


def mean_of(y, scale=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(mu, scale), obs=y)


def refused(model, *args, match, method="laplace"):
    with pytest.raises(ValueError, match=match):
        bk.infer(model, *args, method=method, progress=False)


def test_a_model_without_latents():
    def model():
        numpyro.sample("y", dist.Normal(), obs=1.0)

    for method in ("map", "mle", "laplace", "importance", "nuts"):
        refused(model, match="no latent site", method=method)


def test_nan_data_are_named_with_their_first_row():
    bad = Y.copy()
    bad[[2, 4]] = np.nan
    for method in ("map", "laplace", "importance"):
        refused(mean_of, bad, match="site 'y' has 2 values that are NaN.*row 2", method=method)


def test_data_outside_the_support_name_the_site():
    def model(y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("counts", dist.Gamma(s, 1.0), obs=y)
        numpyro.sample("fine", dist.Normal(s, 1.0), obs=y)

    refused(
        model, -np.abs(Y), match=r"^counts\[0\] = -0.3 is outside the support of Gamma \(5 other"
    )


def test_a_prior_with_no_finite_density_names_its_site():
    def model(scale):
        x = numpyro.sample("fine", dist.Normal(0.0, 1.0))
        numpyro.sample("broken", dist.Normal(0.0, jnp.exp(x) * scale))

    for scale in (np.nan, np.inf):
        refused(model, scale, match=r"log density is not finite.*at site 'broken' \((nan|-inf)")


def test_an_unknown_method_with_the_nearest_name():
    refused(mean_of, Y, match="Did you mean 'laplace'", method="laplce")


@pytest.mark.parametrize("name", ["draw", "chain", "sample"])
def test_a_plate_named_like_an_axis_of_the_draws(name):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate(name, len(y)):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    refused(model, Y, match=f"plate is named '{name}'.*Rename")


def test_a_deterministic_without_the_shape_of_its_plate():
    def model(y, value):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", len(y)):
            numpyro.deterministic("d", mu * value)
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    refused(model, Y, 2.0, match=r"deterministic 'd' has shape \(\) inside plate 'rows'.*6 rows")
    refused(model, Y, np.ones(3), match=r"deterministic 'd' has shape \(3,\)")
    assert Target.of(model, (Y, np.ones(6)), {}).deterministics == ("d",)


def test_a_deterministic_with_an_axis_of_events_behind_that_of_its_plate():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", len(y)):
            with handlers.reparam(config={"theta": LocScaleReparam(0)}):
                theta = numpyro.sample("theta", dist.Normal(mu * jnp.ones(3), 1.0).to_event(1))
            numpyro.sample("y", dist.Normal(theta[:, 0], 1.0), obs=y)

    target = Target.of(model, (Y,), {})
    assert target.deterministics == ("theta",)
    assert target.sites()["theta"].shape == (6, 3)


def test_observations_that_would_be_broadcast_against_their_distribution():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(jnp.zeros((len(y), 1)), 1.0).to_event(2))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    refused(model, Y, match=r"observed site 'y' has values of shape \(6,\).*shape \(6, 1\)")

    def square(y):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu * jnp.ones((len(y), len(y))), 1.0), obs=y)

    refused(square, Y, match=r"shape \(6,\).*distribution has shape \(6, 6\)")


def test_one_number_for_several_observations_is_broadcast_on_purpose():
    def model():
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu * jnp.ones(3), 1.0), obs=0.5)

    z = jnp.array([0.2])
    by_hand = dist.Normal().log_prob(0.2) + 3 * dist.Normal(0.2, 1.0).log_prob(0.5)
    np.testing.assert_allclose(Target.of(model, (), {}).log_density(z), by_hand, rtol=1e-12)


def test_observations_that_are_one_event_are_the_same_posterior():
    def event(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
        numpyro.sample("y", dist.Normal(mu * jnp.ones(len(y)), 1.0).to_event(1), obs=y)

    one, each = (bk.infer(m, Y, method="laplace", progress=False) for m in (event, mean_of))
    np.testing.assert_allclose(one.draws["mu"], each.draws["mu"], rtol=1e-9)


# -- subsampled plates ---------------------------------------------------------------------------


def in_parts(y, subsample_size=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("rows", len(y), subsample_size=subsample_size):
        batch = numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(mu, s), obs=batch)


# 4 does not divide the 6 rows.
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_density_of_a_subsampled_plate_is_the_whole_one(size):
    whole = Target.of(in_parts, (Y,), {})
    parts = Target.of(in_parts, (Y,), {"subsample_size": size})
    assert parts.subsampled and not whole.subsampled
    for z in np.random.default_rng(0).normal(size=(3, 2)):
        for options in ({}, {"jacobian": False}, {"prior": False}):
            np.testing.assert_allclose(
                parts.log_density(z, **options), whole.log_density(z, **options), rtol=1e-12
            )


def test_rows_that_are_indexed_by_the_plate():
    def model(y, size):
        mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
        with numpyro.plate("rows", len(y), subsample_size=size) as i:
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=jnp.asarray(y)[i])

    z = jnp.array([0.4])
    found = [Target.of(model, (Y, size), {}).log_density(z) for size in (None, 2)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.slow
def test_the_noisy_density_has_the_whole_one_as_its_mean():
    target = Target.of(in_parts, (Y,), {"subsample_size": 2})
    z = jnp.array([0.3, -0.2])
    keys = jax.random.split(jax.random.key(0), 4_000)
    noisy = np.asarray(jax.vmap(lambda key: target.noisy_log_density(z, key))(keys))
    assert noisy.std() > 0.1
    assert abs(noisy.mean() - target.log_density(z)) < 4 * noisy.std() / np.sqrt(4_000)


@pytest.mark.slow
@pytest.mark.parametrize("method", [slow("map"), "laplace"])
def test_fits_of_a_subsampled_model_are_fits_of_the_whole(method):
    whole = bk.infer(in_parts, Y, method=method, progress=False)
    parts = bk.infer(in_parts, Y, subsample_size=3, method=method, progress=False)
    np.testing.assert_allclose(parts.optimum.z, whole.optimum.z, atol=1e-5)
    np.testing.assert_allclose(parts.optimum.hessian, whole.optimum.hessian, rtol=1e-4)
    assert parts.trust.verdict == whole.trust.verdict


def test_two_subsampled_plates_with_latents_inside():
    def model(y, size):
        with numpyro.plate("people", 3, subsample_size=size):
            x = numpyro.sample("x", dist.Normal())
        numpyro.deterministic("sum", x.sum())
        with numpyro.plate("rows", len(y), subsample_size=size) as i:
            numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=jnp.asarray(y)[i])

    whole, parts = (Target.of(model, (Y, size), {}) for size in (None, 2))
    assert parts.coordinates == whole.coordinates == ["x[0]", "x[1]", "x[2]"]
    z = jnp.array([0.4, -0.2, 1.0])
    np.testing.assert_allclose(parts.log_density(z), whole.log_density(z), rtol=1e-12)
