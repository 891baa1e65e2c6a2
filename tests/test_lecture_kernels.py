"""Claims of notebook 08 (kernels) against formulas, theorems and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import factorial

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    Custom,
    InverseMultiquadric,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    Periodic,
    RandomFourierFeatures,
)

pytestmark = pytest.mark.slow

GRID = np.linspace(-3, 3, 61)
POINTS = np.linspace(-3, 3, 25)
LAGS = np.subtract.outer(GRID, GRID)


def close(actual, expected, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("kernel", "correlation", "curvature"),
    [
        (RBF(1.0), lambda r: np.exp(-0.5 * r**2), 1.0),
        (Matern52(1.0), lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r), 5 / 3),
        (Matern32(1.0), lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r), 3.0),
        (Matern12(1.0), lambda r: np.exp(-r), None),
    ],
    ids=["RBF", "Matern52", "Matern32", "Matern12"],
)
def test_zero_crossings_follow_rices_formula(kernel, correlation, curvature):
    line = np.arange(0, 100.05, 0.1)
    draws = bk.GaussianProcess(kernel, line, noise=0.0).sample(jax.random.key(0), (400,))
    crossings = np.sum(np.diff(np.sign(draws), axis=1) != 0, axis=1)
    # Two standard normals of correlation rho differ in sign with the probability arccos(rho) / pi.
    expected = 1000 * np.arccos(correlation(0.1)) / np.pi
    assert abs(crossings.mean() - expected) < 4.5 * stats.sem(crossings)
    if curvature is not None:
        slope_of_slope = jax.grad(jax.grad(lambda x: kernel([0.0], x.reshape(1, 1))[0, 0]))
        # Matern 3/2 has a second derivative at lag 0 only as a limit.
        rate = np.sqrt(-slope_of_slope(jnp.array(1e-9)))
        close(rate, np.sqrt(curvature), rtol=1e-6)
        fine = 1e-4
        close(np.arccos(correlation(fine)) / fine, np.sqrt(curvature), rtol=2e-4)


def test_operations_on_kernels_have_closed_forms():
    gaussian = Linear().exp().modulate(lambda x: jnp.exp(-0.5 * x[0] ** 2))
    close(gaussian(GRID), np.exp(-0.5 * LAGS**2))
    around = RBF(0.7).warp(lambda x: jnp.array([jnp.cos(x[0]), jnp.sin(x[0])]))
    close(around(GRID), np.exp(-2 * np.sin(LAGS / 2) ** 2 / 0.7**2))
    close(around(GRID), Periodic(period=2 * np.pi, lengthscale=0.7)(GRID))
    close((RBF(1.0) ** 3)(GRID), np.exp(-1.5 * LAGS**2))
    close((RBF(3.0) * RBF(4.0))(GRID), np.exp(-0.5 * LAGS**2 / (12 / 5) ** 2))


def quartic(x, z):
    return jnp.exp(-jnp.sum((x - z) ** 4))


def test_check_psd_refuses_with_eigenvalues():
    lags = np.subtract.outer(POINTS, POINTS)
    for kernel, gram, negative in (
        (Custom(quartic), np.exp(-(lags**4)), 10),
        (Multiquadric(1.0), np.sqrt(1 + lags**2), 24),
    ):
        values = np.linalg.eigvalsh(gram)
        assert np.sum(values < 0) == negative
        told = f"smallest eigenvalue is {values[0]:.3g}, the largest {values[-1]:.3g}"
        with pytest.raises(bk.NotPositiveDefiniteError, match=told):
            bk.check_psd(kernel, POINTS)
    values = np.linalg.eigvalsh(1 / np.sqrt(1 + lags**2))
    close(bk.check_psd(InverseMultiquadric(1.0), POINTS), values[0] / values[-1], rtol=1e-6)


@pytest.mark.parametrize("t", [0.1, 1.0, 10.0])
def test_schoenbergs_theorem_for_multiquadrics(t):
    made = Custom(lambda x, z: jnp.exp(-t * jnp.sqrt(1 + jnp.sum((x - z) ** 2))))
    assert bk.check_psd(made, POINTS) > -1e-13
    # That is since a'Ka <= 0 for weights that add up to zero.
    centring = np.eye(25) - 1 / 25
    values = np.linalg.eigvalsh(centring @ Multiquadric(1.0)(POINTS) @ centring)
    assert values[-1] < 1e-12 * abs(values[0])


@pytest.mark.parametrize("radius", [1.0, 2.0, 3.0])
def test_truncated_gaussian_series_is_within_its_bound(radius):
    near = GRID[np.abs(GRID) <= radius]
    exact = np.exp(-0.5 * np.subtract.outer(near, near) ** 2)
    for degree in (1, 5, 9, 17, 25):
        phi = np.asarray(RBF(1.0).feature_map(near, degree=degree))
        j = np.arange(degree + 1)
        by_hand = np.exp(-0.5 * near[:, None] ** 2) * near[:, None] ** j / np.sqrt(factorial(j))
        close(phi, by_hand, rtol=1e-11)
        error = np.max(np.abs(phi @ phi.T - exact))
        assert error < radius ** (2 * (degree + 1)) / factorial(degree + 1) + 1e-14
    assert error < 1e-14 if radius < 2 else error > 1e-14


def test_error_of_random_features_in_closed_form():
    places = np.random.default_rng(0).normal(size=(40, 4))
    r = np.sqrt(np.sum((places[:, None] - places) ** 2, axis=2))
    exact = np.exp(-0.5 * (r / 2) ** 2)
    # Of cos(w'r), whose mean is k(r): E cos² - k² = (1 + k(2r)) / 2 - k².
    one_term = np.mean(0.5 * (1 + np.exp(-0.5 * r**2)) - exact**2)

    def squares(n_components, orthogonal):
        for seed in range(40):
            features = RandomFourierFeatures(RBF(2.0), n_components, orthogonal, seed)
            phi = features.fit_transform(places)
            yield np.mean((phi @ phi.T - exact) ** 2)

    for n_components in (10, 100, 1000):
        independent = np.array(list(squares(n_components, False)))
        truth = one_term / (n_components / 2)
        assert abs(independent.mean() - truth) < 4.5 * stats.sem(independent)
        assert np.mean(list(squares(n_components, True))) < truth
