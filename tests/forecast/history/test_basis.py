"""Basis functions of trend and seasons against Gram matrices of their kernels."""

import numpy as np
import pytest

from bayeskern.forecast.history.basis import Basis
from bayeskern.forecast.history.basis_blocks import (
    NestedSeason,
    RandomWalkLevel,
    RandomWalkSlope,
    Season,
)
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL
from bayeskern.kernels import RBF, Brownian, IntegratedBrownian, Periodic
from bayeskern.kernels.state_space.harmonics import log_error

DAY = 1.0 / 365.25
SEASONS = {"season_daily": DAY, "season_weekly": 7.0 * DAY, "season_yearly": 1.0}
X = np.sort(np.random.default_rng(1).uniform(0.0, 2.0, 60))


def gram(block, values, x=X):
    """Covariance of the weighted sum of the functions at times x."""
    variances, _ = block.variances(np.asarray(values, float))
    functions = block.functions(x)
    return functions * variances @ functions.T


def basis(steps_per_day, years=3.0, seasons=None, **kwargs):
    step = DAY / steps_per_day
    seasons = seasons or {n: p for n, p in SEASONS.items() if p >= 2.0 * step}
    return Basis.of(seasons, start=0.0, end=years, center=1.0, step=step, **kwargs)


def harmonics(one):
    return {b.component: b.harmonics for b in one.blocks if isinstance(b, Season)}


