"""The learned table: what it holds for every structure, and which entry a series has."""

from itertools import pairwise

import numpy as np
import pytest

from bayeskern.engine.prior import LogNormalPrior
from bayeskern.forecast.model import learned as module
from bayeskern.forecast.model.building import build_density, build_kernel_and_noise, build_scale
from bayeskern.forecast.model.learned import (
    ANY,
    Growth,
    frequency_of,
    learned,
    roughness,
    table,
)
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.model.trends import default_kernel
from bayeskern.hyperparameters import is_specified
from tests.forecast.tables import PRIORS, TABLE, choices_for

FREQUENCIES = table()


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_learned_quantities_are_possible(frequency):
    entry = learned(frequency)
    weighing, width, growth = entry.weighing, entry.width, entry.growth
    assert np.all(np.isfinite([*weighing.intercepts.values()]))
    coefficients = weighing.by_evidence, weighing.by_evidence_on_scale, weighing.by_error
    assert min(coefficients) >= 0.0 and weighing.half_count > 0.0
    # The variance of errors exists.
    assert width.degrees > 2.0 and width.prior_count > 0.0 and width.horizon >= 1
    # Past forecasts of series without a whole season know about half of their few values.
    assert 0.7 < width.past_scale < (1.5 if frequency.endswith(" short") else 1.4)
    assert width.half_life > 1.0
    assert abs(width.log_scale) < 2.0 and abs(width.widening) < 2.0
    for y in (np.arange(20.0), np.array([1.0, -1.0] * 10)):
        assert 0.001 < growth.linear_share(y) < 0.999


def test_roughness_of_walks_and_noise():
    """First and second differences of white noise have 2 and 6 times its variance."""
    noise = np.random.default_rng(3).standard_normal(100_000)
    walk = np.cumsum(noise)
    assert roughness(noise) == pytest.approx(0.5 * np.log(3.0), abs=0.01)
    assert roughness(walk) == pytest.approx(0.5 * np.log(2.0), abs=0.01)
    assert roughness(7.0 - 1e9 * noise) == pytest.approx(roughness(noise), rel=1e-9)
    assert roughness(np.arange(9.0)) == -3.0
    assert roughness(np.cumsum(walk)) < -1.0
    assert roughness(np.array([0.0, 1.0] * 9)) < 1.0
    assert roughness(np.full(5, 2.0)) == 0.0 and roughness(np.array([4.0])) == 0.0


def test_the_share_of_linear_growth_is_logistic():
    growth = Growth(intercept=0.4, by_roughness=2.0)
    y = np.random.default_rng(5).standard_normal(30)
    share = growth.linear_share(y)
    assert np.log(share / (1.0 - share)) == pytest.approx(0.4 + 2.0 * roughness(y), rel=1e-9)


def test_learned_growth_applies_to_logarithms_only():
    """A kernel that was given is not changed by what was learned of others."""
    y = np.exp(np.linspace(0.0, 2.0, 30))
    share = TABLE.growth.linear_share(y)
    for log, expected in ((True, share), (False, 0.0)):
        assert build_scale(choices_for(), Structure("drift", log), y).linear_share == expected
    given = choices_for(kernels={"given": default_kernel("drift", {})})
    assert build_scale(given, Structure("given", True), y).linear_share == 0.0


def test_other_frequencies_have_the_entry_of_any():
    assert ANY in FREQUENCIES
    known, unknown = learned(ANY), learned("fortnightly")
    assert unknown.priors == known.priors
    assert unknown.weighing.intercepts == known.weighing.intercepts
    assert unknown.width.degrees == known.width.degrees


@pytest.mark.parametrize(
    ("step", "season", "has_season", "frequency"),
    [
        (1.0, None, False, "yearly"),
        (10.0, None, False, "yearly"),
        (0.25, 4.0, True, "quarterly"),
        (1.0 / 12.0, 12.0, True, "monthly"),
        (1.0 / 12.0, None, False, "monthly short"),
        (7.0 / 365.25, 52.18, True, "weekly"),
        (1.0 / 365.25, 7.0, True, "daily"),
        (1.0 / 261.0, 5.0, True, "daily"),
        (1.0 / 365.25 / 24.0, 24.0, True, "hourly"),
        (1.0 / 365.25 / 96.0, 96.0, True, ANY),
        (None, 12.0, True, "monthly"),
        (None, 12.0, False, "monthly short"),
        (None, 4.0, True, "quarterly"),
        (None, 7.0, True, "daily"),
        (None, 52.0, True, "weekly"),
        (None, 24.0, True, "hourly"),
        (None, 96.0, True, ANY),
        (None, None, False, ANY),
    ],
)
def test_frequency_by_step_or_season(step, season, has_season, frequency):
    assert frequency_of(step, season, has_season) == frequency


