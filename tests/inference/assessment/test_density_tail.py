"""Tails by the density, against closed forms."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.assessment.density_tail import density_tail
from tests.inference.zoo.zoo import BY_NAME


def posterior_of(model, *args):
    """Draws of a model whose density extends beyond them."""
    target = Target.from_model(model, args, {})
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


@pytest.mark.slow
@pytest.mark.parametrize(("df", "size"), [(1.5, 1), (2.2, 4), (5.0, 4)])
def test_tail_index_of_student_t_margins_is_df(df, size):
    tail = density_tail(posterior_of(student, df, size), "x[0]")
    np.testing.assert_allclose(tail.index, df, rtol=0.03)
    assert df > 2.0 or tail.sd == np.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "count", "index"), [(scale, 1, 2.0), (scale, 4, 5.0), (location_and_scale, 3, 3.0)]
)
def test_tail_index_of_a_scale_grows_with_the_data(model, count, index):
    y = np.array([0.3, -0.8, 0.5, 1.0])[:count]
    tail = density_tail(posterior_of(model, y), "sigma")
    np.testing.assert_allclose(tail.index, index, rtol=0.06)


def test_light_tails_and_sites_without_own_coordinates():
    def model():
        numpyro.sample("x", dist.Normal())
        numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
        numpyro.sample("u", dist.Uniform())
        numpyro.deterministic("f", jnp.zeros(()))
        numpyro.factor("data", 0.0)

    posterior = posterior_of(model)
    assert density_tail(posterior, "x").index > 50.0
    # The second coordinate of p has the name of another number.
    for name in ("p[0]", "p[1]", "p[2]", "f"):
        assert np.isnan(density_tail(posterior, name).sd)
    # A bounded number has no tail beyond its draws.
    assert density_tail(posterior, "u").index == np.inf


@pytest.mark.parametrize("df", [3.0, 5.0])
def test_sd_accounts_for_missing_extreme_draws(df):
    """The outermost hundredth on each side is replaced by the next one."""
    x = scipy.stats.t(df).ppf((np.arange(4_000) + 0.5) / 4_000)
    kept = np.r_[x[40:80], x[40:-40], x[-80:-40]]
    target = Target.from_model(student, (df, 1), {})
    tail = density_tail(SimpleNamespace(fitted_target=target, z=kept[None, :, None]), "x[0]")
    np.testing.assert_allclose(tail.sd, scipy.stats.t(df).std(), rtol=0.05)
    assert np.std(kept) < 0.95 * tail.sd


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_squares_neither_overflow_nor_underflow(unit):
    def model():
        x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.factor("t", dist.StudentT(5.0).log_prob(x / unit))

    x = scipy.stats.t(5.0).ppf((np.arange(4_000) + 0.5) / 4_000)
    draws = SimpleNamespace(
        fitted_target=Target.from_model(model, (), {}), z=unit * x[None, :, None]
    )
    sd = scipy.stats.t(5.0).std()
    np.testing.assert_allclose(density_tail(draws, "x").sd / unit, sd, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "importance", "auto"])
@pytest.mark.parametrize("seed", range(6))
def test_infinite_sd_is_not_good(method, seed):
    success = BY_NAME["infinite sd: StudentT(1.5), one success"]
    posterior = bk.infer(success.model, *success.args, method=method, seed=seed, progress=False)
    assert posterior.trust.verdict != "good"
