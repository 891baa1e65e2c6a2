"""Tail indices by the density, against closed forms."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.assessment.tail_index import tail_index
from tests.inference.zoo.zoo import BY_NAME


def posterior_of(model, *args):
    """Draws that have come some way, of a model whose density goes on beyond them."""
    target = Target.of(model, args, {})
    z = np.random.default_rng(0).standard_normal((500, target.size))
    return SimpleNamespace(fitted_target=target, z=3.0 * z[None])


def student(df, size):
    """A multivariate t, whose margins have its degrees of freedom."""
    x = numpyro.sample("x", dist.Normal(0.0, 100.0).expand([size]).to_event(1))
    numpyro.factor("t", dist.MultivariateStudentT(df, jnp.zeros(size), jnp.eye(size)).log_prob(x))
    numpyro.factor("prior", -dist.Normal(0.0, 100.0).log_prob(x).sum())


def scale(y):
    """p(sigma) ~ sigma^-2, and 1 / sigma for each datum."""
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    numpyro.sample("y", dist.Normal(0.0, sigma), obs=y)


def location_and_scale(y):
    """Given sigma, mu is as wide as sigma, which takes one from the index."""
    mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
    scale_ = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    numpyro.sample("y", dist.Normal(mu, scale_), obs=y)


@pytest.mark.parametrize(("df", "size"), [(1.5, 1), (2.2, 4), (5.0, 4)])
def test_the_margins_of_a_student_t_have_its_degrees_of_freedom(df, size):
    np.testing.assert_allclose(tail_index(posterior_of(student, df, size), "x[0]"), df, rtol=0.03)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_datum_adds_one_to_the_index_of_a_scale(count):
    y = np.array([0.3, -0.8, 0.5, 1.0])[:count]
    np.testing.assert_allclose(tail_index(posterior_of(scale, y), "sigma"), 1.0 + count, rtol=0.06)


def test_other_coordinates_are_integrated_out():
    y = np.array([0.3, -0.8, 0.5])
    posterior = posterior_of(location_and_scale, y)
    np.testing.assert_allclose(tail_index(posterior, "sigma"), 3.0, rtol=0.06)


def test_light_tails_have_no_index_and_what_has_no_coordinate_of_its_own_is_left_out():
    def model():
        numpyro.sample("x", dist.Normal())
        numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
        numpyro.sample("u", dist.Uniform())
        numpyro.deterministic("f", jnp.zeros(()))
        numpyro.factor("data", 0.0)

    posterior = posterior_of(model)
    assert tail_index(posterior, "x") > 50.0
    # The second coordinate of p has the name of another number.
    for name in ("p[0]", "p[1]", "p[2]", "f", "u"):
        assert tail_index(posterior, name) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "importance", "auto"])
@pytest.mark.parametrize("seed", range(6))
def test_an_sd_that_does_not_exist_is_never_good(method, seed):
    success = BY_NAME["infinite sd: StudentT(1.5), one success"]
    posterior = bk.infer(success.model, *success.args, method=method, seed=seed, progress=False)
    trust = posterior.trust
    assert trust.verdict != "good"
    if "tail_index" in trust.evidence:
        np.testing.assert_allclose(trust.evidence["tail_index"], 1.5, rtol=0.03)
