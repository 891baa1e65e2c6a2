"""Seasons of the kernels against formulas by hand, and the units of their priors."""

import numpy as np
import pytest
import scipy.stats

from bayeskern.engine.prior import LogNormalPrior
from bayeskern.forecast.model.building import build_kernel_and_noise
from bayeskern.forecast.model.kernels import default_noise, name_seasons
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.model.trends import TRENDS, default_kernel
from bayeskern.series.frequency import infer_calendar
from tests.forecast.tables import choices_for
from tests.forecast.trend_cases import DRIFT, LEAST, LEVEL, R, S, T, seasonal
from tests.marks import slow

SEASONS = {"season_daily": 1 / 365.25, "season": 1.0}


def test_the_shape_of_a_day_differs_between_the_days_of_a_week():
    kernel = default_kernel("drift", {"day": 0.5, "week": 3.5})
    sizes = {"size.constant.variance": 0.5, "size.brownian.variance": 0.05}
    own = {"trend.start.variance": 1.1, "trend.level.variance": 0.3, "trend.drift.variance": 0.7}
    own |= {"trend.drift.center": 2.0, "week.periodic.lengthscale": 0.9}
    for season in ("day", "week"):
        own |= {f"{season}.{name}": value for name, value in sizes.items()}
        own[f"{season}.seasonal.lengthscale"] = 0.8
    shape = np.exp(-2.0 * np.sin(np.pi * (S - R) / 0.5) ** 2 / 0.9**2)
    drifting = (0.5 + 0.05 * LEAST) * (seasonal(0.5, 0.8) + seasonal(3.5, 0.8) * shape)
    gram = np.asarray(kernel.at(own)(T))
    np.testing.assert_allclose(gram, 1.1 + LEVEL + DRIFT + drifting, rtol=1e-9, atol=1e-12)


def test_noise_stays_above_its_lower_limit():
    noise, floor = np.array([1e-3, 0.22, 4.0]), 1e-8
    expected = scipy.stats.lognorm(1.3, scale=np.exp(-1.5)).logpdf(noise - floor)
    np.testing.assert_allclose(default_noise(-1.5, 1.3).log_prob(noise), expected, rtol=1e-12)
    assert not default_noise().support(floor / 2)


def at_medians(trend, y, unit, size=1.0):
    """The kernel of values y at steps of this unit, at the medians of its priors, in NumPy."""
    choices = choices_for(trends=(trend,), seasons={"season": 4.0 * unit}, step=unit)
    scale, x = Scale(False, 0.0, size), unit * np.arange(len(y))
    kernel, _ = build_kernel_and_noise(choices, Structure(trend, False), x, scale, y)
    values = kernel.hyperparameters()
    priors = {name: LogNormalPrior.of(value) for name, value in values.items()}
    medians = {
        name: float(values[name]) if prior is None else prior.least + np.exp(prior.location)
        for name, prior in priors.items()
    }
    return np.asarray(kernel.at(medians)(x))


@pytest.mark.parametrize("trend", TRENDS)
@pytest.mark.parametrize(("unit", "size"), [(1 / 12, 1.0), slow(24.0, 10.0)])
def test_priors_follow_the_units_of_time_and_values(trend, unit, size):
    y = np.cumsum(np.random.default_rng(3).standard_normal(20))
    ours, theirs = at_medians(trend, y, 1.0), at_medians(trend, y, unit, size)
    np.testing.assert_allclose(size**2 * theirs, ours, rtol=1e-9)


def test_the_order_of_components():
    kernel = default_kernel("smooth", SEASONS)
    assert [t.own_name() for t in kernel.terms] == ["trend", "season_daily", "season", "cycles"]


# -- seasons ---------------------------------------------------------------------------------------


def calendar(start, count, unit):
    return infer_calendar(np.datetime64(start, unit) + np.arange(count))


def test_seasons_by_steps():
    months, days = calendar("2020-01", 48, "M"), calendar("2020-01-01", 800, "D")
    assert name_seasons(months, 12) == {"season": pytest.approx(1.0)}
    assert name_seasons(months, None) == {"season": 1.0}
    assert name_seasons(months, 0) == name_seasons(months, []) == {}
    assert name_seasons(days, [7, 365.25]) == {
        "season_7": pytest.approx(7 / 365.25),
        "season_365_25": pytest.approx(1.0),
    }
    assert set(name_seasons(days, None)) == {"season_weekly", "season_yearly"}
    numbers = infer_calendar(np.arange(0, 100, 5))
    assert name_seasons(numbers, None) == {}
    assert name_seasons(numbers, 4.5) == {"season": 4.5}


def test_five_business_days_are_a_week():
    days = infer_calendar(np.busday_offset("2024-01-01", np.arange(60)))
    assert days.description == "business days"
    week = {"season": pytest.approx(7 / 365.25)}
    assert name_seasons(days, 5) == week == name_seasons(days, None)


@pytest.mark.parametrize("season", [1, 1.9, -12, np.nan, np.inf, [7, 1], True, "yearly", [None]])
def test_bad_seasons(season):
    with pytest.raises(ValueError, match="number of steps, at least 2"):
        name_seasons(calendar("2020-01", 48, "M"), season)


# -- the scale -------------------------------------------------------------------------------------


@pytest.mark.parametrize("season", [[0, 12], (7, 0)])
def test_season_zero_stands_alone(season):
    with pytest.raises(ValueError, match="0 means no season and excludes other lengths"):
        name_seasons(calendar("2020-01", 48, "M"), season)