def test_frequencies_do_not_overlap():
    for intervals in zip(*module.FREQUENCIES.values(), strict=True):
        ranges = sorted(interval for interval in intervals if interval is not None)
        assert all(a[1] <= b[0] for a, b in pairwise(ranges))


# -- the priors of a structure ---------------------------------------------------------------------

Y = np.cumsum(np.random.default_rng(1).normal(size=40))


def located(choices, structure, y=Y):
    """Name -> location and scale of the prior in the log density of a structure."""
    x = choices.step * np.arange(len(y))
    density = build_density(choices, structure, x, build_scale(choices, structure, y), y)
    return dict(zip(density.names, density.middle, strict=True)), density


def test_locations_are_in_units_of_steps():
    """Variances by the squared sd, those per time by the step too, and lengths by the step."""
    choices = choices_for(trends=("slope",), seasons={"season": 0.5}, step=0.1)
    locations, _ = located(choices, Structure("slope", False))
    # The smaller one of the plain and the seasonal differences.
    differences = [np.sqrt(np.mean((Y[lag:] - Y[:-lag]) ** 2)) for lag in (1, 5)]
    size, step = 2.0 * np.log(min(differences) / Y.std()), np.log(0.1)
    expected = {
        "trend.level.variance": size - step,
        "trend.slope.lengthscale": step,
        "trend.slope.variance": size - 2.0 * step,
        "trend.memory.lengthscale": step,
        "trend.memory.variance": size,
        "season.size.constant.variance": size,
        "season.size.brownian.variance": size - step,
        "season.seasonal.lengthscale": 0.0,
        "noise": size,
    }
    assert locations.keys() == expected.keys()
    for name, shift in expected.items():
        assert locations[name] == pytest.approx(PRIORS[name][0] + shift, abs=1e-12)


def test_several_seasons_share_the_learned_prior():
    seasons = {"season_weekly": 7.0, "season_yearly": 14.0}
    choices = choices_for(trends=("smooth",), seasons=seasons)
    locations, _ = located(choices, Structure("smooth", False))
    for name in ("size.constant.variance", "size.brownian.variance", "seasonal.lengthscale"):
        pair = [locations[f"{season}.{name}"] for season in seasons]
        assert pair[0] == pair[1]
    # The shape of a week within two has the prior of the shape of a season.
    assert locations["season_yearly.periodic.lengthscale"] == pair[0]


def test_given_priors_replace_learned_ones():
    own = Priors({"noise": (-7.0, 0.3), "cycles.long.rbf.variance": (1.0, 1.0)}, step=1.0)
    locations, density = located(choices_for(priors=own), Structure("drift", False))
    plain, other = located(choices_for(), Structure("drift", False))
    assert locations["noise"] == -7.0 != plain["noise"]
    assert {n: v for n, v in locations.items() if n != "noise"} == {
        n: v for n, v in plain.items() if n != "noise"
    }
    # A prior that is narrower says more against what lies far from it.
    far = np.array([plain["noise"] + 6.0 if n == "noise" else v for n, v in plain.items()])
    assert density.log_density(far) < other.log_density(far) - 20.0


def test_model_and_density_have_the_same_priors():
    """Both read the same table: the one in NumPy, and the one that methods of inference take."""
    choices = choices_for(trends=("reverting",), seasons={"season": 4.0})
    structure, x = Structure("reverting", False), np.arange(40.0)
    _, density = located(choices, structure)
    kernel, noise = build_kernel_and_noise(choices, structure, x, Scale.from_values(Y, False), Y)
    priors = {n: v for n, v in kernel.hyperparameters().items() if is_specified(v)}
    for name, middle in zip(density.names[:-1], density.middle[:-1], strict=True):
        prior = LogNormalPrior.of(priors[name])
        assert prior.location == pytest.approx(middle, abs=1e-12)
        assert prior.scale == pytest.approx(TABLE.priors["reverting"][name][1])
        # A memory of less than a step would be noise.
        assert prior.least == (choices.step if name == "trend.memory.lengthscale" else 0.0)
    z = density.middle - 5.0
    np.testing.assert_allclose(
        [density.values(z)[name] for name in priors],
        [p.least + np.exp(p.location - 5.0) for p in map(LogNormalPrior.of, priors.values())],
    )
    assert float(noise.base_dist.loc) == pytest.approx(density.middle[-1])


def test_step_sizes_have_a_lower_limit():
    """At least a thousandth of its spread, where only one value differs from a slow line."""
    y = np.where(np.arange(400) < 200, 0.0, 1.0) + 1e-9 * np.arange(400)
    locations, _ = located(choices_for(seasons={"season": 2.0}), Structure("drift", False), y)
    assert np.isfinite([*locations.values()]).all()
    flat = np.append(np.zeros(50), 1.0)
    locations, _ = located(choices_for(), Structure("drift", False), flat)
    assert np.isfinite([*locations.values()]).all()
