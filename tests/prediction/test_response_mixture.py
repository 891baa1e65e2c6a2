"""Predictive distributions of counts and shares against sums and integrals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bayeskern.likelihoods.analytic import Analytic
from bayeskern.prediction.response_mixture import ResponseMixture
from bayeskern.prediction.student_errors import StudentErrors

LIKELIHOODS = Analytic.by_name()
WEIGHTS = np.array([0.3, 0.7])
LOCATIONS, SDS = np.array([[1.0, 0.2], [1.6, 0.9]]), np.array([[0.3, 0.2], [0.2, 0.4]])


def of_poisson(locations=LOCATIONS, sds=SDS, weights=WEIGHTS, **options):
    thetas = np.zeros((len(weights), 0))
    return ResponseMixture(LIKELIHOODS["poisson"], weights, locations, sds, thetas, **options)


def integral(function, column):
    """Expectation of a function of exp(f), which is linear beyond a quantile."""
    f = np.linspace(-3.0, 6.0, 20_001)
    parts = [stats.norm(m, s) for m, s in zip(LOCATIONS[:, column], SDS[:, column], strict=True)]
    density = WEIGHTS @ [part.pdf(f) for part in parts]
    last = f[np.searchsorted(WEIGHTS @ [part.cdf(f) for part in parts], 0.99)]
    rate = np.where(f < last, np.exp(f), np.exp(last) * (1.0 + f - last))
    return integrate.simpson(function(rate) * density, x=f)


def test_probabilities_and_moments_of_counts_equal_integrals():
    mixture = of_poisson()
    mean, sd = mixture.mean, mixture.sd
    for column in range(2):
        first = integral(lambda rate: rate, column)
        assert mean[column] == pytest.approx(first, rel=2e-3)
        square = integral(lambda rate: rate + rate**2, column)
        assert sd[column] == pytest.approx(np.sqrt(square - first**2), rel=5e-3)
        for y in (0.0, 3.0, 9.0):
            mass = integral(lambda rate, y=y: stats.poisson(rate).pmf(y), column)
            below = integral(lambda rate, y=y: stats.poisson(rate).cdf(y), column)
            found = mixture.log_density(np.full(2, y))[column]
            assert np.exp(found) == pytest.approx(mass, rel=5e-3)
            assert mixture.below(np.full(2, y))[column] == pytest.approx(below, abs=1e-3)


def test_quantiles_of_counts_invert_distribution_function():
    mixture, q = of_poisson(), np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    quantiles = mixture.quantile(q)
    for level, row in zip(q, quantiles, strict=True):
        assert np.all(row == np.round(row))
        assert np.all(mixture.below(row) >= level - 1e-12)
        assert np.all((mixture.below(row - 1.0) < level) | (row == 0.0))


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "beta"])
def test_quantiles_given_the_latent_equal_scipy(name):
    u = np.random.default_rng(0).random((50, 3))
    f = np.broadcast_to([-3.0, 0.5, 6.0] if name != "beta" else [-2.0, 0.1, 2.0], u.shape)
    rate, theta = np.exp(f), np.array([np.log(7.0)])
    share = 1.0 / (1.0 + np.exp(-f))
    expected = {
        "poisson": stats.poisson(rate),
        "negative_binomial": stats.nbinom(7.0, 7.0 / (7.0 + rate)),
        "beta": stats.beta(7.0 * share, 7.0 * (1.0 - share)),
    }[name].ppf(u)
    np.testing.assert_allclose(LIKELIHOODS[name].quantile(u, f, theta), expected, rtol=1e-9)


def test_impossible_values_have_density_zero():
    values = np.array([[-1.0, 0.5], [1.5, 2.0]])
    found = [of_poisson().log_density(row) for row in values]
    assert np.isneginf(found[0]).all() and np.isneginf(found[1][0]) and np.isfinite(found[1][1])


def test_tails_and_middle_of_a_poisson_distribution_equal_scipy():
    one = of_poisson(LOCATIONS[:1], np.full((1, 2), 1e-9), np.ones(1))
    for y in (np.array([0.0, 1.0]), np.array([3.0, 4.0])):
        rate = np.exp(LOCATIONS[0])
        at_most, less = stats.poisson(rate).cdf(y), stats.poisson(rate).cdf(y - 1.0)
        np.testing.assert_allclose(one.tails(y), np.minimum(at_most, 1.0 - less), rtol=1e-6)
        np.testing.assert_allclose(one.middle(y), 0.5 * (at_most + less), rtol=1e-6)


@pytest.mark.slow
@given(
    sds=st.lists(st.floats(0.05, 6.0), min_size=2, max_size=2),
    locations=st.lists(st.floats(-1.0, 5.0), min_size=2, max_size=2),
    weight=st.floats(0.01, 0.99),
)
def test_mean_of_counts_lies_in_central_98_percent_interval(sds, locations, weight):
    columns = np.array(locations)[:, None], np.array(sds)[:, None]
    mixture = of_poisson(*columns, weights=np.array([weight, 1.0 - weight]))
    low, high = mixture.quantile([0.01, 0.99])
    # Whole numbers lie up to one below.
    assert low - 1.0 <= mixture.mean <= high + 1.0


def test_draws_have_probabilities_of_mixture():
    def paths(i, n, seed):
        rng = np.random.default_rng(seed)
        return LOCATIONS[i] + SDS[i] * rng.standard_normal((n, 2))

    mixture = of_poisson(paths=paths)
    draws = mixture.sample(20_000, seed=2)
    for y in (0.0, 2.0, 6.0):
        share = np.mean(draws <= y, axis=0)
        np.testing.assert_allclose(share, mixture.below(np.full(2, y)), atol=0.015)
    np.testing.assert_array_equal(draws, mixture.sample(20_000, seed=2))


def test_errors_do_not_change_response_mixture():
    mixture = of_poisson()
    assert mixture.with_errors(StudentErrors(np.ones(2), 4.0)) is mixture
