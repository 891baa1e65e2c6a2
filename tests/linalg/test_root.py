"""Square roots of positive semidefinite matrices against their definition."""

import numpy as np
import pytest

from bayeskern.linalg.root import square_root

rng = np.random.default_rng(0)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_square_root_of_matrices_of_any_rank(rank):
    factors = rng.standard_normal((4, 5, rank))
    K = factors @ np.swapaxes(factors, -1, -2)
    roots = np.asarray(square_root(K))
    np.testing.assert_allclose(roots @ np.swapaxes(roots, -1, -2), K, atol=1e-12)


def test_negative_eigenvalues_count_as_0():
    roots = np.asarray(square_root(np.diag([1.0, -1e-17, 4.0])))
    np.testing.assert_allclose(roots @ roots.T, np.diag([1.0, 0.0, 4.0]), atol=1e-15)
