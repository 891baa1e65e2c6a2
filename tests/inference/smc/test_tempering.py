"""Temperatures, resampling, and the start distribution, against direct computation."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp

from bayeskern.inference.model.target import Target
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.smc.start import StartDistribution
from bayeskern.inference.smc.tempering import next_temperature, resample_islands


def effective_share(log_weights):
    w = np.exp(log_weights - np.max(log_weights))
    return np.sum(w) ** 2 / (len(w) * np.sum(np.square(w)))


def test_next_temperature_leaves_the_effective_share():
    ratios = 30.0 * np.random.default_rng(0).standard_normal(1000)
    new = next_temperature(ratios, 0.1, 0.6)
    np.testing.assert_allclose(effective_share((new - 0.1) * ratios), 0.6, rtol=1e-3)
    assert next_temperature(1e-3 * ratios, 0.1, 0.6) == 1.0


def test_particles_of_zero_density_are_ignored():
    ratios = np.r_[np.zeros(100), np.full(900, -np.inf)]
    assert next_temperature(ratios, 0.0, 0.9) == 1.0


def test_unbounded_ratios_leave_no_step():
    assert next_temperature(np.r_[np.zeros(99), 1e40], 0.5, 0.9) == 0.5


def test_islands_are_resampled_separately():
    rng = np.random.default_rng(0)
    log_weights = rng.standard_normal(4000)
    log_weights[2000:] += 100.0
    log_weights[:1000] = -np.inf
    chosen, log_means = resample_islands(log_weights, 4, rng)
    assert np.array_equal(np.bincount(chosen // 1000), np.full(4, 1000))
    # An island without weight keeps its particles.
    assert np.array_equal(np.sort(chosen[:1000]), np.arange(1000)) and log_means[0] == -np.inf
    by_island = log_weights.reshape(4, 1000)[1:]
    np.testing.assert_allclose(log_means[1:], logsumexp(by_island, axis=1) - np.log(1000))
    # Systematic: each particle floor(n w) or one more times.
    expected = 1000 * np.exp(by_island[0] - logsumexp(by_island[0]))
    counts = np.bincount(chosen[1000:2000] - 1000, minlength=1000)
    assert np.all(np.abs(counts - expected) < 1.0)


def two_modes():
    x = numpyro.sample("x", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    y = np.array([[3.0, 3.0], [-3.0, -3.0]])
    likelihood = dist.MixtureSameFamily(
        dist.Categorical(np.array([0.7, 0.3])), dist.Normal(y, 0.3 + s).to_event(1)
    )
    numpyro.factor("likelihood", likelihood.log_prob(x))


@pytest.mark.slow
def test_start_distribution_is_normalised_and_traceable():
    target = Target.from_model(two_modes, (), {})
    optimum = find_optimum(target, 8, 0, 200, False)
    start = StartDistribution.at_modes(target, optimum, 0)
    z, log_q = start.draw(np.random.default_rng(0), 4000)
    traced = jax.vmap(start.traceable(target))(z)
    np.testing.assert_allclose(traced, log_q, rtol=1e-9, atol=1e-9)
    # A normal density integrates to one by importance sampling from q0.
    log_p = dist.Normal(0.5, 0.7).log_prob(z).sum(axis=1)
    weights = np.exp(np.asarray(log_p) - log_q)
    assert abs(weights.mean() - 1.0) < 4.0 * weights.std() / np.sqrt(len(z))
