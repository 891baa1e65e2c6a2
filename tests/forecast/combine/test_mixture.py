"""The mixture over structures: against SciPy's normal and lognormal distributions."""

import numpy as np
import pytest
from scipy import stats

from bayeskern.forecast.combine.mixture import Mixture
from bayeskern.forecast.combine.volatility import HALFWAY, VARIANCE, volatility_factors
from bayeskern.forecast.model.transformation import Scale

WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.1, -0.5], [0.4, 1.0], [-0.2, 0.3]])
VARIANCES = np.array([[0.5, 1.0], [0.2, 2.0], [1.5, 0.1]])
AS_GIVEN, LOGARITHM = Scale(False, 3.0, 2.0), Scale(True, 0.5, 0.7)
KINDS = {
    "normal": [AS_GIVEN] * 3,
    "lognormal": [LOGARITHM] * 3,
    "both": [AS_GIVEN, LOGARITHM, LOGARITHM],
}


def of_scipy(scales, column):
    """SciPy's distribution of each part at one time."""
    for scale, mean, variance in zip(scales, MEANS[:, column], VARIANCES[:, column], strict=True):
        location, sd = scale.shift + scale.size * mean, scale.size * np.sqrt(variance)
        yield stats.lognorm(sd, scale=np.exp(location)) if scale.log else stats.norm(location, sd)


@pytest.fixture(params=KINDS)
def kind(request):
    scales = KINDS[request.param]
    return scales, Mixture(WEIGHTS, scales, MEANS, VARIANCES)


def test_quantiles_turn_the_distribution_function_round(kind):
    scales, mixture = kind
    p = np.array([1e-6, 0.025, 0.5, 0.9, 0.999])
    quantiles = mixture.quantile(p)
    assert quantiles.shape == (5, 2)
    for column in range(2):
        below = [part.cdf(quantiles[:, column]) for part in of_scipy(scales, column)]
        np.testing.assert_allclose(WEIGHTS @ below, p, rtol=1e-6)
    np.testing.assert_array_equal(mixture.quantile(0.5), quantiles[2])


def test_densities_and_moments(kind):
    scales, mixture = kind
    for y in (2.0, 0.3, -1.0):
        density = [[part.pdf(y) for part in of_scipy(scales, c)] for c in range(2)]
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(
                mixture.log_density(np.full(2, y)), np.log(density @ WEIGHTS)
            )
    mean, sd = mixture.moments
    for column in range(2):
        parts = list(of_scipy(scales, column))
        expected = WEIGHTS @ [part.mean() for part in parts]
        square = WEIGHTS @ [part.var() + part.mean() ** 2 for part in parts]
        np.testing.assert_allclose(mean[column], expected, rtol=1e-12)
        np.testing.assert_allclose(sd[column], np.sqrt(square - expected**2), rtol=1e-10)


def test_paths_come_from_the_parts_by_their_weights(kind):
    scales, _ = kind

    def paths(part, n, seed):
        return np.full((n, 2), float(part))

    drawn = Mixture(WEIGHTS, scales, MEANS, VARIANCES, paths).sample(1000, seed=1)
    values = [np.exp(i) if scale.log else i for i, scale in enumerate(scales)]
    shares = [np.mean(np.isclose(drawn[:, 0], value)) for value in values]
    np.testing.assert_allclose(shares, WEIGHTS, atol=0.002)
    # In no order.
    assert len(np.unique(drawn[:20])) > 1


def test_a_volatility_that_is_not_known_widens_each_part(kind):
    scales, mixture = kind
    factors, weights = np.array([0.5, 1.0, 2.0]), np.array([0.2, 0.5, 0.3])
    p = np.array([0.025, 0.5, 0.9])
    quantiles = mixture.widened(factors, weights).quantile(p)
    for column in range(2):
        below = 0.0
        for factor, weight in zip(factors, weights, strict=True):
            parts = zip(scales, MEANS[:, column], VARIANCES[:, column], strict=True)
            for share, (scale, mean, variance) in zip(WEIGHTS, parts, strict=True):
                location, sd = scale.shift + scale.size * mean, scale.size * np.sqrt(variance)
                sd *= factor
                part = stats.norm(location, sd)
                part = stats.lognorm(sd, scale=np.exp(location)) if scale.log else part
                below += weight * share * part.cdf(quantiles[:, column])
        np.testing.assert_allclose(below, p, rtol=1e-6)


def test_its_paths_are_as_wide():
    """Whole paths, in which one factor goes through all times: against moments in closed form."""
    rng = np.random.default_rng(8)

    def paths(part, n, seed):
        return 3.0 + 2.0 * (MEANS[part] + np.sqrt(VARIANCES[part]) * rng.standard_normal((n, 2)))

    factors, weights = volatility_factors(100)
    narrow = Mixture(WEIGHTS, KINDS["normal"], MEANS, VARIANCES, paths)
    _, before = narrow.moments
    wider = narrow.widened(factors, weights)
    drawn = wider.sample(100_000, seed=2)
    mean, sd = wider.moments
    assert np.all(sd > before)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.02)


@pytest.mark.parametrize("count", [10, 60, 5000])
def test_the_log_volatility_is_normal(count):
    factors, weights = volatility_factors(count)
    e, variance = np.log(factors), VARIANCE * count / (count + HALFWAY)
    moments = [weights @ e**k for k in range(6)]
    np.testing.assert_allclose(moments, [1, 0, variance, 0, 3 * variance**2, 0], atol=1e-12)


def test_a_single_part_is_exact():
    mixture = Mixture.even([LOGARITHM], MEANS[:1], VARIANCES[:1])
    expected = [next(of_scipy([LOGARITHM] * 3, c)).ppf(0.1) for c in range(2)]
    np.testing.assert_allclose(mixture.quantile(0.1), expected, rtol=1e-12)


def test_wide_lognormals_do_not_overflow():
    scales = [Scale(False, 0.0, 1.0), Scale(True, 0.0, 1.0)]
    mixture = Mixture.even(scales, np.zeros((2, 1)), np.array([[1.0], [1e8]]))
    assert np.all(np.isfinite(mixture.quantile([0.01, 0.5, 0.99])))


def test_nan_is_no_forecast():
    with pytest.raises(FloatingPointError, match="could not be factored"):
        Mixture.even([AS_GIVEN], np.array([[np.nan]]), np.ones((1, 1)))
