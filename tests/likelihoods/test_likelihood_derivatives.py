"""First and second derivatives of log p(y | eta) in eta, which Newton steps and samplers take."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from bayeskern import likelihoods as lk
from tests.likelihoods.families import CASES, ONE_ROW, REAL, SEVERAL, Several, of_each_family
from tests.marks import few

FAR = np.concatenate([np.linspace(-30.0, 30.0, 121), [-40.0, 40.0, 1e-3]])


def derivatives(likelihood, y, eta):
    """Log density, slope and curvature at each eta: (n,)."""
    extra = {name: ONE_ROW[name] for name in likelihood.needs}
    found = _derivatives(likelihood, extra, jnp.asarray(y), jnp.asarray(eta))
    return [np.asarray(each) for each in found]


@eqx.filter_jit
def _derivatives(likelihood, extra, y, eta):
    def at(eta):
        return likelihood.distribution(eta, **extra).log_prob(y)

    slope = jax.grad(at)
    return [jax.vmap(f)(eta) for f in (at, slope, jax.grad(slope))]


@of_each_family
def test_derivatives_are_finite_and_log_concave_as_stated(case):
    likelihood, eta = case.likelihood, FAR[FAR > 0] if case.on_half_line else FAR
    found = np.array([derivatives(likelihood, y, eta) for y in case.values])
    assert np.all(np.isfinite(found))
    curvature = found[:, 2].max()
    assert curvature <= 1e-12 if likelihood.log_concave else curvature > 1e-3


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_logit_tails_are_exact(y):
    eta = np.linspace(-40.0, 40.0, 81)
    value, slope, curvature = derivatives(lk.Bernoulli(), y, eta)
    sign = 2.0 * y - 1.0
    np.testing.assert_allclose(value, stats.logistic.logcdf(sign * eta), rtol=1e-13)
    np.testing.assert_allclose(slope, sign * special.expit(-sign * eta), rtol=1e-13)
    np.testing.assert_allclose(
        curvature, -special.expit(eta) * special.expit(-eta), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_probit_tails_are_exact(y):
    eta = np.linspace(-40.0, 40.0, 81)
    value, slope, curvature = derivatives(lk.Bernoulli(link="probit"), y, eta)
    x = (2.0 * y - 1.0) * eta
    # phi / Phi, which is sqrt(2 / pi) / erfcx(-x / sqrt 2).
    ratio = np.sqrt(2.0 / np.pi) / special.erfcx(-x / np.sqrt(2.0))
    np.testing.assert_allclose(value, stats.norm.logcdf(x), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(slope, np.sign(y - 0.5) * ratio, rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(curvature, -ratio * (x + ratio), rtol=1e-5, atol=1e-300)


def test_cloglog_tails_are_exact():
    eta = np.linspace(-40.0, 3.0, 87)
    t = np.exp(eta)
    value, slope, curvature = derivatives(lk.Bernoulli(link="cloglog"), 1.0, eta)
    exact = np.where(t < 0.7, np.log(-np.expm1(-t)), np.log1p(-np.exp(-np.maximum(t, 0.1))))
    np.testing.assert_allclose(value, exact, rtol=1e-13)
    np.testing.assert_allclose(slope, t / np.expm1(t), rtol=1e-12)
    # d/d eta of t / (e^t - 1); its series where the closed form cancels.
    exact = t / np.expm1(t) * (1.0 - t - t / np.expm1(t))
    exact = np.where(t < 1e-3, -t / 2.0 + t**2 / 6.0, exact)
    np.testing.assert_allclose(curvature, exact, rtol=1e-8)
    value, slope, curvature = derivatives(lk.Bernoulli(link="cloglog"), 0.0, eta)
    for found in (value, slope, curvature):
        np.testing.assert_allclose(found, -t, rtol=1e-14)


def test_softplus_tails_are_exact():
    eta = np.linspace(-60.0, -12.0, 49)
    t, y = np.exp(eta), 3.0
    value, slope, curvature = derivatives(lk.Poisson(link="softplus"), y, eta)
    rate = 2.0 * np.log1p(t)
    np.testing.assert_allclose(value, stats.poisson.logpmf(y, rate), rtol=1e-13)
    # log log(1 + t) = eta - t/2 + 5 t^2 / 24 - ..., log(1 + t) = t - t^2 / 2 + ...
    exact = y * (1.0 - t / 2.0 + 5.0 * t**2 / 12.0) - 2.0 * (t - t**2)
    np.testing.assert_allclose(slope, exact, rtol=1e-13)
    exact = y * (-t / 2.0 + 5.0 * t**2 / 6.0) - 2.0 * (t - 2.0 * t**2)
    np.testing.assert_allclose(curvature, exact, rtol=1e-9)


@pytest.mark.parametrize("concentration", [0.3, 999.0, 1000.0, 1001.0, 1e6])
def test_gradient_in_the_negative_binomial_concentration(concentration):
    y, mean = 7.0, np.exp(1.5)

    def at(a):
        return lk.NegativeBinomial(a).distribution(1.5, exposure=1.0).log_prob(y)

    a = concentration
    # digamma(a + y) - digamma(a) is the sum of 1 / (a + i).
    truth = np.sum(1.0 / (a + np.arange(y))) - np.log1p(mean / a) + (mean - y) / (a + mean)
    np.testing.assert_allclose(jax.jit(jax.grad(at))(a), truth, rtol=1e-6, atol=1e-14)


CANONICAL = {
    "gaussian": lk.Gaussian(noise=1.0),
    "logit": lk.Bernoulli(),
    "binomial": lk.Binomial(),
    "log": lk.Poisson(),
}


@pytest.mark.parametrize("likelihood", CANONICAL.values(), ids=CANONICAL)
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_gradient_under_a_canonical_link_is_the_residual(likelihood, y):
    """d log p / d eta = y - E[y | eta]."""
    eta = np.linspace(-6.0, 6.0, 25)
    extra = {name: ONE_ROW[name] for name in likelihood.needs}
    _, slope, _ = derivatives(likelihood, y, eta)
    np.testing.assert_allclose(slope, y - likelihood.mean(eta, **extra), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "likelihood", [lk.Gamma(shape=1.0, link="inverse"), lk.Exponential(link="inverse")]
)
def test_gradient_under_the_inverse_link_is_minus_the_residual(likelihood):
    eta = np.linspace(0.1, 6.0, 25)
    _, slope, _ = derivatives(likelihood, 1.3, eta)
    np.testing.assert_allclose(slope, 1.0 / eta - 1.3, rtol=1e-12, atol=1e-13)


def test_categorical_gradient_is_the_residual():
    likelihood = lk.Categorical(classes=(0, 1, 2))
    eta = np.array([0.3, -2.0, 5.0])
    for k in range(3):
        slope = jax.grad(lambda e, k=k: likelihood.distribution(e).log_prob(k))(eta)
        np.testing.assert_allclose(slope, np.eye(3)[k] - likelihood.mean(eta), atol=1e-15)


def hessians(likelihood, y, etas):
    return np.asarray(_hessians(likelihood, jnp.asarray(y), jnp.asarray(etas)))


@eqx.filter_jit
def _hessians(likelihood, y, etas):
    def at(eta):
        return likelihood.distribution(eta).log_prob(y)

    return jax.vmap(jax.hessian(at))(etas)


VALUES = {
    "Categorical": [0, 2],
    "Heteroscedastic": [-3.0, 0.0],
    "Dirichlet": [np.array([0.2, 0.3, 0.5]), np.array([1e-6, 0.1, 0.9 - 1e-6])],
}


@pytest.mark.parametrize("name", [n for n, c in SEVERAL.items() if c.likelihood.outputs])
def test_hessians_of_several_outputs_are_finite_and_concave_as_stated(name):
    likelihood, values = SEVERAL[name].likelihood, VALUES[name]
    outputs = likelihood.outputs
    near = np.random.default_rng(0).normal(0.0, 2.0, (50, outputs))
    corners = np.array(np.meshgrid(*[[-30.0, 0.0, 30.0]] * outputs)).reshape(outputs, -1).T
    for y in values:
        assert np.all(np.isfinite(hessians(likelihood, y, corners)))
    largest = max(np.linalg.eigvalsh(hessians(likelihood, y, near)).max() for y in values)
    assert (largest <= 1e-13) == likelihood.log_concave


@pytest.mark.parametrize("link", few(["logit", "probit"], "probit"))
def test_ordered_is_concave_with_finite_derivatives(link):
    likelihood = lk.Ordered([-1.0, 0.0, 0.7], classes=(0, 1, 2, 3), link=link)
    for y in range(4):
        value, slope, curvature = derivatives(likelihood, y, FAR)
        assert all(np.all(np.isfinite(found)) for found in (value, slope, curvature))
        assert curvature.max() <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("link", few(["logit", "probit"], "probit"))
def test_ordered_gradient_against_closed_form(link):
    """d log p / d eta = -(f(b) - f(a)) / (F(b) - F(a))."""
    eta, edges = np.linspace(-4.0, 4.0, 33), np.array([-np.inf, -1.0, 0.4, np.inf])
    law = stats.logistic if link == "logit" else stats.norm
    likelihood = lk.Ordered(edges[1:-1], classes=(0, 1, 2), link=link)
    for y in range(3):
        a, b = edges[y] - eta, edges[y + 1] - eta
        truth = -(law.pdf(b) - law.pdf(a)) / (law.cdf(b) - law.cdf(a))
        np.testing.assert_allclose(derivatives(likelihood, y, eta)[1], truth, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("link", few(["logit", "probit"], "probit"))
def test_ordered_has_finite_derivatives_in_its_cutpoints(link):
    def at(cutpoints, eta, y):
        return lk.Ordered(cutpoints, classes=(0, 1, 2), link=link).distribution(eta).log_prob(y)

    both = jax.jit(lambda *where: (jax.grad(at)(*where), jax.hessian(at)(*where)))
    for y in range(3):
        for eta in (-40.0, 0.0, 40.0):
            for cutpoints in ([-60.0, 60.0], [0.0, 1e-3]):
                slope, curvature = both(jnp.array(cutpoints), eta, y)
                assert np.all(np.isfinite(slope)) and np.all(np.isfinite(curvature))


@pytest.mark.parametrize("name", ["Gaussian-identity", "StudentT-identity", "Laplace-identity"])
def test_only_laplace_has_a_kink(name):
    likelihood, y = CASES[name].likelihood, 0.5
    slope = jax.grad(lambda eta: likelihood.distribution(eta).log_prob(y))
    jump = abs(slope(y + 1e-9) - slope(y - 1e-9))
    assert (jump > 1e-3) == likelihood.kinked


# -- eta without bound -----------------------------------------------------------------------------


# The log density of Student's t falls by 1.3 log |eta| only.
VANISHING = {
    **CASES,
    "Ordered-logit": SEVERAL["Ordered"],
    "StudentT-heavy": Several(lk.StudentT(df=0.3, scale=1.0), REAL, REAL),
}


@pytest.mark.parametrize(
    "name", few(VANISHING, "StudentT-heavy", "Bernoulli-probit", "Poisson-log")
)
def test_vanishing_tails_vanish(name):
    likelihood = VANISHING[name].likelihood
    y = np.array(CASES[name].values if name in CASES else VANISHING[name].y)
    extra = {key: ONE_ROW[key] for key in likelihood.needs}
    above, below = likelihood.vanishing_tails(y, **extra)

    def log_density(eta):
        return np.asarray(likelihood.distribution(jnp.full(len(y), eta), **extra).log_prob(y))

    for side, vanishes in ((1.0, above), (-1.0, below)):
        # A limit above 0 is reached within 1e-4 at 10; without a limit, the log density falls on.
        near, far = log_density(10.0 * side), log_density(1e6 * side)
        np.testing.assert_array_equal((far == -np.inf) | (far < near - 1.0), vanishes)
