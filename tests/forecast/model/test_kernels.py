"""The default model: its prior medians against the notes' table."""

import numpy as np
import pytest
import scipy.stats

from bayeskern.forecast.data.frequency import infer_calendar
from bayeskern.forecast.model.kernels import (
    default_kernel,
    default_noise,
    name_seasons,
)

SEASONS = {"season_daily": 1 / 365.25, "season": 1.0}


def medians(kernel) -> dict[str, float]:
    """The median of each prior, and numbers as they are."""
    return {
        name: float(np.exp(value.loc)) if hasattr(value, "loc") else float(value)
        for name, value in kernel.hyperparameters().items()
    }


def test_prior_medians_are_those_of_the_table():
    """LogNormal(mu, 1): the table gives mu for exp(-sin^2 / (2 l^2)) and cos(t / l)."""
    mu = {
        "trend.linear.variance": -1.5,
        "trend.constant.variance": -1.5,
        "trend.rbf.variance": -1.5,
        "trend.rbf.lengthscale": 1.1,
        "season.variance": -1.5,
        "cycles.long.rbf.variance": -1.5,
        "cycles.long.rbf.lengthscale": 1.1,
        "cycles.short.rbf.variance": -1.5,
        "cycles.short.rbf.lengthscale": -0.7,
    }
    expected = {name: np.exp(m) for name, m in mu.items()}
    expected |= {
        "season.lengthscale": 2 * np.exp(0.2),
        "cycles.long.cosine.period": 2 * np.pi * np.exp(1.6),
        "cycles.short.cosine.period": 2 * np.pi * np.exp(0.5),
        "cycles.long.cosine.variance": 1.0,
        "cycles.short.cosine.variance": 1.0,
        "season.period": 1.0,
        "trend.linear.center": 0.5,
    }
    kernel = default_kernel({"season": 1.0}, unit=1.0, center=0.5)
    prior_medians = medians(kernel)
    assert set(prior_medians) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(prior_medians[name], value, rtol=1e-12, err_msg=name)
    # The notes' own rounding: 31 years, 10 years, 1.2 (in their form).
    assert round(prior_medians["cycles.long.cosine.period"]) == 31
    assert round(prior_medians["cycles.short.cosine.period"]) == 10
    assert round(prior_medians["season.lengthscale"] / 2, 1) == 1.2
    scales = {float(v.scale) for v in kernel.hyperparameters().values() if hasattr(v, "scale")}
    assert scales == {1.0}
    noise, floor = np.array([1e-3, 0.22, 4.0]), 1e-8
    expected = scipy.stats.lognorm(1.0, scale=np.exp(-1.5)).logpdf(noise - floor)
    np.testing.assert_allclose(default_noise().log_prob(noise), expected, rtol=1e-12)
    assert not default_noise().support(floor / 2)


def test_the_periodic_form_is_the_papers():
    kernel = default_kernel({"season": 1.0}, unit=1.0, center=0.0)
    at = {name: value for name, value in medians(kernel).items() if name.startswith("season")}
    lengthscale, d = at["season.lengthscale"] / 2, np.linspace(0, 2, 9)
    term = next(t for t in kernel.terms if t.own_name() == "season").inner
    term = term.at({"lengthscale": at["season.lengthscale"], "variance": 1.0})
    papers = np.exp(-0.5 * np.sin(np.pi * d) ** 2 / lengthscale**2)
    np.testing.assert_allclose(term(d, [0.0])[:, 0], papers, rtol=1e-12)


@pytest.mark.parametrize("unit", [1 / 12, 1.0, 24.0])
def test_the_unit_of_time_changes_nothing_but_the_unit(unit):
    """k(t; u = unit) at unit * t is k(t; u = 1): lengths scale, the slope's variance by unit^-2."""
    seasons = {"season": 1.0, "season_2": 0.25}
    scaled = {name: unit * period for name, period in seasons.items()}
    ours = default_kernel(seasons, 1.0, 0.3)
    theirs = default_kernel(scaled, unit, 0.3 * unit)
    t = np.linspace(0.0, 5.0, 11)
    np.testing.assert_allclose(
        theirs.at(medians(theirs))(unit * t), ours.at(medians(ours))(t), rtol=1e-10
    )


def test_the_order_of_components():
    kernel = default_kernel(SEASONS, 1.0, 0.0)
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
    with pytest.raises(ValueError, match="season must be a number of steps of at least 2"):
        name_seasons(calendar("2020-01", 48, "M"), season)


# -- the scale -------------------------------------------------------------------------------------


@pytest.mark.parametrize("season", [[0, 12], (7, 0)])
def test_no_season_goes_with_no_other(season):
    with pytest.raises(ValueError, match="season: 0 is for none and goes with no other"):
        name_seasons(calendar("2020-01", 48, "M"), season)
