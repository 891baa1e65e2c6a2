"""Stationary kernels by eigenfunctions in a box."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.contrib.hsgp.laplacian import eigenfunctions
from numpyro.contrib.hsgp.spectral_densities import (
    diag_spectral_density_matern,
    diag_spectral_density_squared_exponential,
)
from scipy.integrate import simpson

import bayeskern as bk
from bayeskern.hyperparameters import sites
from bayeskern.kernels import (
    RBF,
    HilbertSpace,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)
from bayeskern.linalg import choose
from tests.kernels import cases
from tests.marks import few

MATERN = {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}
X1 = np.linspace(-1.0, 1.0, 30)[:, None]
X2 = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 2))


@pytest.mark.parametrize("name", few(cases.offering("spectrum"), "matern32 ard"))
def test_spectral_density_is_the_fourier_transform_of_the_kernel(name):
    kernel, t, w = cases.CASES[name], np.linspace(0.0, 40.0, 100_001), np.array([0.0, 1.0, 4.0])
    expected = 2.0 * simpson(np.cos(np.outer(w, t)) * kernel([0.0], t), t)
    np.testing.assert_allclose(kernel.spectral_density(w[:, None]), expected, rtol=1e-6)


@pytest.mark.parametrize("lengthscale", [0.6, np.array([0.6, 0.9])])
@pytest.mark.parametrize("kind", [RBF, Matern32, Matern52])
def test_covariances_match_numpyro(kind, lengthscale):
    ell, m, variance = [2.0, 2.5], [7, 5], 1.3
    # Their alpha is a variance.
    options = {"alpha": variance, "length": lengthscale, "ell": ell, "m": m, "dim": 2}
    if kind is RBF:
        density = diag_spectral_density_squared_exponential(**options)
    else:
        density = diag_spectral_density_matern(nu=MATERN[kind], **options)
    phi = np.asarray(eigenfunctions(X2, ell, m))
    kernel = HilbertSpace(kind(lengthscale, variance), [-2.0, -2.5], ell, m)
    np.testing.assert_allclose(kernel(X2), phi * density @ phi.T, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inner", "m", "error"),
    [(RBF([0.5, 0.8], 2.0), [36, 24], 1e-6), (Matern52([0.6, 0.9]), 40, 1e-3)],
    ids=["RBF", "Matern52"],
)
def test_many_frequencies_match_the_kernel(inner, m, error):
    kernel = HilbertSpace(inner, -5.0, [5.0, 5.5], m)
    np.testing.assert_allclose(kernel(X2), inner(X2), atol=error)
    np.testing.assert_allclose(kernel.diag(X2), inner.diag(X2), atol=error)
    np.testing.assert_allclose(kernel(X2[:5], X2), inner(X2[:5], X2), atol=error)


@pytest.mark.slow
def test_regression_by_features_matches_the_kernel():
    t = np.linspace(0.0, 10.0, 400)
    y = np.sin(t) + 0.1 * np.random.default_rng(0).normal(size=400)
    prior = {"lengthscale": dist.LogNormal(0.0, 0.5), "variance": dist.HalfNormal(2.0)}
    kernels = HilbertSpace(RBF(**prior), -8.0, 18.0, 60), RBF(**prior)
    assert choose(kernels[0], t[:, None]).solver == "low_rank"
    new = np.array([0.5, 5.01, 11.0])
    small, large = (
        bk.infer(bk.GPRegression(k, 0.01), t, y, method="map").predict(new) for k in kernels
    )
    np.testing.assert_allclose(small.mean, large.mean, atol=1e-4)
    np.testing.assert_allclose(small.sd, large.sd, rtol=1e-3)


def test_names_and_operations():
    box = (-3.0, 3.0, 10)
    season = HilbertSpace(RBF(dist.LogNormal(0.0, 1.0)), *box).named("wave")
    assert [site.name for site in sites(season)] == ["wave.lengthscale", "wave.variance"]
    joined = 2.0 * HilbertSpace(RBF(), *box) + HilbertSpace(Matern32(), *box) * Linear()
    by_hand = 2.0 * HilbertSpace(RBF(), *box)(X1)
    by_hand += HilbertSpace(Matern32(), *box)(X1) * Linear()(X1)
    np.testing.assert_allclose(joined(X1), by_hand, atol=1e-12)
    phi = joined.feature_map(X1)
    np.testing.assert_allclose(phi @ phi.T, by_hand, atol=1e-12)
    assert repr(season) == (
        "HilbertSpace(RBF(lengthscale=LogNormal(0.0, 1.0), variance=1.0), -3.0, 3.0, m=10)"
        ".named('wave')"
    )


@pytest.mark.slow
def test_derivative_matches_finite_differences():
    def total(scale):
        return HilbertSpace(Matern32(scale), -2.0, 2.0, 12)(X1).sum()

    step = 1e-5
    by_differences = (total(0.7 + step) - total(0.7 - step)) / (2.0 * step)
    np.testing.assert_allclose(jax.grad(total)(0.7), by_differences, rtol=1e-6)
    assert np.isfinite(jax.hessian(total)(0.7))


def test_points_outside_the_box_are_refused():
    kernel = HilbertSpace(RBF(), 0.0, 1.0, 5)
    with pytest.raises(ValueError, match=r"X\[2\] = \[1.5\] lies outside of the box"):
        kernel([0.2, 0.3, 1.5])
    # Where nothing can be raised it does not read as good.
    covariances = jax.jit(lambda X: kernel.evaluate(X))(jnp.array([[0.5], [1.5]]))
    np.testing.assert_array_equal(np.isnan(covariances), [[False, True], [True, True]])


@pytest.mark.slow
def test_predictions_outside_the_box_are_refused():
    process = bk.GaussianProcess(HilbertSpace(RBF(), -3.0, 3.0, 20), X1, 0.1)
    posterior = process.condition(np.sin(X1[:, 0]))
    with pytest.raises((ValueError, FloatingPointError), match="outside of the box"):
        _ = posterior.predict([0.0, 4.0]).mean


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((Periodic(), 0.0, 1.0, 5), TypeError, "takes Matern, .* or RBF"),
        ((RationalQuadratic(), 0.0, 1.0, 5), TypeError, "takes Matern, .* or RBF"),
        ((RBF() + Matern32(), 0.0, 1.0, 5), TypeError, "Write a sum as"),
        ((RBF(np.eye(2)), 0.0, 1.0, 5), ValueError, "rotates the axes"),
        ((RBF(), 1.0, 0.0, 5), ValueError, "must lie below"),
        ((RBF(), 0.0, np.nan, 5), ValueError, "upper must be a finite number"),
        ((RBF(), 0.0, 1.0, 0), ValueError, "m must be"),
    ],
)
def test_bad_input(arguments, error, says):
    with pytest.raises(error, match=says):
        HilbertSpace(*arguments)


def test_box_of_wrong_dimension_is_refused():
    with pytest.raises(ValueError, match="the points have 2 dimensions"):
        HilbertSpace(RBF(), [0.0, 0.0, 0.0], 1.0, 5)(X2)
