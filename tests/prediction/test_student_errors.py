"""Student t errors against the distributions of SciPy."""

import numpy as np
import pytest
from scipy import stats

from bayeskern.prediction.student_errors import StudentErrors

SCALES = np.array([0.8, 1.3])


@pytest.mark.parametrize("degrees", [np.inf, 3.5])
def test_quantiles_probabilities_and_densities_are_those_of_scipy(degrees):
    errors, q = StudentErrors(np.ones(2), degrees), np.array([1e-6, 0.1, 0.5, 0.99])
    truth = stats.norm() if np.isinf(degrees) else stats.t(degrees)
    np.testing.assert_allclose(errors.quantile(q), truth.ppf(q), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(errors.below(truth.ppf(q)), q, rtol=1e-8)
    np.testing.assert_allclose(errors.log_density(truth.ppf(q)), truth.logpdf(truth.ppf(q)))
    np.testing.assert_allclose(errors.sd, truth.std(), rtol=1e-12)


def test_errors_without_a_variance_say_so():
    assert StudentErrors(np.ones(1), 2.0).sd == np.inf


@pytest.mark.parametrize("degrees", [np.inf, 8.0])
def test_draws_have_the_scales_and_the_correlation(degrees):
    correlation = np.array([[1.0, 0.6], [0.6, 1.0]])
    errors = StudentErrors(SCALES, degrees)
    draws = errors.sample(correlation, 200_000, np.random.default_rng(0))
    np.testing.assert_allclose(draws.std(axis=0), SCALES * errors.sd, rtol=0.02)
    np.testing.assert_allclose(np.corrcoef(draws.T), correlation, atol=0.01)
    expected = SCALES * errors.quantile(0.95)
    np.testing.assert_allclose(np.quantile(draws, 0.95, axis=0), expected, rtol=0.02)
