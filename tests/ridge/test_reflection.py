"""The reflection that takes a constant out of kernel ridge, against explicit matrices."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayeskern.ridge.reflection import Reflection

RNG = np.random.default_rng(4)
N = 7
U = RNG.uniform(0.2, 2.0, size=N)
K = RNG.normal(size=(N, N))
K = K + K.T
# I - 2 v v' / v'v, with v = u + |u| e_1
V = U + np.linalg.norm(U) * np.eye(N)[0]
H = np.eye(N) - 2.0 * np.outer(V, V) / (V @ V)
arrays = pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])


@arrays
def test_it_turns_the_constant_into_the_first_axis(asarray):
    reflection = Reflection.onto_first_axis(asarray(U))
    image = reflection(asarray(U))
    assert reflection.length == pytest.approx(-np.linalg.norm(U), rel=1e-14)
    np.testing.assert_allclose(image, reflection.length * np.eye(N)[0], atol=1e-14)


@arrays
@pytest.mark.parametrize("columns", [(), (3,)], ids=["vector", "matrix"])
def test_it_multiplies_as_its_matrix_does(asarray, columns):
    reflection, B = Reflection.onto_first_axis(asarray(U)), RNG.normal(size=(N, *columns))
    np.testing.assert_allclose(reflection(asarray(B)), H @ B, atol=1e-14)
    np.testing.assert_allclose(reflection.lift(asarray(B[1:])), H[:, 1:] @ B[1:], atol=1e-14)


@arrays
def test_both_sides_of_a_symmetric_matrix(asarray):
    reflection = Reflection.onto_first_axis(asarray(U))
    np.testing.assert_allclose(reflection.conjugate(asarray(K)), H @ K @ H, atol=1e-13)


def test_both_sides_in_place():
    matrix = K.copy()
    assert Reflection.onto_first_axis(U).conjugate_in_place(matrix) is matrix
    np.testing.assert_allclose(matrix, H @ K @ H, atol=1e-13)


@arrays
def test_the_diagonal_of_a_lifted_matrix(asarray):
    reflection, A = Reflection.onto_first_axis(asarray(U)), K[1:, 1:]
    expected = np.diagonal(H[:, 1:] @ A @ H[1:])
    diagonal, Av = np.diagonal(A), A @ V[1:]
    lifted = reflection.lifted_diagonal(asarray(diagonal), asarray(Av))
    np.testing.assert_allclose(lifted, expected, atol=1e-13)
    # Two matrices at once, 2 A and 3 A, have a column each.
    both = reflection.lifted_diagonal(
        asarray(np.outer(diagonal, [2.0, 3.0])), asarray(np.outer(Av, [2.0, 3.0]))
    )
    np.testing.assert_allclose(both, np.outer(expected, [2.0, 3.0]), atol=1e-12)
