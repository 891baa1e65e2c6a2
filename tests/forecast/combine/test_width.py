"""Scale of the intervals against quadrature and SciPy."""

import numpy as np
import pytest
from scipy import integrate, stats

from bayeskern.forecast.combine.width import MAX_RESIDUAL, forecast_errors
from bayeskern.forecast.model.learned import Width

RNG = np.random.default_rng(6)
WIDTH = Width(log_scale=0.2, degrees=5.0, share=0.3, widening=0.4, horizon=9)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_error_density_equals_quadrature(share):
    """Prior of the variance times the likelihood of each residual to the power of its share."""
    width = Width(0.2, 5.0, share, 0.0, 1)
    r = 1.6 * RNG.normal(size=7)
    prior = stats.invgamma(2.5, scale=2.5 * np.exp(0.4))

    def density(error):
        def integrand(v):
            told = np.exp(share * stats.norm.logpdf(r, scale=np.sqrt(v)).sum())
            return (
                prior.pdf(v)
                * told
                * (1.0 if error is None else stats.norm.pdf(error, scale=v**0.5))
            )

        return integrate.quad(integrand, 0.0, np.inf, epsabs=0.0, epsrel=1e-10, limit=200)[0]

    errors = forecast_errors(width, r, np.zeros(1))
    student = stats.t(errors.degrees, scale=errors.scales[0])
    for error in (0.0, 0.7, -2.0, 5.0):
        assert density(error) / density(None) == pytest.approx(student.pdf(error), rel=1e-8)


def test_scale_without_residuals_is_the_prior():
    errors = forecast_errors(WIDTH, np.zeros(0), np.zeros(3))
    assert errors.degrees == 5.0
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


@pytest.mark.slow
def test_interval_coverage_with_random_scale():
    """Coverage of 80 % intervals of series simulated from the prior."""
    width, inside = Width(0.0, 6.0, 1.0, 0.0, 1), []
    for _ in range(4000):
        c = np.sqrt(stats.invgamma(3.0, scale=3.0).rvs(random_state=RNG))
        errors = forecast_errors(width, c * RNG.normal(size=8), np.zeros(1))
        inside.append(np.abs(c * RNG.normal()) < errors.scales[0] * errors.quantile(0.9))
    assert np.mean(inside) == pytest.approx(0.8, abs=3.0 * np.sqrt(0.16 / 4000))
