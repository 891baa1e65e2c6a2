"""The scale of the fit against SciPy."""

import numpy as np
import pytest
import scipy.stats
from scipy.differentiate import derivative

from bayeskern.forecast.model.transformation import (
    NormalScores,
    Scale,
    is_constant,
    require_all,
)

Y = np.array([0.5, 3.0, 4.0, 20.0, 1.5])


@pytest.mark.parametrize("log", [False, True])
def test_scale_round_trip(log):
    scale = Scale.from_values(Y, log)
    z = scale.forward(Y)
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(scale.back(z), Y, rtol=1e-12)
    np.testing.assert_allclose(z, scipy.stats.zscore(np.log(Y) if log else Y), rtol=1e-12)


@pytest.mark.parametrize("log", [False, True])
def test_log_jacobian_is_the_derivative(log):
    scale = Scale.from_values(Y, log)
    slope = derivative(scale.forward, Y, initial_step=0.1).df
    np.testing.assert_allclose(scale.log_jacobian(Y), np.log(slope), rtol=1e-7)
    np.testing.assert_allclose(scale.log_jacobian(4), np.log(slope[2]), rtol=1e-7)  # an integer


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_differences_of_logarithms_are_factors(size):
    scale = Scale.from_values(size * Y, log=True, linear_share=0.4).of_differences
    factors = np.array([0.2, 1.0, 1.5])
    np.testing.assert_allclose(
        scale.ahead(np.log(factors) / scale.size, np.zeros(3)), factors, rtol=1e-12
    )


def test_constant_is_relative_to_size():
    assert is_constant(np.full(5, 3.7)) and is_constant(np.zeros(4))
    assert is_constant(1e9 * (1 + 1e-15 * np.arange(4)))
    assert not is_constant(np.array([1.0, 1.0, 1.0 + 1e-9]))
    assert not is_constant(1e13 + np.array([0.0, 0.5, 1.0]))
    # Watts of a radio signal: small, but not constant.
    assert not is_constant(1e-15 * np.array([1.0, 2.0, 3.0]))


def test_impossible_values_are_refused_with_their_time():
    y = np.array([1.0, 0.0, -1.0])
    require_all(y > -2.0, y, list, "never shown")
    with pytest.raises(ValueError, match="must be positive; the value at b is 0"):
        require_all(y > 0.0, y, lambda: ["a", "b", "c"], "must be positive")


# -- ranks -----------------------------------------------------------------------------------------

RNG = np.random.default_rng(4)
RAIN = np.where(RNG.random(200) < 0.4, 0.0, np.round(RNG.exponential(3.0, 200), 1))


def scores_by_rank(y):
    """Normal scores of Hazen, of tied values the mean of theirs, standardised: by SciPy."""
    order = scipy.stats.rankdata(y, method="ordinal")
    scores = scipy.stats.norm.ppf((order - 0.5) / len(y))
    tied = [scores[y == value].mean() for value in y]
    return scipy.stats.zscore(tied)


@pytest.mark.parametrize("y", [RNG.normal(size=61), RAIN], ids=["distinct", "ties"])
def test_normal_scores_match_scipy(y):
    scale = NormalScores.from_values(y)
    z = scale.forward(y)
    np.testing.assert_allclose(z, scores_by_rank(y), atol=1e-12)
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    assert not scale.log and np.all(scale.log_jacobian(y) == 0.0)


def test_normal_scores_round_trip():
    """Standardised scores are a little wider, which moves values by a fraction of a rank."""
    y, n = RNG.normal(size=200), 200
    scores = scipy.stats.norm.ppf((np.arange(n) + 0.5) / n)
    wider = scores / scores.std()
    shift = n * np.abs(scipy.stats.norm.cdf(wider) - scipy.stats.norm.cdf(scores)).max()
    assert shift < 0.5
    again = NormalScores.from_values(y).back(NormalScores.from_values(y).forward(y))
    ranks = np.interp(again, np.sort(y), np.arange(n))
    np.testing.assert_allclose(ranks, scipy.stats.rankdata(y) - 1.0, atol=shift + 1e-9)
    # Any increasing function of the values has the same ranks.
    np.testing.assert_allclose(
        NormalScores.from_values(np.exp(y)).forward(np.exp(y)),
        NormalScores.from_values(y).forward(y),
    )


def test_normal_scores_have_the_distribution_of_the_series():
    scale, q = NormalScores.from_values(RAIN), np.linspace(0.01, 0.99, 99)
    back = scale.back(scipy.stats.norm.ppf(q))
    np.testing.assert_allclose(back, np.quantile(RAIN, q, method="hazen"), rtol=1e-12)
    values = scale.back(scipy.stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000))
    share = np.mean(RAIN == 0.0)
    assert np.mean(values == 0.0) == pytest.approx(share, abs=1.0 / len(RAIN))


def test_ranks_stay_within_the_range_of_the_series():
    scale = NormalScores.from_values(RAIN)
    np.testing.assert_array_equal(
        scale.back([-40.0, -1e9, 40.0, 1e9]), np.repeat([0.0, RAIN.max()], 2)
    )
    ends = scale.forward([-5.0, 1e6])
    np.testing.assert_array_equal(ends, scale.forward([0.0, RAIN.max()]))
    assert np.all(np.diff(scale.back(np.linspace(-6.0, 6.0, 200))) >= 0.0)


def test_components_by_ranks_are_differences_from_the_median():
    """A part that says nothing is 0; one that says much is the distance of a quantile."""
    values = RAIN + 3.0
    scale = NormalScores.from_values(values).of_differences
    assert scale.ahead(0.0, 0.0) == 0.0
    upper = np.quantile(values, 0.9, method="hazen") - np.median(values)
    assert scale.ahead(scipy.stats.norm.ppf(0.9), 0.0) == pytest.approx(upper, rel=1e-12)
