"""Regions of a posterior: connectivity, grouping and shares."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from sklearn.covariance import ledoit_wolf

import bayeskern as bk
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.connectivity import (
    Neighbours,
    agree,
    connected,
    groups,
    shrunk_covariance,
)
from bayeskern.inference.mcmc.exploration import Exploration
from bayeskern.inference.mcmc.kernel import Transitions
from bayeskern.inference.mcmc.shares import NearestRegion, log_sum, proportions
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from tests.inference.separated import SEPARATED
from tests.marks import slow

RNG = np.random.default_rng(3)


def normal_chains(centers, d=3, draws=400):
    return np.stack([c + RNG.standard_normal((draws, d)) for c in centers])


# -- connectivity ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("d", "draws"), [(10, 2000), slow(400, 2000), slow(400, 60)])
def test_mode_is_connected_to_draws_around_it_in_any_dimension(d, draws):
    def model():
        numpyro.sample("x", dist.Normal(0.0, 1.0).expand([d]).to_event(1))

    near = Neighbours(RNG.standard_normal((draws, d)))
    points = np.concatenate([np.zeros((1, d)), RNG.standard_normal((4, d))])
    assert np.all(connected(Target.from_model(model, (), {}), points, near))


@pytest.mark.parametrize("name", ["unequal, d = 2", "unequal, d = 5", "unequal, d = 10"])
def test_separate_mode_is_not_connected(name):
    target = Target.from_model(SEPARATED[name].model, (), {})
    d = target.size
    end = np.full(d, 4.0 / np.sqrt(d))
    near = Neighbours(RNG.standard_normal((2000, d)) - end)
    np.testing.assert_array_equal(connected(target, np.stack([-end, end]), near), [True, False])


@pytest.mark.parametrize(("draws", "d"), [(60, 600), (2000, 10), (50, 1)])
def test_shrunk_covariance_equals_scikit_learn(draws, d):
    z = 5.0 + RNG.standard_normal((draws, d)) @ RNG.standard_normal((d, d))
    sds = z.std(axis=0)
    correlations, _ = ledoit_wolf((z - z.mean(axis=0)) / sds, assume_centered=True)
    np.testing.assert_allclose(shrunk_covariance(z), sds[:, None] * correlations * sds, atol=1e-7)


@pytest.mark.parametrize("spread", [0.0, 1e-16])
def test_stuck_chain_has_no_neighbours_elsewhere(spread):
    z = np.array([1.0, 2.0, -0.5]) + spread * RNG.standard_normal((20, 3))
    draws, distance = Neighbours(z).near(np.stack([z[0], z[0] + 0.1]))
    assert np.all(np.isfinite(draws)) and distance[0] < 1.0 and distance[1] > 1e6


def test_stray_draws_do_not_connect_a_mode():
    target = Target.from_model(SEPARATED["unequal, d = 2"].model, (), {})
    end = np.full(2, 4.0 / np.sqrt(2.0))
    draws = RNG.standard_normal((2000, 2)) - end
    draws[:10] += 2.0 * end
    assert not connected(target, end[None], Neighbours(draws))[0]


def test_points_of_a_thin_ring_are_connected_along_it():
    target = Target.from_model(SEPARATED["rings"].model, (), {})
    angle = RNG.uniform(0.0, 2.0 * np.pi, 2000)
    radius = 2.0 + 0.1 * RNG.standard_normal(2000)

    def ring(center, angle, radius):
        return np.stack([center + radius * np.cos(angle), radius * np.sin(angle)], axis=1)

    near = Neighbours(ring(-3.5, angle, radius))
    at = np.linspace(0.0, 6.0, 12)
    assert np.all(connected(target, ring(-3.5, at, 2.0), near))
    assert not np.any(connected(target, ring(3.5, at, 2.0), near))


# -- chains ----------------------------------------------------------------------------------------


def test_chains_are_grouped_by_region():
    z = normal_chains([0.0, 9.0, 0.0, 9.0, -9.0])
    assert agree(z[[0]], z[[2]]) and not agree(z[[0]], z[[1]])
    assert [g.tolist() for g in groups(z)] == [[0, 2], [1, 3], [4]]


def test_nearest_draw_determines_the_region_of_a_point():
    nearest = NearestRegion([normal_chains([0.0, 0.0]), normal_chains([8.0])])
    points = np.concatenate([RNG.standard_normal((50, 3)), 8.0 + RNG.standard_normal((50, 3))])
    np.testing.assert_array_equal(nearest(points), np.repeat([0, 1], 50))
    assert nearest(np.full((1, 3), np.nan))[0] == -1


def test_errors_of_shares_equal_simulation():
    values, errors = np.array([0.3, -0.5, 1.0]), np.array([0.02, 0.05, 0.03])
    shares = proportions([Estimate(*one) for one in zip(values, errors, strict=True)])
    simulated = np.exp(values + errors * RNG.standard_normal((200_000, 3)))
    simulated /= simulated.sum(axis=1, keepdims=True)
    np.testing.assert_allclose([s.value for s in shares], simulated.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose([s.error for s in shares], simulated.std(axis=0), rtol=0.02)
    total = log_sum([Estimate(*one) for one in zip(values, errors, strict=True)])
    sums = np.log(np.sum(np.exp(values + errors * RNG.standard_normal((200_000, 3))), axis=1))
    np.testing.assert_allclose(total, (sums.mean(), sums.std()), rtol=0.02)
    assert np.isnan(proportions([Estimate(0.0, 0.1), Estimate(np.nan, np.nan)])[0].value)


def test_share_near_one_has_the_error_of_the_complement():
    # 1 - exp(-40): the error of either is exp(-40) |(0.3, 0.1)|, where rounding is 1e-16.
    found = proportions([Estimate(0.0, 0.3), Estimate(-40.0, 0.1)])
    expected = np.exp(-40.0) * np.hypot(0.3, 0.1)
    np.testing.assert_allclose([share.error for share in found], expected, rtol=1e-9)


class FarPoints(Exploration):
    """As in many coordinates: each point of a wide distribution is far from all draws."""

    def _connected_to_chains(self, points, as_normal=True):
        return np.zeros(len(points), bool)


@pytest.mark.parametrize(("center", "unvisited"), [(0.0, 0), (30.0, 14)])
def test_points_from_which_chains_return_count_as_visited(center, unvisited):
    def model():
        normals = dist.MultivariateNormal(np.outer([0.0, 30.0], np.ones(3)), np.eye(3))
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(np.full(2, 0.5)), normals))

    def chains(*centers):
        z = normal_chains(centers)
        return Transitions(z, *(np.zeros(z.shape[:2]) for _ in Transitions._fields[1:]))

    target = Target.from_model(model, (), {})
    exploration = FarPoints(target, chains(0.0, 0.0), lambda *_: chains(center), Exchanges())
    # Each more than an sd from the others.
    points = np.outer(4.0 + 2.0 * np.arange(20), [0.0, 1.0, 0.0])
    places = Findings.at(target.coordinates, points)
    exploration.explore(None, places, seed=0)
    assert (exploration.visits, exploration.unvisited) == (6, unvisited)


@pytest.mark.slow
def test_neck_of_a_funnel_is_not_visited():
    # The density rises without bound as the steps of the walk become small, though hardly any mass
    # lies there.
    def walk():
        step = numpyro.sample("step", dist.Exponential(1.0))
        s = numpyro.sample("s", dist.GaussianRandomWalk(step, num_steps=40))
        numpyro.sample("y", dist.Normal(s, 0.5), obs=np.sin(np.arange(40.0)))

    # The non-centred form has no neck.
    method = bk.NUTS(centring=False)
    for seed in range(3):
        posterior = bk.infer(walk, method=method, seed=seed, progress=False)
        evidence = posterior.trust.evidence
        assert "places_visited" not in evidence and "places_left" not in evidence
