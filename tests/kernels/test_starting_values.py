"""Starting values in the units of the data, by hand."""

import numpy as np
import pytest

from bayeskern import Free
from bayeskern.kernels import RBF, Linear, Matern32, Periodic
from bayeskern.kernels.starting_values import starting_values

X = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 400.0], [3.0, 400.0]])


def test_lengthscales_are_median_distances_of_points_that_differ():
    # Distances in the first column are 1, 3, 3, 2, 2 and 0; in the second, 400 four times and 0.
    by_column = starting_values(RBF(Free([1.0, 1.0])), X)["lengthscale"]
    np.testing.assert_allclose(by_column, [2.0, 400.0])
    alone = starting_values(RBF(Free(1.0)).on([0]), X)["lengthscale"]
    np.testing.assert_allclose(alone, 2.0)
    matrix = starting_values(RBF(Free(np.eye(2))), X)["lengthscale"]
    np.testing.assert_allclose(matrix, np.diag([2.0, 400.0]))


def test_terms_have_the_mean_square_of_the_function():
    kernel = Linear(Free(1.0)).on([1]) + Free(1.0) * RBF(2.0, variance=Free(1.0))
    values = starting_values(kernel, X, 9.0)
    # The mean of x^2 is 80,000; the two factors of the second term share its variance.
    expected = {"linear.variance": 9.0 / 8e4, "rbf.scale": 3.0, "rbf.variance": 3.0}
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        assert values[name] == pytest.approx(value), name


def test_other_hyperparameters_are_left_out():
    kernel = Periodic(period=Free(2.0), lengthscale=Free(1.0)) * Matern32(3.0)
    assert starting_values(kernel, X[:, :1], 4.0) == {}
    assert starting_values(RBF(Free(1.0)), np.zeros((3, 1))) == {}
