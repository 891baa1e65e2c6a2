"""The scale of the fit against SciPy."""

import numpy as np
import pytest
import scipy.stats
from scipy.differentiate import derivative

from bayeskern.forecast.model.transformation import Scale, is_constant, require_positive

Y = np.array([0.5, 3.0, 4.0, 20.0, 1.5])


@pytest.mark.parametrize("log", [False, True])
def test_scale_round_trip(log):
    scale = Scale.of(Y, log)
    z = scale.forward(Y)
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(scale.back(z), Y, rtol=1e-12)
    np.testing.assert_allclose(z, scipy.stats.zscore(np.log(Y) if log else Y), rtol=1e-12)


@pytest.mark.parametrize("log", [False, True])
def test_log_jacobian_is_the_derivative(log):
    scale = Scale.of(Y, log)
    slope = derivative(scale.forward, Y, initial_step=0.1).df
    np.testing.assert_allclose(scale.log_jacobian(Y), np.log(slope), rtol=1e-7)
    np.testing.assert_allclose(scale.log_jacobian(4), np.log(slope[2]), rtol=1e-7)  # an integer


def test_constant_is_relative_to_the_size():
    assert is_constant(np.full(5, 3.7)) and is_constant(np.zeros(4))
    assert is_constant(1e9 * (1 + 1e-15 * np.arange(4)))
    assert not is_constant(np.array([1.0, 1.0, 1.0 + 1e-9]))
    assert not is_constant(1e13 + np.array([0.0, 0.5, 1.0]))
    # Watts of a radio signal: small, but not constant.
    assert not is_constant(1e-15 * np.array([1.0, 2.0, 3.0]))


def test_positive_names_the_time():
    require_positive(np.array([1.0, 2.0]), ["a", "b"])
    with pytest.raises(ValueError, match="above zero, but the value at 2020-02 is 0"):
        require_positive(np.array([1.0, 0.0, -1.0]), ["2020-01", "2020-02", "2020-03"])
