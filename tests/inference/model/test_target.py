"""The log density of a model on R^d against densities written by hand with SciPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.distributions import constraints
from numpyro.distributions.transforms import OrderedTransform
from scipy import stats
from scipy.special import expit

from bayeskern.inference import Target

Y = np.array([0.3, -1.2, 2.0, 0.7])


def check(target, z, plain, log_det):
    """log p in the model's own parameters, and with the log determinant of the map to them."""
    z = jnp.asarray(z, float)
    np.testing.assert_allclose(target.log_density(z, jacobian=False), plain, rtol=1e-12)
    np.testing.assert_allclose(target.log_density(z), plain + log_det, rtol=1e-12)


# -- densities by hand ---------------------------------------------------------------------------


def test_normal_with_data_and_keyword_arguments():
    def model(y, scale=1.0):
        mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
        numpyro.sample("y", dist.Normal(mu, scale), obs=y)

    target = Target.from_model(model, (jnp.asarray(Y),), {"scale": 0.5})
    assert (target.size, target.coordinates) == (1, ["mu"])
    plain = stats.norm(1.0, 2.0).logpdf(0.4) + stats.norm(0.4, 0.5).logpdf(Y).sum()
    check(target, [0.4], plain, 0.0)
    # The constant is there: it integrates to the evidence, in closed form a Gaussian of y.
    z = np.linspace(-8, 8, 2001)
    evidence = np.trapezoid(np.exp(jax.vmap(lambda t: target.log_density(t[None]))(z)), z)
    covariance = 0.25 * np.eye(4) + 4.0 * np.ones((4, 4))
    np.testing.assert_allclose(
        np.log(evidence), stats.multivariate_normal(np.ones(4), covariance).logpdf(Y), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("prior", "peer"),
    [
        (dist.HalfNormal(1.5), stats.halfnorm(scale=1.5)),
        (dist.InverseGamma(5.0, 2.0), stats.invgamma(5.0, scale=2.0)),
    ],
)
def test_positive_parameters(prior, peer):
    target = Target.from_model(lambda: numpyro.sample("s", prior), (), {})
    # s = exp(z), ds/dz = exp(z).
    check(target, [-1.3], peer.logpdf(np.exp(-1.3)), -1.3)
    np.testing.assert_allclose(target.constrain(jnp.array([0.8]))["s"], np.exp(0.8), rtol=1e-12)


def test_simplex():
    alpha = np.array([2.0, 3.0, 0.5])
    target = Target.from_model(lambda: numpyro.sample("p", dist.Dirichlet(alpha)), (), {})
    assert target.coordinates == ["p[0]", "p[1]"]
    z = jnp.array([0.3, -0.8])
    p = target.constrain(z)["p"]
    assert p.shape == (3,)
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)
    # The determinant of the map to the first two components, from its Jacobian.
    log_det = jnp.linalg.slogdet(jax.jacobian(lambda z: target.constrain(z)["p"][:2])(z))[1]
    check(target, z, stats.dirichlet(alpha).logpdf(np.asarray(p)), log_det)


def test_ordered_vector():
    prior = dist.TransformedDistribution(
        dist.Normal(jnp.zeros(3), 1.0).to_event(1), OrderedTransform()
    )

    def model():
        cuts = numpyro.sample("cuts", prior)
        numpyro.sample("y", dist.Normal(cuts[1], 1.0), obs=0.4)

    target = Target.from_model(model, (), {})
    z = np.array([-0.7, 0.2, -1.1])
    cuts = np.cumsum([z[0], np.exp(z[1]), np.exp(z[2])])
    np.testing.assert_allclose(target.constrain(jnp.asarray(z))["cuts"], cuts, rtol=1e-12)
    log_det = z[1] + z[2]
    plain = stats.norm.logpdf(z).sum() - log_det + stats.norm(cuts[1]).logpdf(0.4)
    check(target, z, plain, log_det)


def test_plates():
    def model(y):
        with numpyro.plate("groups", 3):
            s = numpyro.sample("s", dist.HalfNormal(2.0))
            with numpyro.plate("rows", 2):
                m = numpyro.sample("m", dist.Normal(0.0, s))
        numpyro.sample("y", dist.Normal(m.sum(), 1.0), obs=y)

    target = Target.from_model(model, (1.5,), {})
    assert target.coordinates == [
        *("s[0]", "s[1]", "s[2]"),
        *("m[0, 0]", "m[0, 1]", "m[0, 2]", "m[1, 0]", "m[1, 1]", "m[1, 2]"),
    ]
    z = np.random.default_rng(0).normal(size=9)
    s, m = np.exp(z[:3]), z[3:].reshape(2, 3)
    plain = (
        stats.halfnorm(scale=2.0).logpdf(s).sum()
        + stats.norm(0.0, s).logpdf(m).sum()
        + stats.norm(m.sum()).logpdf(1.5)
    )
    check(target, z, plain, z[:3].sum())


