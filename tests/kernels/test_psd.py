"""Numerical check of positive semidefiniteness."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.kernels import RBF, Custom, Kernel, Linear, Matern12, Multiquadric, White, check_psd

X = np.random.default_rng(0).normal(size=(12, 2))


class Fixed(Kernel):
    """A given matrix."""

    matrix: jnp.ndarray
    shift: float = 0.0
    positive_definite: ClassVar[bool] = True

    def evaluate(self, X, Z=None):
        return jnp.asarray(self.matrix)

    def evaluate_diag(self, X):
        return jnp.diag(self.matrix) + self.shift


def test_returns_the_relative_smallest_eigenvalue():
    assert check_psd(Fixed(np.diag([4.0, 1.0, 2.0])), X[:3]) == pytest.approx(0.25, rel=1e-14)
    K = np.asarray(Matern12()(X))
    eigenvalues = np.linalg.eigvalsh(K)
    assert check_psd(Matern12(), X) == pytest.approx(eigenvalues[0] / eigenvalues[-1], rel=1e-10)
    assert isinstance(check_psd(White(), X), float) and check_psd(White(), X) == pytest.approx(1.0)


def test_singular_matrices_pass():
    assert abs(check_psd(Linear(), X)) < 1e-14
    assert abs(check_psd(RBF(lengthscale=50.0), X)) < 1e-14
    assert abs(check_psd(0.0 * RBF(), X)) < 1e-14


def test_distinct_points_do_not_suffice_for_a_non_singular_matrix():
    assert len(np.unique(X, axis=0)) == len(X)
    # The features of the linear kernel are the columns of X, so its Gram matrix has their rank.
    for kernel, rank in ((RBF(), len(X)), (Linear(), 2)):
        assert np.linalg.matrix_rank(np.asarray(kernel(X))) == rank
    assert check_psd(RBF(0.5), X) > 1e-6


def test_not_positive_semi_definite():
    matrix = np.diag([2.0, 1.0, -1e-9])
    with pytest.raises(NotPositiveDefiniteError, match="eigenvalue is -1e-09, the largest 2"):
        check_psd(Fixed(matrix), X[:3])
    with pytest.raises(NotPositiveDefiniteError, match="not positive semi-definite"):
        check_psd(Multiquadric(), X)
    with pytest.raises(NotPositiveDefiniteError, match="not positive semi-definite"):
        check_psd(Custom(lambda x, z: -(x @ z)), X)  # no eigenvalue is above 0


def test_not_symmetric():
    matrix = np.eye(3)
    matrix[0, 2] = 0.25
    message = r"is not symmetric: k\(x, z\) and k\(z, x\) differ by up to 0.25"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        check_psd(Fixed(matrix), X[:3])


def test_wrong_diagonal():
    with pytest.raises(NotPositiveDefiniteError, match=r"k.diag\(X\) differs from .* by 0.5"):
        check_psd(Fixed(np.eye(3), shift=0.5), X[:3])


def test_not_finite():
    with pytest.raises(ValueError, match=r"k\(X\) has 1 value that is NaN"):
        check_psd(Fixed(np.diag([1.0, np.nan, 1.0])), X[:3])
