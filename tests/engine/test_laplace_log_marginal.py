"""Log density of latent processes in NumPy against `LatentGP`, differences and quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats

import bayeskern as bk
from bayeskern.engine.laplace_log_marginal import LaplaceLogMarginal
from bayeskern.engine.prior import NumpyPrior
from bayeskern.inference.model.bound import BoundModel
from bayeskern.kernels import RBF, Constant, Linear
from bayeskern.likelihoods.analytic import Analytic
from tests.likelihoods.families import THETAS
from tests.marks import few

LIKELIHOODS = Analytic.by_name()
NAMES = list(LIKELIHOODS)
F = np.array([-2.0, -0.5, 0.3, 1.0, 2.5, 0.0])
X = np.linspace(0.0, 4.0, 25)
SHIFT, SIZE = 0.6, 0.8


def jax_likelihood(name, theta):
    values = LIKELIHOODS[name].values(theta)
    values = {key.removeprefix("likelihood."): float(v) for key, v in values.items()}
    return LIKELIHOODS[name].with_hyperparameters(**values)


def observations(name):
    rng = np.random.default_rng(3)
    f = 0.6 + 0.8 * np.sin(X)
    y = LIKELIHOODS[name].draw(rng, f, THETAS[name])
    assert len(set(y)) > 3
    return y


def kernel():
    prior = dist.LogNormal(-0.5, 1.0)
    return RBF(dist.LogNormal(0.0, 1.0), prior) + Linear(prior, 2.0) + Constant(0.4)


def prior():
    return NumpyPrior(kernel(), 0.0)


def series(name):
    return LaplaceLogMarginal(prior(), LIKELIHOODS[name], X, observations(name), SHIFT, SIZE)


@pytest.mark.parametrize("name", few(NAMES, "negative_binomial", "beta"))
def test_densities_and_derivatives_equal_jax_likelihoods(name):
    ours, theta, likelihood = LIKELIHOODS[name], THETAS[name], jax_likelihood(name, THETAS[name])
    extra = {key: 1.0 for key in likelihood.needs}

    def log_density(f, y):
        return likelihood.distribution(f, **extra).log_prob(y)

    slope = jax.grad(log_density)
    derivatives = (log_density, slope, jax.grad(slope))
    at_each = jax.jit(jax.vmap(lambda f, y: [each(f, y) for each in derivatives], (0, None)))
    for y in [0.0, 1.0, 7.0, 300.0] if ours.whole else [1e-6, 0.3, 0.999]:
        truth = at_each(jnp.array(F), y)
        rows = np.full(len(F), y)
        found = [each(F, rows, theta) for each in (ours.log_density, ours.slope)]
        found.append(-ours.curvature(F, rows, theta))
        for one, other in zip(found, truth, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", few(NAMES, "zero_inflated"))
def test_information_equals_mean_curvature(name):
    ours, theta = LIKELIHOODS[name], THETAS[name]
    for f in F:
        found = ours.information(np.array([f]), np.array([2.0 if ours.whole else 0.4]), theta)

        def curvature(y, f=f):
            density = np.exp(ours.log_density(np.array([f]), np.array([y]), theta))
            return float((density * ours.curvature(np.array([f]), np.array([y]), theta))[0])

        if jax_likelihood(name, THETAS[name]).log_concave:
            truth = ours.curvature(np.array([f]), np.array([2.0]), theta)
        elif ours.whole:
            truth = sum(curvature(float(y)) for y in range(2000))
        else:
            truth = integrate.quad(curvature, 0.0, 1.0, limit=200)[0]
        np.testing.assert_allclose(found, truth, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_moments_and_probabilities_match_draws(name):
    ours, theta = LIKELIHOODS[name], THETAS[name]
    y = ours.draw(np.random.default_rng(0), np.full(100_000, 0.4), theta)
    mean, variance = ours.moments(0.4, theta)
    assert np.mean(y) == pytest.approx(mean, rel=0.03)
    assert np.var(y) == pytest.approx(variance, rel=0.06)
    for q in (0.2, 0.5, 0.9):
        at = np.quantile(y, q)
        assert ours.below(at, 0.4, theta) == pytest.approx(np.mean(y <= at), abs=0.006)


def target(name):
    """Target of the same model by `LatentGP`."""
    model = bk.LatentGP(SIZE**2 * kernel(), LIKELIHOODS[name], mean=SHIFT, integrate=True)
    return BoundModel.from_model(model, (X[:, None], observations(name)), {}).target()


@pytest.mark.slow
@pytest.mark.parametrize("name", few(["poisson", "negative_binomial"], "negative_binomial"))
def test_log_density_and_gradient_equal_latent_gp(name):
    ours, theirs = series(name), target(name)
    assert tuple(theirs.coordinates) == ours.names
    for shift in (0.0, 0.4):
        z = ours.middle + shift
        value, gradient = ours.value_and_gradient(z)
        truth, slopes = jax.value_and_grad(theirs.log_density)(jnp.array(z))
        assert value == pytest.approx(float(truth), abs=1e-6)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_equals_finite_differences(name):
    ours = series(name)
    z, step = ours.middle + 0.3, 1e-4
    _, gradient = ours.value_and_gradient(z)
    for i, e in enumerate(step * np.eye(len(z))):
        difference = (ours.log_density(z + e) - ours.log_density(z - e)) / (2.0 * step)
        assert gradient[i] == pytest.approx(difference, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["zero_inflated", "beta"])
def test_log_density_is_close_to_quadrature(name):
    """A single value, with p(y) by quadrature over f."""
    ours, y = LIKELIHOODS[name], 3.0 if LIKELIHOODS[name].whole else 0.3
    theta = THETAS[name]
    one = LaplaceLogMarginal(
        NumpyPrior(Constant(0.5), 0.0), ours, np.zeros(1), np.array([y]), SHIFT, SIZE
    )

    def joint(g):
        density = ours.log_density(np.array([SHIFT + SIZE * g]), np.array([y]), theta)[0]
        return np.exp(density) * stats.norm.pdf(g, 0.0, np.sqrt(0.5))

    truth = np.log(integrate.quad(joint, -8.0, 8.0)[0]) + ours.log_prior(theta)[0]
    assert one.log_density(theta) == pytest.approx(truth, abs=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_single_value_is_left_out_as_by_the_prior(name):
    """Without its only value the process has its prior, and p(y) is a quadrature over it."""
    ours, theta, y = LIKELIHOODS[name], THETAS[name], 3.0 if LIKELIHOODS[name].whole else 0.3
    one = LaplaceLogMarginal(
        NumpyPrior(Constant(0.5), 0.0), ours, np.zeros(1), np.array([y]), SHIFT, SIZE
    )
    mean, variance, density = (part.item() for part in one.loo(theta[None]))
    assert mean == pytest.approx(0.0, abs=1e-10) and variance == pytest.approx(0.5, rel=1e-8)

    def joint(g):
        likelihood = ours.log_density(np.array([SHIFT + SIZE * g]), np.array([y]), theta)[0]
        return np.exp(likelihood) * stats.norm.pdf(g, 0.0, np.sqrt(0.5))

    assert density == pytest.approx(np.log(integrate.quad(joint, -6.0, 6.0)[0]), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(["poisson", "negative_binomial"], "negative_binomial"))
def test_predictions_and_loo_equal_latent_gp(name):
    ours, y = series(name), observations(name)
    z, x_new = ours.middle, np.array([0.1, 4.5, 7.0])
    values = {key: float(v) for key, v in ours.values(z).items()}
    model = bk.LatentGP(SIZE**2 * kernel(), LIKELIHOODS[name], mean=SHIFT).at(values)
    given = model.condition(X, y)
    latent = given.predict(x_new[:, None], latent=True)
    means, variances = ours.moments(z[None], x_new)
    np.testing.assert_allclose(SHIFT + SIZE * means[0], latent.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(SIZE**2 * variances[0], latent.variance, rtol=1e-6)
    mean, covariance = ours.joint(z, x_new)
    np.testing.assert_allclose(SHIFT + SIZE * mean, latent.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(SIZE**2 * np.diag(covariance), latent.variance, rtol=1e-6)
    draws = np.asarray(given.predict(x_new[:, None], latent=True).sample(20_000, 1))
    np.testing.assert_allclose(SIZE**2 * covariance[0, 1], np.cov(draws.T)[0, 1], rtol=0.15)
    np.testing.assert_allclose(ours.loo(z[None])[2][0], given.loo(), atol=2e-3)


@pytest.mark.parametrize("name", few(NAMES, "poisson"))
def test_rolling_forecasts_equal_forecasts_of_shorter_series(name):
    ours, y, z = series(name), observations(name), series(name).middle
    pairs = ours.rolling(z, [8, 20], [3, 5])
    for n, k, (means, variances) in zip([8, 20], [3, 5], pairs, strict=True):
        first = LaplaceLogMarginal(prior(), LIKELIHOODS[name], X[:n], y[:n], SHIFT, SIZE)
        expected = first.moments(z[None], X[n : n + k])
        np.testing.assert_allclose(means, expected[0][0], rtol=1e-8)
        np.testing.assert_allclose(variances, expected[1][0], rtol=1e-8)


def test_mode_is_independent_of_start():
    first, second = series("negative_binomial"), series("negative_binomial")
    second.log_density(second.middle + 2.0)
    assert second.log_density(second.middle) == pytest.approx(first.log_density(first.middle))


def test_overflowing_mean_has_density_zero():
    ours = LaplaceLogMarginal(prior(), LIKELIHOODS["poisson"], X, np.full(25, 5.0), 800.0, 1.0)
    value, gradient = ours.value_and_gradient(ours.middle)
    assert value == -np.inf and not gradient.any()
