"""Scale of the intervals against quadrature and simulation."""

import numpy as np
import pytest
from scipy import integrate, stats

from bayeskern.forecast.combine.width import MAX_RESIDUAL, forecast_errors
from bayeskern.forecast.model.learned import Width

RNG = np.random.default_rng(6)
WIDTH = Width(log_scale=0.2, prior_count=5.0, degrees=4.0, widening=0.4, horizon=9, past_scale=0.9)


def test_scale_equals_the_posterior_mean_precision_by_quadrature():
    """E[1 / c^2] with normal residuals and the conjugate prior of a variance."""
    r = 1.6 * RNG.normal(size=7)
    prior = stats.invgamma(2.5, scale=2.5 * np.exp(0.4))

    def moment(power):
        def integrand(v):
            likelihood = np.exp(stats.norm.logpdf(r, scale=np.sqrt(v)).sum())
            return prior.pdf(v) * likelihood * v**power

        return integrate.quad(integrand, 0.0, np.inf, epsabs=0.0, epsrel=1e-10, limit=200)[0]

    scale = forecast_errors(WIDTH, r, np.zeros(1)).scales[0]
    assert 1.0 / scale**2 == pytest.approx(moment(-1) / moment(0), rel=1e-8)


def test_scale_without_residuals_is_the_prior():
    errors = forecast_errors(WIDTH, np.zeros(0), np.zeros(3))
    assert errors.degrees == 4.0
    np.testing.assert_allclose(errors.scales, np.exp(0.2))


def test_scale_grows_up_to_the_horizon():
    errors = forecast_errors(WIDTH, np.zeros(0), np.arange(20))
    ratio = np.log(errors.scales / errors.scales[0])
    np.testing.assert_allclose(ratio[[0, 4, 8]], [0.0, 0.2, 0.4], atol=1e-14)
    np.testing.assert_allclose(ratio[8:], 0.4, rtol=1e-14)
    np.testing.assert_array_equal(errors.at(np.array([8, 2])).scales, errors.scales[[8, 2]])


def test_residuals_are_clipped():
    r = RNG.normal(size=10)
    wild, large = np.append(r, 1e9), np.append(r, -MAX_RESIDUAL)
    pair = [forecast_errors(WIDTH, residuals, np.zeros(1)).scales for residuals in (wild, large)]
    np.testing.assert_array_equal(*pair)


def test_interval_coverage_with_many_residuals():
    """Coverage of 80 % intervals of Student t errors, with the scale of 500 normal residuals."""
    c = np.exp(0.3 * RNG.normal(size=4000))
    new = c * stats.t(WIDTH.degrees).rvs(4000, random_state=RNG)
    ends = []
    for scale in c:
        errors = forecast_errors(WIDTH, scale * RNG.normal(size=500), np.zeros(1))
        ends.append(errors.scales[0] * errors.quantile(0.9))
    assert np.mean(np.abs(new) < ends) == pytest.approx(0.8, abs=3.0 * np.sqrt(0.16 / 4000))
