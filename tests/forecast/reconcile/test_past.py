"""Scores of past forecasts of a hierarchy."""

import numpy as np
import pytest
from scipy.stats import norm

from bayeskern.forecast.reconcile.past import crps, energy_score


def test_crps_of_normal_draws():
    """Gneiting and Raftery (2007), equation 21."""
    y = np.array([0.0, 1.3])
    draws = norm.ppf((np.arange(2_000) + 0.5) / 2_000)[:, None] * np.ones(2)
    expected = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(crps(draws, y), expected, rtol=0.002)


def test_energy_score_of_one_series_is_its_crps():
    rng = np.random.default_rng(0)
    draws, y = rng.normal(size=(5_000, 1)), np.array([0.7])
    assert energy_score(draws, y) == pytest.approx(crps(draws, y)[0], rel=0.03)


def test_energy_score_of_all_pairs():
    rng = np.random.default_rng(0)
    draws, y = rng.normal(size=(60, 3)), np.ones(3)
    pairs = np.linalg.norm(draws[:, None] - draws, axis=2).sum() / (60 * 59)
    expected = np.linalg.norm(draws - y, axis=1).mean() - 0.5 * pairs
    assert energy_score(draws, y, shifts=59) == pytest.approx(expected)
