"""LAPACK's routines against NumPy's solutions of the same systems."""

import numpy as np
import pytest

from bayeskern.core.threads import in_threads
from bayeskern.linalg import lapack

N = 40


def matrices(dtype=np.float64):
    """A positive definite matrix, right-hand sides, and the lower Cholesky factor by NumPy."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(N, N))
    K = (A @ A.T + N * np.eye(N)).astype(dtype)
    return K, rng.normal(size=(N, 3)).astype(dtype), np.linalg.cholesky(K)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 2e-4)])
def test_factors_and_solutions(dtype, rtol):
    K, B, L = matrices(dtype)
    ours = lapack.cholesky(K.copy())
    assert ours.dtype == dtype
    np.testing.assert_allclose(np.tril(ours), L, rtol=rtol, atol=rtol)
    for b in (B, B[:, 0]):
        np.testing.assert_allclose(lapack.solve(ours, b), np.linalg.solve(K, b), rtol, rtol)
        np.testing.assert_allclose(lapack.solve_lower(ours, b), np.linalg.solve(L, b), rtol, rtol)
    np.testing.assert_allclose(lapack.logdet(ours), np.linalg.slogdet(K)[1], rtol=rtol)
    triangle = np.tril(np.linalg.inv(K))
    np.testing.assert_allclose(np.tril(lapack.inverse_triangle(ours)), triangle, rtol, rtol)
    np.testing.assert_allclose(lapack.inverse(ours), np.linalg.inv(K), rtol, rtol)


def test_any_order_of_the_elements():
    K, B, L = matrices()

    def orders(A):
        """A by rows, by columns, and as every second row and column of a larger array."""
        larger = np.full((2 * A.shape[0], 2 * A.shape[1]), np.nan)
        larger[::2, ::2] = A
        return A.copy(), A.copy(order="F"), larger[::2, ::2]

    for A in orders(K):
        np.testing.assert_allclose(np.tril(lapack.cholesky(A)), L, rtol=1e-10, atol=1e-12)
    for factor, b in zip(orders(L), orders(B), strict=True):
        expected = np.linalg.solve(L, b), np.linalg.solve(K, b)
        np.testing.assert_allclose(lapack.solve_lower(factor, b), expected[0], rtol=1e-10)
        np.testing.assert_allclose(lapack.solve(factor, b), expected[1], rtol=1e-10)


def test_inputs_are_kept():
    K, B, L = matrices()
    # An array of JAX, say.
    K.setflags(write=False)
    lapack.cholesky(K)
    np.testing.assert_array_equal(K, matrices()[0])
    factor, right = np.asfortranarray(L), np.asfortranarray(B)
    lapack.solve(factor, right)
    lapack.solve_lower(factor, right)
    lapack.inverse_triangle(factor)
    np.testing.assert_array_equal(factor, L)
    np.testing.assert_array_equal(right, B)


@pytest.mark.parametrize("entry", [-1.0, np.nan])
def test_matrices_without_factor_give_nan(entry):
    K, _, _ = matrices()
    K[3, 3] = entry
    assert np.isnan(lapack.cholesky(K)[-1, -1])


def test_several_threads():
    K, B, _ = matrices()
    results = in_threads(lambda i: lapack.solve(lapack.cholesky(i * K), B), range(1, 30))
    for i, result in enumerate(results, start=1):
        np.testing.assert_allclose(result, np.linalg.solve(i * K, B), rtol=1e-9, atol=1e-14)
