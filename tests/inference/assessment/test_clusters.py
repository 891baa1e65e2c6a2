"""Variances of means and effective sizes of draws that share ancestors."""

import numpy as np

from bayeskern.inference.assessment.clusters import effective_sizes, variance_of_mean

COUNT, ISLANDS = 8000, 8


def test_variance_of_the_mean_of_independent_draws():
    x = np.random.default_rng(0).standard_normal((COUNT, 3))
    variance = variance_of_mean(x, np.arange(COUNT), np.arange(COUNT))
    np.testing.assert_allclose(variance, x.var(axis=0) / (COUNT - 1), rtol=1e-9)


def test_copies_of_a_draw_count_once():
    """Ten copies of each draw: the variance is that of a tenth of the draws."""
    few = np.random.default_rng(1).standard_normal((COUNT // 10, 1))
    x, ancestors = np.repeat(few, 10, axis=0), np.repeat(np.arange(COUNT // 10), 10)
    rng = np.random.default_rng(2)
    order = rng.permutation(COUNT)
    found = variance_of_mean(x[order], ancestors[order], np.zeros(COUNT))
    np.testing.assert_allclose(found, few.var() / len(few), rtol=1e-9)


def test_disagreeing_islands_lower_the_ess():
    rng = np.random.default_rng(3)
    island = np.repeat(np.arange(ISLANDS), COUNT // ISLANDS)
    shift, scale = (
        rng.standard_normal(ISLANDS)[island],
        np.exp(rng.standard_normal(ISLANDS))[island],
    )
    x = rng.standard_normal((COUNT, 20))
    x[:, 0] += shift
    x[:, 1] *= scale
    bulk, tail = effective_sizes(x, np.arange(COUNT), island)
    assert bulk[0] < 50 and tail[0] < 200 and bulk[1] < 100
    assert np.all(bulk[2:] > 1000) and np.all(tail[2:] > 1000)


def test_constant_has_no_error():
    bulk, tail = effective_sizes(np.ones((COUNT, 1)), np.arange(COUNT), np.arange(COUNT) // 1000)
    assert bulk[0] == tail[0] == COUNT