# -- the kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lengthscale", [0.4, 1.0, 3.0])
def test_season_with_many_harmonics_equals_periodic_kernel(lengthscale):
    block = Season("season", {}, 0.3, np.arange(1, 25))
    expected = Periodic(period=0.3, lengthscale=lengthscale, variance=2.0)(X)
    np.testing.assert_allclose(gram(block, [lengthscale, 2.0]), expected, atol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_truncation_error_of_season_is_below_bound(count):
    block = Season("season", {}, 0.3, np.arange(1, count + 1))
    error = gram(block, [0.7, 1.0]) - np.asarray(Periodic(period=0.3, lengthscale=0.7)(X))
    assert 1e-6 < np.abs(error).max() < np.exp(log_error(0.7, count))


def test_nested_season_equals_product_without_shorter_season():
    week, ratio = 0.7, 7
    numbers = np.arange(1, 200)
    block = NestedSeason("season_weekly", {}, week, numbers[numbers % ratio != 0], ratio)
    lag = X[:, None] - X
    product = Periodic(period=week, lengthscale=0.9) * Periodic(
        period=week / ratio, lengthscale=0.6
    )
    # The average over shifts by days is the part with the period of a day.
    shifts = [lag + day * week / ratio for day in range(ratio)]
    K = [np.asarray(product(at.ravel(), np.zeros(1))).reshape(lag.shape) for at in shifts]
    expected = 3.0 * (K[0] - np.mean(K, axis=0))
    np.testing.assert_allclose(gram(block, [0.9, 0.6, 3.0]), expected, atol=1e-7)


def test_nested_season_with_long_inner_lengthscale_is_periodic():
    numbers = np.array([1, 2, 3, 4, 5, 6, 8, 9, 10])
    nested = NestedSeason("season", {}, 0.7, numbers, 7).variances(np.array([0.8, 1e4, 2.0]))
    plain = Season("season", {}, 0.7, numbers).variances(np.array([0.8, 2.0]))
    np.testing.assert_allclose(nested[0], plain[0][1:], atol=1e-7)


TRENDS = {RandomWalkLevel: Brownian, RandomWalkSlope: IntegratedBrownian}


@pytest.mark.parametrize("kind", TRENDS)
def test_trend_of_many_functions_equals_kernel(kind):
    block = kind(LEVEL, {}, -0.5, 2.5, 5000)
    expected = np.asarray(TRENDS[kind](1.7, start=-0.5)(X))
    np.testing.assert_allclose(gram(block, [1.7]), expected, atol=2e-4 * expected.max())


@pytest.mark.parametrize("count", [5, 30])
def test_truncated_level_misses_the_documented_variance(count):
    """At the end of the interval every sine is 1 or -1."""
    end = np.array([2.5])
    missed = 3.0 - gram(RandomWalkLevel(LEVEL, {}, -0.5, 2.5, count), [1.0], end)[0, 0]
    assert missed == pytest.approx(2.0 * 3.0 / (np.pi**2 * count), rel=0.01)


def test_default_slope_is_close_to_kernel():
    trend = basis(1, years=2.0).blocks[2]
    expected = np.asarray(IntegratedBrownian(1.0)(X))
    assert np.abs(gram(trend, [1.0]) - expected).max() < 5e-3 * expected.max()


@pytest.mark.parametrize(
    ("block", "values"),
    [
        (Season("season", {}, 0.3, np.arange(1, 9)), [0.5, 1.3]),
        (NestedSeason("season", {}, 0.7, np.array([1, 2, 6, 8, 15]), 7), [0.5, 0.8, 1.3]),
        (RandomWalkLevel(LEVEL, {}, -0.5, 2.5, 9), [1.3]),
        (RandomWalkSlope(LEVEL, {}, -0.5, 2.5, 9), [1.3]),
    ],
)
def test_derivatives_of_variances_equal_finite_differences(block, values):
    (_, slopes), step = block.variances(np.array(values)), 1e-6
    for i in range(len(values)):
        ends = [
            np.array(values) * np.exp(s * step * (np.arange(len(values)) == i)) for s in (1, -1)
        ]
        ahead, behind = (block.variances(end)[0] for end in ends)
        expected = (ahead - behind) / (2.0 * step)
        np.testing.assert_allclose(slopes[i], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("lengthscale", [1e-3, 1e-8, 1e5])
def test_variances_are_finite_at_extreme_lengthscales(lengthscale):
    for block in basis(24).blocks[1:]:
        values = np.full(len(block.priors), lengthscale)
        values[-1] = 1.0
        variances, slopes = block.variances(values)
        assert np.all(np.isfinite(variances)) and np.all(variances >= 0.0)
        assert np.all(np.isfinite(slopes))


# -- the choice of functions -----------------------------------------------------------------------


@pytest.mark.parametrize("steps_per_day", [1, 48, 288])
def test_basis_has_at_most_250_columns(steps_per_day):
    """Without the constants of seasons."""
    one = basis(steps_per_day)
    assert one.size - sum(type(block) is Season for block in one.blocks) <= 250


def test_half_hourly_basis_has_daily_harmonics_and_weekly_sidebands():
    own = harmonics(basis(48))
    np.testing.assert_array_equal(own["season_daily"], np.arange(1, 25))
    np.testing.assert_array_equal(own["season_yearly"], np.arange(1, 25))
    weekly = own["season_weekly"]
    assert weekly[0] == 1 and np.all(weekly % 7 != 0) and weekly[-1] > 7 * 9
    assert isinstance(basis(48).blocks[4], NestedSeason)


def test_week_of_daily_values_is_a_plain_season():
    one = basis(1)
    np.testing.assert_array_equal(harmonics(one)["season_weekly"], [1, 2, 3])
    assert type(one.blocks[3]) is Season


def test_basis_with_many_effects_has_fewer_harmonics():
    at = np.arange(0.0, 3.0, DAY)
    Z = np.random.default_rng(0).standard_normal((len(at), 120))
    names = tuple(f"effect_{j}" for j in range(120))
    effects = Effects(names, names, np.ones(120), at, Z, DAY)
    one = basis(24, effects=effects)
    assert one.size <= 250 and one.effect_columns == range(one.size - 120, one.size)
    np.testing.assert_array_equal(one.functions(at)[:, one.effect_columns], Z)


def test_effects_with_kernels_are_refused():
    at = np.arange(0.0, 3.0, DAY)
    one = np.ones((len(at), 1))
    effects = Effects(("price",), ("price",), np.ones(1), at, one, DAY, kernels=(RBF(),))
    with pytest.raises(NotImplementedError, match="linear effects"):
        basis(1, effects=effects)


def test_times_after_the_end_of_the_basis_are_refused():
    with pytest.raises(ValueError, match="the basis ends at time 3.75; got times up to 3.8"):
        basis(1).functions(np.array([1.0, 3.8]))


@pytest.mark.parametrize("period", [1.5, np.inf])
def test_seasons_without_harmonics_are_refused(period):
    with pytest.raises(ValueError, match="season_short must be finite and at least two steps"):
        basis(1, seasons={"season_short": period * DAY})


def test_seasons_of_equal_period_are_refused():
    with pytest.raises(ValueError, match="every harmonic of season_b"):
        basis(1, seasons={"season_a": 7 * DAY, "season_b": 7 * DAY})