def test_factor_param_and_deterministic():
    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        a = numpyro.param("a", 2.0, constraint=constraints.positive)
        numpyro.factor("penalty", -3.0 * x**4)
        numpyro.deterministic("product", a * x)
        numpyro.sample("y", dist.Normal(x, a), obs=1.0)

    target = Target.from_model(model, (), {})
    assert target.coordinates == ["x", "a"]
    assert target.without_prior == ("a",)
    z = np.array([0.6, -0.4])
    a = np.exp(-0.4)
    plain = stats.norm.logpdf(0.6) - 3.0 * 0.6**4 + stats.norm(0.6, a).logpdf(1.0)
    check(target, z, plain, 0.0)  # a param has no density, so no Jacobian either
    values = target.constrain(jnp.asarray(z))
    assert set(values) == {"x", "a", "product"}
    np.testing.assert_allclose(values["product"], 0.6 * a, rtol=1e-12)


def test_improper_uniform():
    def model(y):
        s = numpyro.sample("s", dist.ImproperUniform(constraints.positive, (), ()))
        w = numpyro.sample("w", dist.ImproperUniform(constraints.real, (), (2,)))
        numpyro.sample("y", dist.Normal(w.sum(), s), obs=y)

    target = Target.from_model(model, (jnp.asarray(Y),), {})
    assert target.coordinates == ["s", "w[0]", "w[1]"]
    assert target.without_prior == ("s", "w")
    z = np.array([0.3, 0.5, -0.2])
    check(target, z, stats.norm(0.3, np.exp(0.3)).logpdf(Y).sum(), 0.3)


def test_support_that_depends_on_another_latent():
    def model():
        a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
        numpyro.sample("u", dist.Uniform(0.0, a))

    target = Target.from_model(model, (), {})
    z = np.array([0.9, -0.3])
    a, p = np.exp(0.9), expit(-0.3)
    np.testing.assert_allclose(target.constrain(jnp.asarray(z))["u"], a * p, rtol=1e-12)
    # u = a p: du/dz = a p (1 - p).
    log_det = 0.9 + 0.9 + np.log(p) + np.log1p(-p)
    check(target, z, stats.gamma(2.0).logpdf(a) - 0.9, log_det)


def test_model_with_masks_and_scales():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with (
            numpyro.handlers.scale(scale=3.0),
            numpyro.handlers.mask(mask=np.array([True, True, False, True])),
        ):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    target = Target.from_model(model, (jnp.asarray(Y),), {})
    plain = stats.norm.logpdf(0.2) + 3.0 * stats.norm(0.2).logpdf(Y[[0, 1, 3]]).sum()
    check(target, [0.2], plain, 0.0)


@pytest.mark.slow
def test_correlation_matrix():
    # LKJ(2) in three dimensions: |R|^(2 - 1) over a constant (Lewandowski et al. 2009, eq. 16).
    target = Target.from_model(lambda: numpyro.sample("L", dist.LKJCholesky(3, 2.0)), (), {})
    assert target.size == 3
    z = jnp.array([0.2, -0.5, 0.9])
    L = np.asarray(target.constrain(z)["L"])
    np.testing.assert_allclose(np.sum(L**2, axis=1), 1.0, rtol=1e-12)

    def lower(z):
        L = target.constrain(z)["L"]
        return jnp.array([L[1, 0], L[2, 0], L[2, 1]])

    log_det = jnp.linalg.slogdet(jax.jacobian(lower)(z))[1]
    gain = target.log_density(z) - target.log_density(z, jacobian=False)
    np.testing.assert_allclose(gain, log_det, rtol=1e-10)
    # p(L) is proportional to |R| times the Jacobian of L -> R, which is L[1,1]; compare two points.
    other = jnp.array([-1.0, 0.1, 0.4])
    M = np.asarray(target.constrain(other)["L"])

    def unnormalised(L):
        return 2 * np.log(np.diag(L)).sum() + np.log(L[1, 1])

    difference = target.log_density(z, False) - target.log_density(other, False)
    np.testing.assert_allclose(difference, unnormalised(L) - unnormalised(M), rtol=1e-10)


