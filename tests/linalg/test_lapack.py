"""LAPACK's factors and inverses against NumPy."""

import numpy as np
import pytest

from bayeskern.linalg import lapack


@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
def test_mirror_makes_the_matrix_symmetric(n):
    upper = np.random.default_rng(0).normal(size=(n, n))
    expected = np.triu(upper) + np.triu(upper, 1).T
    np.testing.assert_array_equal(lapack.mirror(upper.copy()), expected)
