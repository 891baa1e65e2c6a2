"""Mixtures of averaged quantiles, against scipy and simulation."""

import numpy as np
import pytest
from scipy import stats

from bayeskern.forecast.model.transformation import Scale
from bayeskern.prediction.average_mixture import AverageMixture
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.student_errors import StudentErrors

PROBABILITIES = np.array([0.005, 0.025, 0.1, 0.5, 0.9, 0.975, 0.995])


def mixture(means, sds, log=False, errors=None):
    """Mixture of S parts at m times, from means and sds (S, m) of one structure."""
    count = len(means)
    scale = Scale(log, 1.0, 2.0)
    average = QuantileAverage([1.0], [scale], means.reshape(1, -1), sds.reshape(1, -1), errors)
    return AverageMixture(average, count, lambda n, seed: np.zeros((n, means.shape[1])))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 0.3, 3.0])
def test_quantiles_invert_the_mean_of_the_distribution_functions(log, spread):
    rng = np.random.default_rng(0)
    means = 0.1 + spread * rng.normal(size=(40, 3))
    sds = np.full((40, 3), 0.2) * (1.0 + 0.1 * np.arange(3))
    f = mixture(means, sds, log)
    y = f.quantile(PROBABILITIES)
    below = np.array([f.below(row) for row in y])
    np.testing.assert_allclose(below, np.tile(PROBABILITIES, (3, 1)).T, atol=5e-4)
    if not log:
        parts = stats.norm(1.0 + 2.0 * means, 2.0 * sds)
        np.testing.assert_allclose(below, parts.cdf(y[:, None]).mean(axis=1), atol=1e-8)


def test_moments_and_density_of_normal_parts():
    rng = np.random.default_rng(1)
    means, sds = rng.normal(size=(20, 2)), 0.5 + rng.random((20, 2))
    f = mixture(means, sds)
    parts = stats.norm(1.0 + 2.0 * means, 2.0 * sds)
    np.testing.assert_allclose(f.mean, parts.mean().mean(axis=0))
    variance = parts.var().mean(axis=0) + parts.mean().var(axis=0)
    np.testing.assert_allclose(f.variance, variance)
    y = np.array([0.3, 2.0])
    np.testing.assert_allclose(f.log_density(y), np.log(parts.pdf(y).mean(axis=0)), rtol=1e-6)


def test_student_errors_of_each_time():
    means, sds = np.array([[0.0, 1.0], [2.0, 1.0]]), np.ones((2, 2))
    errors = StudentErrors(np.tile([1.0, 3.0], 2), 5.0)
    y = mixture(means, sds, errors=errors).quantile(PROBABILITIES)
    for j, scale in enumerate((1.0, 3.0)):
        parts = stats.t(5.0, 1.0 + 2.0 * means[:, j], 2.0 * scale)
        np.testing.assert_allclose(parts.cdf(y[:, [j]]).mean(axis=1), PROBABILITIES, atol=5e-4)
