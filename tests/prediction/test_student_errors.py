"""Student t errors against the distributions of SciPy."""

import numpy as np
import pytest
from scipy import stats

from bayeskern.prediction.student_errors import StudentErrors


@pytest.mark.parametrize("degrees", [np.inf, 3.5])
def test_student_errors_equal_scipy(degrees):
    errors, q = StudentErrors(np.ones(2), degrees), np.array([1e-6, 0.1, 0.5, 0.99])
    truth = stats.norm() if np.isinf(degrees) else stats.t(degrees)
    np.testing.assert_allclose(errors.quantile(q), truth.ppf(q), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(errors.below(truth.ppf(q)), q, rtol=1e-8)
    np.testing.assert_allclose(errors.log_density(truth.ppf(q)), truth.logpdf(truth.ppf(q)))
    np.testing.assert_allclose(errors.sd, truth.std(), rtol=1e-12)


def test_sd_without_variance_is_infinite():
    assert StudentErrors(np.ones(1), 2.0).sd == np.inf