# -- laying out, going back ----------------------------------------------------------------------


def several_sites():
    numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("n", 2):
        numpyro.sample("s", dist.HalfNormal())
    numpyro.sample("x", dist.Normal())


def test_ravel_and_unravel_are_inverse():
    target = Target.from_model(several_sites, (), {})
    assert target.coordinates == ["p[0]", "p[1]", "s[0]", "s[1]", "x"]
    parts = target.unravel(jnp.arange(5.0))
    assert {k: v.tolist() for k, v in parts.items()} == {"p": [0, 1], "s": [2, 3], "x": 4}
    backwards = dict(reversed(parts.items()))
    np.testing.assert_array_equal(target.ravel(backwards), np.arange(5.0))


@pytest.mark.slow
def test_draws_from_the_prior_by_kolmogorov_smirnov():
    target = Target.from_model(several_sites, (), {})
    keys = jax.random.split(jax.random.key(0), 2000)
    draws = jax.jit(jax.vmap(lambda k: target.constrain(target.draw_prior(k, 1.0))))(keys)
    # Kolmogorov-Smirnov: a correct sampler fails each of these once in 10,000 seeds.
    for values, law in [
        (draws["x"], stats.norm),
        (draws["s"][:, 1], stats.halfnorm),
        (draws["p"][:, 2], stats.beta(1, 2)),  # the marginal of a flat Dirichlet
    ]:
        assert stats.kstest(np.asarray(values), law.cdf).pvalue > 1e-4


def test_draws_without_a_proper_prior_lie_around_the_first_value():
    def model():
        numpyro.param("b", -2.0)  # a plain number on the whole line
        a = numpyro.param("a", 5.0, constraint=constraints.positive)
        s = numpyro.sample("s", dist.ImproperUniform(constraints.positive, (), ()))
        numpyro.sample("y", dist.Normal(a, s), obs=1.0)

    target = Target.from_model(model, (), {})
    draws = jax.jit(jax.vmap(lambda k: target.draw_prior(k, 1.0)))(
        jax.random.split(jax.random.key(0), 1000)
    )
    assert np.all(np.isfinite(draws))
    # Five standard errors of a mean of 1,000 standard normals are 0.16.
    np.testing.assert_allclose(draws.mean(axis=0), [-2.0, np.log(5.0), 0.0], atol=0.16)
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=5 / np.sqrt(2000))


def test_new_values_of_the_same_shape_do_not_trace_again():
    traced = []

    def model(y):
        traced.append(len(y))
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    density = eqx.filter_jit(lambda target, z: target.log_density(z))
    for y in (Y, Y + 1.0):
        target = Target.from_model(model, (jnp.asarray(y),), {})
        before = len(traced)
        expected = stats.norm.logpdf(0.5) + stats.norm(0.5).logpdf(y).sum()
        np.testing.assert_allclose(density(target, jnp.array([0.5])), expected, rtol=1e-12)
    assert len(traced) == before


def test_random_keys_of_a_model_are_fixed():
    def model():
        x = numpyro.sample("x", dist.Normal())
        noise = jax.random.normal(numpyro.prng_key())
        numpyro.factor("noise", x * noise)

    target = Target.from_model(model, (), {})
    z = jnp.array([1.0])
    assert target.log_density(z) == target.log_density(z)


def test_latents_inside_a_scan():
    def model(y):
        def step(before, y_now):
            x = numpyro.sample("x", dist.LogNormal(jnp.log(before), 0.5))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=y_now)
            return x, None

        scan(step, 1.0, y)

    y = np.array([1.0, 2.0, 0.5])
    target = Target.from_model(model, (y,), {})
    z = np.array([0.1, -0.3, 0.4])
    x = np.exp(z)
    before = np.concatenate([[1.0], x[:-1]])
    # log x is normal around the log of the one before.
    expected = np.sum(stats.norm.logpdf(z, np.log(before), 0.5) + stats.norm.logpdf(y, x, 1.0))
    check(target, z, expected - z.sum(), z.sum())


@pytest.mark.slow
def test_log_determinant_of_a_scaled_site_is_not_scaled():
    def model():
        with numpyro.handlers.scale(scale=3.0):
            numpyro.sample("x", dist.Gamma(2.0, 1.0))

    target = Target.from_model(model, (), {})
    check(target, [0.3], 3.0 * stats.gamma(2.0).logpdf(np.exp(0.3)), 0.3)
