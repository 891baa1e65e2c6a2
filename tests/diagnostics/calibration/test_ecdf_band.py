"""The band around an ECDF, and its p-value, against closed forms, simulation and ArviZ."""

import numpy as np
import pytest
from arviz_stats.ecdf_utils import get_pointwise_confidence_band, simulate_confidence_bands

from bayeskern.diagnostics.calibration import ecdf_band


@pytest.mark.parametrize(
    ("u", "p"),
    [
        # Two numbers are counted in the middle only: both on one side has probability 1/2.
        ([0.1, 0.2], 1 / 2),
        ([0.8, 0.9], 1 / 2),
        ([0.1, 0.9], 1.0),
        # Three numbers are counted at 1/3 and 2/3: all above 2/3 and all below 1/3 have 1/27.
        ([0.7, 0.8, 0.9], 2 / 27),
        ([0.1, 0.2, 0.3], 2 / 27),
    ],
)
def test_p_value_in_closed_form(u, p):
    assert ecdf_band.p_value(u) == pytest.approx(p, abs=1e-12)


def test_p_value_has_its_level():
    n, rng, count = 17, np.random.default_rng(1), 1500
    p = np.array([ecdf_band.p_value(rng.random(n)) for _ in range(count)])
    for alpha in (0.01, 0.05, 0.3):
        # At most alpha, since counts are whole numbers, and not much less.
        error = np.sqrt(alpha * (1 - alpha) / count)
        assert 0.75 * alpha - 3.3 * error < np.mean(p <= alpha) < alpha + 3.3 * error


@pytest.mark.parametrize(("n", "level"), [(40, 0.8), (200, 0.95)])
def test_band_has_its_level(n, level):
    band, rng, count = ecdf_band.band(n, level), np.random.default_rng(2), 4000
    u = rng.random((count, n))
    heights = np.array([ecdf_band.counts(one, band.grid) for one in u]) / n
    held = np.all((heights >= band.lower - 1e-9) & (heights <= band.upper + 1e-9), axis=1)
    error = np.sqrt(level * (1 - level) / count)
    assert level - 3.3 * error < held.mean() < level + 0.02 + 3.3 * error


def test_band_matches_arviz():
    n, rng = 100, np.random.default_rng(3)
    band = ecdf_band.band(n, 0.95)
    pointwise = simulate_confidence_bands(n, 1, band.grid, 0.95, 4000, rng)
    lower, upper = get_pointwise_confidence_band(pointwise, n, band.grid)
    # ArviZ simulates its band, so a count may differ by one.
    assert np.all(np.abs(lower - band.lower) < 1.5 / n)
    assert np.all(np.abs(upper - band.upper) < 1.5 / n)


def test_band_and_p_value_agree():
    n, rng = 50, np.random.default_rng(4)
    band, seen = ecdf_band.band(n, 0.9), set()
    for power in np.linspace(0.5, 1.5, 60):
        u = rng.random(n) ** power
        heights = ecdf_band.counts(u, band.grid) / n
        inside = np.all((heights >= band.lower - 1e-9) & (heights <= band.upper + 1e-9))
        assert inside == (ecdf_band.p_value(u) > 1.0 - 0.9)
        seen.add(bool(inside))
    assert seen == {True, False}
