"""Scale and tails of the intervals against quadrature and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from bayeskern.forecast.combine.width import (
    MAX_RESIDUAL,
    TAIL_INFORMATION,
    PastErrors,
    forecast_errors,
)
from bayeskern.forecast.model.learned import IntervalWidth

RNG = np.random.default_rng(6)
WIDTH = IntervalWidth(
    log_scale=0.2, prior_count=5.0, half_life=1e12, degrees=4.0, widening=0.4, horizon=9,
    past_scale=0.9,
)  # fmt: skip
NONE = PastErrors(np.zeros(0), np.zeros(0, int))


def errors_after(residuals, width=WIDTH, steps=1):
    """Distribution of errors after a value for each residual."""
    n = len(residuals)
    return forecast_errors(width, PastErrors(residuals, np.arange(n)), n, np.zeros(steps))


def test_scale_equals_the_posterior_mean_precision_by_quadrature():
    """E[1 / c^2] with normal residuals and the conjugate prior of a variance."""
    r = 1.6 * RNG.normal(size=7)
    prior = stats.invgamma(2.5, scale=2.5 * np.exp(0.4))

    def moment(power):
        def integrand(v):
            likelihood = np.exp(stats.norm.logpdf(r, scale=np.sqrt(v)).sum())
            return prior.pdf(v) * likelihood * v**power

        return integrate.quad(integrand, 0.0, np.inf, epsabs=0.0, epsrel=1e-10, limit=200)[0]

    scale = errors_after(r).scales[0]
    assert 1.0 / scale**2 == pytest.approx(moment(-1) / moment(0), rel=1e-8)


def test_scale_without_residuals_is_the_prior():
    errors = forecast_errors(WIDTH, NONE, 0, np.zeros(3))
    assert errors.degrees == pytest.approx(4.0, rel=1e-4)
    np.testing.assert_allclose(errors.scales, np.exp(0.2))


def test_scale_grows_up_to_the_horizon():
    errors = forecast_errors(WIDTH, NONE, 7, np.arange(20))
    ratio = np.log(errors.scales / errors.scales[0])
    np.testing.assert_allclose(ratio[[0, 4, 8]], [0.0, 0.2, 0.4], atol=1e-14)
    np.testing.assert_allclose(ratio[8:], 0.4, rtol=1e-14)
    np.testing.assert_array_equal(errors.at(np.array([8, 2])).scales, errors.scales[[8, 2]])


def test_residuals_are_clipped():
    r = RNG.normal(size=10)
    wild, large = np.append(r, 1e9), np.append(r, -MAX_RESIDUAL)
    pair = [errors_after(residuals).scales for residuals in (wild, large)]
    np.testing.assert_array_equal(*pair)


def test_older_errors_count_less():
    r, half_life = RNG.normal(size=6), 2.5
    weights = 0.5 ** (np.arange(6, 0, -1) / half_life)
    square = (5.0 * np.exp(0.4) + weights @ r**2) / (5.0 + weights.sum())
    scales = errors_after(r, replace(WIDTH, half_life=half_life)).scales
    np.testing.assert_allclose(scales, np.sqrt(square), rtol=1e-12)


def test_forecasts_of_the_same_value_count_once():
    r = RNG.normal(size=4)
    shared = PastErrors(np.repeat(r, 3), np.repeat(np.arange(4), 3))
    once, thrice = errors_after(r), forecast_errors(WIDTH, shared, 4, np.zeros(1))
    np.testing.assert_allclose(thrice.scales, once.scales, rtol=1e-12)
    assert thrice.degrees == once.degrees


def test_past_forecasts_know_earlier_errors_only():
    r = RNG.normal(size=8)
    past = forecast_errors(WIDTH, PastErrors(r, np.arange(8)), [0, 3, 3, 8], np.zeros(4))
    expected = [errors_after(r[:count]).scales[0] for count in (0, 3, 3, 8)]
    np.testing.assert_allclose(past.scales, expected, rtol=1e-12)


def test_scale_follows_a_calmer_period():
    """Errors of a fifth of the size before: the scale is theirs after a few half-lives."""
    r = np.append(RNG.normal(size=200), 0.2 * RNG.normal(size=100))
    scale = errors_after(r, replace(WIDTH, half_life=20.0)).scales[0]
    known = np.sqrt((5.0 * np.exp(0.4) + 29.4 * 0.04) / 34.4)
    assert scale == pytest.approx(known, rel=0.2)


def test_degrees_by_quadrature():
    """Posterior mean for errors of variance 1, with a normal prior of the log."""
    r = stats.t(5.0).rvs(400, random_state=RNG)
    e = r / np.sqrt(np.mean(r**2))

    def posterior(x):
        degrees = 2.0 + np.exp(x)
        density = stats.t(degrees, scale=np.sqrt(1.0 - 2.0 / degrees)).logpdf(e)
        normal = stats.norm.logpdf(e)
        return np.exp(-0.5 * (x - np.log(2.0)) ** 2 + TAIL_INFORMATION * np.sum(density - normal))

    total, moment = (
        integrate.quad(lambda x, k=k: posterior(x) * x**k, -5.0, 8.0, limit=200)[0] for k in (0, 1)
    )
    assert np.log(errors_after(r).degrees - 2.0) == pytest.approx(moment / total, rel=1e-3)


def test_many_normal_errors_have_light_tails():
    """95 % intervals after 500 normal errors: before, 42 % wider than the ideal."""
    errors = errors_after(RNG.normal(size=500))
    assert 1.0 < errors.quantile(0.975) * errors.scales[0] / 1.96 < 1.15


def test_interval_coverage_with_many_residuals():
    """Coverage of 80 % intervals of Student t errors, by 500 errors of variance c^2 for each c."""
    c, law = np.exp(0.3 * RNG.normal(size=2000)), stats.t(WIDTH.degrees)
    new = c * law.rvs(2000, random_state=RNG)
    ends = []
    for scale in c:
        errors = errors_after(scale / law.std() * law.rvs(500, random_state=RNG))
        ends.append(errors.scales[0] * errors.quantile(0.9))
    assert np.mean(np.abs(new) < ends) == pytest.approx(0.8, abs=3.0 * np.sqrt(0.16 / 2000))
