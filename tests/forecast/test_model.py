"""The default model: its prior medians against the notes' table, its scale against SciPy."""

import numpy as np
import pytest
import scipy.stats
from scipy.differentiate import derivative

from bayeskern.forecast.frequency import infer_calendar
from bayeskern.forecast.model import (
    Scale,
    default_kernel,
    default_noise,
    is_constant,
    name_seasons,
    require_positive,
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
    found = medians(kernel)
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, err_msg=name)
    # The notes' own rounding: 31 years, 10 years, 1.2 (in their form).
    assert round(found["cycles.long.cosine.period"]) == 31
    assert round(found["cycles.short.cosine.period"]) == 10
    assert round(found["season.lengthscale"] / 2, 1) == 1.2
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

Y = np.array([0.5, 3.0, 4.0, 20.0, 1.5])


@pytest.mark.parametrize("log", [False, True])
def test_scale_round_trip(log):
    scale = Scale.of(Y, log)
    z = scale.forward(Y)
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(scale.back(z), Y, rtol=1e-12)
    np.testing.assert_allclose(z, scipy.stats.zscore(np.log(Y) if log else Y), rtol=1e-12)


@pytest.mark.parametrize("log", [False, True])
def test_log_jacobian_is_the_derivative(log):
    scale = Scale.of(Y, log)
    slope = derivative(scale.forward, Y, initial_step=0.1).df
    np.testing.assert_allclose(scale.log_jacobian(Y), np.log(slope), rtol=1e-7)
    np.testing.assert_allclose(scale.log_jacobian(4), np.log(slope[2]), rtol=1e-7)  # an integer


def test_moments_are_the_lognormals():
    scale = Scale(True, 1.2, 0.4)
    means, variances = np.array([[0.3, -1.0], [0.0, 2.0]]), np.array([[0.5, 1.0], [2.0, 1e-8]])
    y = scipy.stats.lognorm(s=0.4 * np.sqrt(variances), scale=np.exp(1.2 + 0.4 * means))
    m, v = scale.moments(means, variances)
    np.testing.assert_allclose(m, y.mean(), rtol=1e-12)
    np.testing.assert_allclose(v, y.var(), rtol=1e-7)  # SciPy loses digits where it is tiny
    m, v = Scale(False, 1.2, 0.4).moments(means, variances)
    np.testing.assert_allclose(m, 1.2 + 0.4 * means, rtol=1e-15)
    np.testing.assert_allclose(v, 0.16 * variances, rtol=1e-15)


def test_constant_is_relative_to_the_size():
    assert is_constant(np.full(5, 3.7)) and is_constant(np.zeros(4))
    assert is_constant(1e9 * (1 + 1e-15 * np.arange(4)))
    assert not is_constant(np.array([1.0, 1.0, 1.0 + 1e-9]))
    assert not is_constant(1e13 + np.array([0.0, 0.5, 1.0]))
    # Watts of a radio signal: small, but not constant.
    assert not is_constant(1e-15 * np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("season", [[0, 12], (7, 0)])
def test_no_season_goes_with_no_other(season):
    with pytest.raises(ValueError, match="season: 0 is for none and goes with no other"):
        name_seasons(calendar("2020-01", 48, "M"), season)


def test_positive_names_the_time():
    require_positive(np.array([1.0, 2.0]), ["a", "b"])
    with pytest.raises(ValueError, match="above zero, but that at 2020-02 is 0"):
        require_positive(np.array([1.0, 0.0, -1.0]), ["2020-01", "2020-02", "2020-03"])
