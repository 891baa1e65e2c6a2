"""Chance of a smaller error than seasonal naive: closed forms and clear cases."""

import numpy as np
import pandas as pd
import pytest
import scipy.special

import bayeskern as bk
from bayeskern.forecast.evaluate.chance import gap_to_naive
from bayeskern.forecast.evaluate.rolling_origin import lost_share
from bayeskern.forecast.model.learned import Reliability
from tests.forecast.examples import months


def test_chance_is_logistic():
    chance = Reliability(-1.2, 0.8, -0.6).chance(lost_share=0.25, gap=0.7)
    assert chance == pytest.approx(1.0 - scipy.special.expit(-1.2 + 0.2 - 0.6 * np.log(0.8)))


def test_gap_is_in_half_widths():
    quantiles = np.array([[1.0, 0.0, 5.0], [3.0, 2.0, 5.0], [5.0, 8.0, 5.0]])
    # Half widths 2, 4 and 0, which does not count.
    assert gap_to_naive(quantiles, np.array([4.0, 0.0, 9.0])) == pytest.approx(0.5 * (0.5 + 0.5))
    assert gap_to_naive(quantiles[:, 2:], np.array([9.0])) == 0.0


def test_lost_share_counts_origins():
    known = np.array([4, 4, 4, 5, 5, 6])
    ours = np.array([1.0, 5.0, 1.0, 2.0, 2.0, 3.0])
    naive = np.array([2.0, 2.0, 2.0, 1.0, 4.0, 3.0])
    # Sums 7 and 6, 4 and 5, 3 and 3.
    assert lost_share(known, ours, naive) == pytest.approx(1.0 / 3.0)


def test_chances_of_clear_cases():
    """A line beats its last value; nothing beats the last value of a random walk by much."""
    rng, t = np.random.default_rng(0), np.arange(120)
    line = bk.forecast(pd.Series(3.0 * t + rng.standard_normal(120), months(120)), 12, season=0)
    walk = bk.forecast(pd.Series(np.cumsum(rng.standard_normal(120)), months(120)), 12, season=0)
    chances = [f.trust.evidence["chance_below_naive"] for f in (line, walk)]
    assert chances[0] > 0.85 > 0.75 > chances[1] > 0.3


def test_chance_is_unknown_if_seasonal_naive_has_no_errors():
    """The trust of a forecast of repeated values, whose season repeats exactly."""
    f = bk.forecast(pd.Series(np.tile(np.arange(12.0), 6), months(72)), 12)
    assert np.isnan(f.trust.evidence["chance_below_naive"])
    assert "chance" not in f.trust.advice
