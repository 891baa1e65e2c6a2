"""Covariances of derivatives against finite differences, and their closed forms at one point."""

import numpy as np
import pytest
from scipy.linalg import block_diag

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    ArcCosine,
    Brownian,
    ChangePoint,
    Coregion,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    White,
)
from bayeskern.kernels.measured.rows import Rows
from tests.kernels import cases

# Derivatives at points apart from one another and from the ends of the intervals.
POINTS = np.array([0.33, 1.21, 2.4])
A, B = np.array([0.1, 0.9, 0.2]), np.array([0.9, 3.0, 0.2])
# Weights and steps of a five-point formula for the first derivative, of order 4.
STEP = 1e-3
STENCIL = np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * STEP), STEP * np.array([-2.0, -1.0, 1.0, 2.0])

KERNELS = {
    **{name: k for name, k in cases.CASES.items() if name not in cases.SPECIAL},
    "product": Matern32(0.5) * Periodic(1.0) + Linear(),
    "smooth change": ChangePoint(RBF(0.5), Matern32(1.0), 0.6, 0.3),
}
KERNELS = {name: kernel for name, kernel in KERNELS.items() if not kernel.rough_parts(0, 1)}


def compare(kernel):
    rows = Rows.read([bk.Interval(A, B), bk.Derivative(POINTS)])
    K = np.array(rows.kernel(kernel).evaluate(rows.X))
    weights, steps = STENCIL
    shifted = Rows.read([bk.Interval(A, B), (POINTS[:, None] + steps).ravel()])
    values = np.asarray(rows.kernel(kernel).evaluate(shifted.X))
    n, m = len(A), len(POINTS)
    # Each derivative is a combination of four values.
    D = block_diag(np.eye(n), np.kron(np.eye(m), weights))
    expected = D @ values @ D.T
    # At one point, finite differences miss the kinks of higher derivatives of k; the variance of a
    # derivative is tested below.
    slopes = range(n, n + m)
    K[slopes, slopes] = expected[slopes, slopes] = 0.0
    np.testing.assert_allclose(K, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_with_values_and_means(name):
    compare(KERNELS[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(0.5, 2.0), 2.0 / 0.25),
        (Matern32(0.5), 3.0 / 0.25),
        (Matern52(0.5), 5.0 / 3.0 / 0.25),
        (RationalQuadratic(0.5), 1.0 / 0.25),
        (Periodic(2.0, 0.5), (2.0 * np.pi / 2.0) ** 2 / 0.25),
        (Linear(3.0), 3.0),
        (IntegratedBrownian(2.0), 2.0 * 1.5),
        (IntegratedOrnsteinUhlenbeck(variance=2.0), 2.0),
        (RBF(1.0) * Matern32(1.0), 1.0 + 3.0),
    ],
    ids=repr,
)
def test_variance_of_the_derivative(kernel, expected):
    """-k''(0) for stationary kernels; for IntegratedBrownian, the Brownian slope at 1.5."""
    rows = Rows.read(bk.Derivative([1.5]))
    K = rows.kernel(kernel).evaluate(rows.X)
    np.testing.assert_allclose(K, [[expected]], rtol=1e-12)


def test_derivative_along_one_of_two_inputs():
    """The gradient of an RBF process has covariance diag(1 / lengthscale^2) at one point."""
    x = np.array([[0.3, -1.0]])
    rows = Rows.read([bk.Derivative(x, axis=0), bk.Derivative(x, axis=1), x])
    K = rows.kernel(RBF(lengthscale=[0.5, 2.0])).evaluate(rows.X)
    np.testing.assert_allclose(K, np.diag([4.0, 0.25, 1.0]), atol=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [
        Matern12(),
        RBF() + Brownian(),
        Matern32() * White(),
        ArcCosine(order=0),
        2.0 * Matern12().named("rough"),
    ],
    ids=repr,
)
def test_kernels_without_derivative_are_refused_by_name(kernel):
    rows = Rows.read(bk.Derivative([1.0]))
    with pytest.raises(ValueError, match=r"(Matern12|Brownian|White|ArcCosine).*no derivative"):
        rows.kernel(kernel)


def test_a_rough_kernel_of_another_column_is_accepted():
    kernel = RBF().on([0]) * Coregion(outputs=2).on([1])
    x = [[0.5, 1.0]]
    rows = Rows.read(bk.Derivative(x, axis=0))
    variance = Coregion(outputs=2).evaluate_diag(np.array([[1.0]]))
    np.testing.assert_allclose(rows.kernel(kernel).evaluate(rows.X)[0], variance, rtol=1e-14)
    rows = Rows.read(bk.Derivative(x, axis=1))
    with pytest.raises(ValueError, match="Coregion"):
        rows.kernel(kernel)
