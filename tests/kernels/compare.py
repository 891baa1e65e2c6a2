"""Comparison of arrays of JAX and NumPy."""

import numpy as np


def close(actual, expected, rtol=1e-11, atol=1e-12):
    """Assert that two arrays agree to rounding."""
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)
