"""Searches from unexplained draws, on normal densities and mixtures."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayeskern as bk
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.search.unexplained import (
    MAX_DENSITY_NUMBERS,
    MAX_DRAWS,
    MIN_DRAWS,
    affordable_draws,
    excess_log_density,
    highest,
    wide_draws,
)
from tests.inference.zoo.mixtures import random_mixture
from tests.inference.zoo.zoo import BY_NAME
from tests.marks import few

MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])


def normal():
    numpyro.sample("x", dist.MultivariateNormal(MEAN, COVARIANCE))


def optimum_of(model, seed=0):
    return find_optimum(Target.from_model(model, (), {}), 8, seed, 500, False)


@pytest.fixture(scope="module")
def optimum():
    return optimum_of(normal)


def test_normal_density_is_explained_everywhere(optimum):
    assert optimum.unexplained == 0 and optimum.others == ()
    # Ten sds from a mode whose gradient is below 1e-5.
    z = np.random.default_rng(0).normal(0.0, 10.0, (50, 3))
    log_p = scipy.stats.multivariate_normal(MEAN, COVARIANCE).logpdf(z)
    np.testing.assert_allclose(excess_log_density(z, log_p, [optimum]), 0.0, atol=1e-4)
    assert len(optimum.unexplained_places) == 0


def test_excess_of_a_mixture_over_one_mode(optimum):
    z = np.array([MEAN, MEAN + 8.0])
    parts = [scipy.stats.multivariate_normal(m, COVARIANCE).logpdf(z) for m in (MEAN, MEAN + 8.0)]
    log_p = np.logaddexp(*parts)
    expected = log_p - parts[0]
    np.testing.assert_allclose(excess_log_density(z, log_p, [optimum]), expected, atol=1e-6)


def test_points_without_a_density_have_no_excess(optimum):
    z = np.array([[np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [9.0, 9.0, 9.0], [8.0, 8.0, 8.0]])
    log_p = np.array([1.0, 1.0, -np.inf, np.nan])
    np.testing.assert_array_equal(excess_log_density(z, log_p, [optimum]), -np.inf)


def test_highest_of_some_rows():
    values = np.array([3.0, 9.0, 1.0, 4.0, 4.0])
    np.testing.assert_array_equal(highest(values, np.array([0, 2, 3, 4]), 3), [3, 4, 0])
    assert len(highest(values, np.array([], int), 3)) == 0


@pytest.mark.slow
def test_unexplained_places_around_a_narrow_mode():
    """All searches end at the narrow one of two normal distributions at one place."""
    optimum = optimum_of(BY_NAME["concentric normals, 10 d"].model)
    assert optimum.others == () and len(optimum.unexplained_places) == 4
    # Draws of N(0, 5^2) in 10 dimensions have 15 as their typical distance from the mode.
    distance = np.linalg.norm(optimum.unexplained_places, axis=1)
    assert np.all((distance > 0.1) & (distance < 10.0))


def test_wide_draws_have_the_moments_of_the_prior():
    target = Target.from_model(normal, (), {})
    z = wide_draws(target, np.random.default_rng(0), 20_000, 2_000)
    assert z.shape == (20_000, 3)
    # The moments themselves are those of 2,000 draws.
    np.testing.assert_allclose(z[2_000:].mean(axis=0), MEAN, atol=0.12)
    np.testing.assert_allclose(np.cov(z[2_000:].T), COVARIANCE, atol=0.25)
    assert len(wide_draws(target, np.random.default_rng(0), 300, 2_000)) == 300


def test_costly_densities_have_fewer_draws():
    assert affordable_draws(1) == MAX_DRAWS
    assert affordable_draws(2**40) == MIN_DRAWS
    assert affordable_draws(2**15) == MAX_DENSITY_NUMBERS // 2**15


# Every mode has a basin of more than one in 5,000 prior draws; those of the last two are smallest.
@pytest.mark.parametrize("seed", few([1, 8, 6, 18], 18))
def test_narrow_modes_beside_wide_ones_are_found(seed):
    mixture = random_mixture(seed)
    assert not mixture.is_needle
    optimum = optimum_of(mixture.model, seed)
    modes = np.array([mode.z for mode in (optimum, *optimum.others)])
    for mean, sd in zip(mixture.means, mixture.sds, strict=True):
        distance = np.min(np.linalg.norm(modes - mean, axis=1))
        assert distance < 0.5 * sd


@pytest.mark.slow
def test_verdicts_count_the_unexplained_draws_followed():
    posterior = bk.infer(random_mixture(6).model, method="laplace", seed=6, progress=False)
    assert posterior.trust.evidence["unexplained_draws_followed"] == posterior.optimum.unexplained
    assert posterior.optimum.unexplained > 0


def test_search_from_one_start_follows_no_draws():
    optimum = find_optimum(Target.from_model(normal, (), {}), 1, 0, 500, False)
    assert optimum.unexplained is None and optimum.starts == 1
    assert optimum.search_evidence == {"unexplained_draws_followed": "not looked for"}
