"""What diverging draws could change, by closed forms of the normal distribution."""

import numpy as np
import pytest
from scipy.stats import norm

from bayeskern.inference.assessment.convergence import could_change

N = 400_000


def normal(rho, seed=0):
    """Draws of three coordinates: the second has correlation rho with the first, the third 0."""
    x, y, w = np.random.default_rng(seed).normal(size=(3, N))
    return np.stack([x, rho * x + np.sqrt(1.0 - rho**2) * y, w], axis=-1)


@pytest.mark.parametrize("least", [0.5, 1.5, 2.5])
def test_divergences_beyond_a_bound_change_means_by_closed_form(least):
    """With z_0 beyond m, E z_0 = phi(m) / s, and that of z_1 is rho as much."""
    z = normal(0.6)
    change = could_change(z, z[:, 0] > least)
    share = 0.5 * norm.sf(least)
    expected = norm.pdf(norm.isf(share)) / (1.0 + share) * np.array([1.0, 0.6, 0.0])
    np.testing.assert_allclose(change, expected, atol=0.004)


def test_change_is_invariant_to_shift_and_scale():
    z = normal(0.6)
    diverging = z[:, 1] < -2.0
    change = could_change(z, diverging)
    moved = could_change(z * [1e-3, -1e4, 5.0] + [1.0, 1e5, 0.0], diverging)
    np.testing.assert_allclose(moved, change, rtol=1e-6)


def test_divergences_everywhere_could_change_means_much():
    z = normal(0.0)
    change = could_change(z, np.random.default_rng(1).random(N) < 0.001)
    assert change.max() > 0.2


def test_constant_coordinate_gives_an_unknown_change():
    z = normal(0.0)[:1000]
    z[:, 2] = 1.0
    assert np.all(np.isnan(could_change(z, np.arange(1000) < 3)))
