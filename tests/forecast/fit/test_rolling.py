"""Origins of rolling forecasts, and forecasts from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import MAX_ORIGINS, MIN_KNOWN_VALUES, origins_of
from bayeskern.forecast.model.structure import Structure
from tests.forecast.tables import choices_for


def counts(origins):
    return [origin.count for origin in origins]


@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=60),
    horizon=st.integers(1, 30),
    season=st.integers(1, 14),
)
def test_origins_forecast_the_values_within_the_horizon(gaps, horizon, season):
    """Each later value has its number of steps ahead, on any grid with gaps."""
    steps = np.cumsum(gaps)
    origins = origins_of(steps, horizon, season)
    n = len(steps)
    assert len(origins) <= MAX_ORIGINS and counts(origins) == sorted(set(counts(origins)))
    for origin in origins:
        assert max(MIN_KNOWN_VALUES, n // 2) <= origin.count < n
        # What is known ends before what is forecast begins.
        assert origin.ahead.start == origin.count
        last = steps[origin.count - 1]
        ahead = [s - last - 1 for s in steps[origin.count :] if s - last <= horizon]
        assert origin.steps.tolist() == ahead and len(ahead) > 0 and min(ahead) >= 0
        assert origin.ahead.stop == origin.count + len(ahead)


def test_origins_of_a_long_series_are_evenly_spaced():
    origins = origins_of(np.arange(600), 12)
    assert len(origins) == MAX_ORIGINS and counts(origins)[0] == 300 and counts(origins)[-1] == 599
    assert np.ptp(np.diff(counts(origins))) <= 1
    # The last of them reaches no further than the series.
    assert [len(origin.steps) for origin in origins[-2:]] == [12, 1]
    assert all(origin.steps.tolist() == list(range(12)) for origin in origins[:-1])


@pytest.mark.parametrize(
    ("n", "season", "first"),
    [
        (30, 1, 15),
        (10, 1, 5),
        (26, 12, 14),  # A season and a bit.
        (40, 12, 20),  # Half of the values are more than that.
        (24, 12, 12),  # Two seasons only: half of the values are a season.
        (20, 12, 10),  # Less.
    ],
)
def test_first_origin(n, season, first):
    assert counts(origins_of(np.arange(n), 3, season))[0] == first


@pytest.mark.parametrize("n", range(1, MIN_KNOWN_VALUES + 1))
def test_short_series_has_no_origins(n):
    assert origins_of(np.arange(n), 3) == ()
    assert counts(origins_of(np.arange(MIN_KNOWN_VALUES + 1), 3)) == [MIN_KNOWN_VALUES]


def test_no_origin_before_a_gap_longer_than_the_horizon():
    steps = np.append(np.arange(10), np.arange(30, 40))
    assert 10 not in counts(origins_of(steps, 5)) and 10 in counts(origins_of(steps, 21))


@pytest.mark.parametrize("log", [False, True])
def test_rolling_forecasts_ignore_later_values(log):
    """Hyperparameters and scale are kept."""
    y = np.exp(0.05 * np.cumsum(np.random.default_rng(0).normal(size=40)))
    x, origins = np.arange(40.0), origins_of(np.arange(40), 6)
    fitted = FittedStructure.from_values(
        Structure("slope", log), choices_for(trends=("slope",)), x, y
    )
    changed = np.where(np.arange(40) < origins[3].count, y, 3.0 * y)
    other = fitted.given(x, changed)
    for i, (ours, theirs) in enumerate(
        zip(fitted.rolling(origins), other.rolling(origins), strict=True)
    ):
        np.testing.assert_array_equal(ours[1], theirs[1])
        assert np.array_equal(ours[0], theirs[0]) == (i <= 3)


def test_rolling_forecasts_have_student_t_noise():
    """Student t noise of 4 degrees of freedom has twice the variance of its scale."""
    rng = np.random.default_rng(1)
    y, x = rng.normal(size=40), np.arange(40.0)
    y[30] = 25.0
    fitted = FittedStructure.from_values(Structure("drift", False), choices_for(robust=True), x, y)
    ((mean, sd),) = fitted.rolling(origins_of(np.arange(40), 3)[:1])
    noise = float(fitted.density.values(fitted.mode)["noise"])
    n = 20
    plain = fitted.dense.given(x[:n], fitted.density.y[:n])
    plain = plain.with_noise_factors(fitted.density.noise_factors[:n], 0.0)
    (expected,), (variance,) = plain.moments(fitted.mode[None], x[n : n + 3])
    np.testing.assert_allclose(mean, expected, rtol=1e-7)
    np.testing.assert_allclose(np.square(sd), variance + noise, rtol=1e-7)
    # The wild value has no part in how wide its own forecast is.
    origin = origins_of(np.arange(40), 12)[3]
    assert origin.count < 30 < origin.ahead.stop
    ((_, sds),) = fitted.rolling([origin])
    at = 30 - origin.count
    assert sds[at] == pytest.approx(0.5 * (sds[at - 1] + sds[at + 1]), rel=1e-3)
