"""Averages of quantiles against SciPy and quadrature."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bayeskern.forecast.model.transformation import MAX_LOG_ABOVE_LARGEST, NormalScores, Scale
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.student_errors import StudentErrors
from tests.forecast.growth import grown, limits_of

RNG = np.random.default_rng(9)
AS_GIVEN, OTHER, LOGARITHM = Scale(False, 3.0, 2.0), Scale(False, -1.0, 0.5), Scale(True, 0.5, 0.7)
MEANS = np.array([[0.1, -0.5], [0.4, 1.0]])
SDS = np.array([[0.5, 1.0], [0.8, 0.3]])
WEIGHTS = np.array([0.7, 0.3])
ERRORS = {
    "normal": StudentErrors(np.array([1.0, 1.3])),
    "student": StudentErrors(np.array([0.8, 1.3]), 5.0),
}
KINDS = {
    "values": [AS_GIVEN, OTHER],
    "logarithms": [LOGARITHM, Scale(True, 0.2, 0.4, largest=-0.9)],
    "both": [AS_GIVEN, LOGARITHM],
    "partly linear": [LOGARITHM, Scale(True, 0.2, 0.4, largest=0.5, linear_share=0.3)],
}
Q = np.array([1e-5, 0.01, 0.1, 0.5, 0.8, 0.999])
every_kind = pytest.mark.parametrize("kind", KINDS)
every_errors = pytest.mark.parametrize("errors", ERRORS)


def errors_of_scipy(errors, column):
    """The distribution of the error at one time."""
    scale = errors.scales[column]
    if np.isinf(errors.degrees):
        return stats.norm(scale=scale)
    return stats.t(errors.degrees, scale=scale)


def average(kind, errors, **options):
    return QuantileAverage(WEIGHTS, KINDS[kind], MEANS, SDS, ERRORS[errors], **options)


def kinks_of(scales, column, means=MEANS, sds=SDS):
    """The errors at which tangents begin."""
    return [
        (limit - scale.shift - scale.size * m) / (scale.size * s)
        for scale, m, s in zip(scales, means[:, column], sds[:, column], strict=True)
        if scale.log
        for limit in limits_of(scale.shift + scale.size * m, scale)
    ]


def value_by_hand(scales, errors, column, means=MEANS, sds=SDS, weights=WEIGHTS):
    """sum_k w_k T_k(m_k + s_k e), linear beyond the limits of the exponential."""
    total = 0.0
    for w, scale, m, s in zip(weights, scales, means[:, column], sds[:, column], strict=True):
        value = scale.shift + scale.size * (m + s * errors)
        if scale.log:
            value = grown(value, scale.shift + scale.size * m, scale)
        total = total + w * value
    return total


# -- a normal distribution -------------------------------------------------------------------------


@every_errors
def test_single_part_equals_scipy_distribution(errors):
    one = QuantileAverage([1.0], [AS_GIVEN], MEANS[:1], SDS[:1], ERRORS[errors])
    y, quantiles = np.array([2.0, 5.5]), one.quantile(Q)
    assert quantiles.shape == (6, 2)
    for column in range(2):
        error = errors_of_scipy(ERRORS[errors], column)
        location, size = 3.0 + 2.0 * MEANS[0, column], 2.0 * SDS[0, column]
        np.testing.assert_allclose(quantiles[:, column], location + size * error.ppf(Q), rtol=1e-8)
        at = (y - location) / size
        np.testing.assert_allclose(one.below(y)[column], error.cdf(at)[column], rtol=1e-8)
        expected = error.logpdf(at)[column] - np.log(size)
        np.testing.assert_allclose(one.log_density(y)[column], expected, rtol=1e-7)
    np.testing.assert_array_equal(one.quantile(0.5), quantiles[3])


@every_errors
def test_two_parts_have_weighted_mean_of_quantiles(errors):
    """Two normal distributions average to one with mean location and mean sd."""
    both = average("values", errors)
    for column in range(2):
        error = errors_of_scipy(ERRORS[errors], column)
        by_part = [
            scale.shift + scale.size * (m + s * error.ppf(Q))
            for scale, m, s in zip(KINDS["values"], MEANS[:, column], SDS[:, column], strict=True)
        ]
        np.testing.assert_allclose(both.quantile(Q)[:, column], WEIGHTS @ by_part, rtol=1e-8)
        location = WEIGHTS @ [3.0 + 2.0 * MEANS[0, column], -1.0 + 0.5 * MEANS[1, column]]
        size = WEIGHTS @ [2.0 * SDS[0, column], 0.5 * SDS[1, column]]
        y = np.full(2, 1.7)
        expected = error.cdf((1.7 - location) / size)
        np.testing.assert_allclose(both.below(y)[column], expected, rtol=1e-8)
        assert both.mean[column] == pytest.approx(location, rel=1e-12)
        assert both.sd[column] == pytest.approx(size * error.std(), rel=1e-12)


@every_errors
def test_tails_equal_scipy_and_include_the_probability_of_a_bound(errors):
    bounds = (1.0, 6.0)
    one = QuantileAverage([1.0], [AS_GIVEN], MEANS[:1], SDS[:1], ERRORS[errors], bounds)
    for y in (1.0, 2.5, 4.5, 6.0):
        for column in range(2):
            error = errors_of_scipy(ERRORS[errors], column)
            at = (y - 3.0 - 2.0 * MEANS[0, column]) / (2.0 * SDS[0, column])
            at_most = 1.0 if y == bounds[1] else error.cdf(at)
            at_least = 1.0 if y == bounds[0] else error.sf(at)
            expected = min(at_most, at_least)
            assert one.tails(np.full(2, y))[column] == pytest.approx(expected, rel=1e-6)


def test_part_without_weight_is_ignored():
    one = QuantileAverage([1.0], [AS_GIVEN], MEANS[:1], SDS[:1])
    with_other = QuantileAverage([1.0, 0.0], KINDS["values"], MEANS, np.array([SDS[0], [1e9, 1e9]]))
    np.testing.assert_array_equal(with_other.quantile(Q), one.quantile(Q))
    np.testing.assert_array_equal([with_other.mean, with_other.sd], [one.mean, one.sd])


# -- any scales ------------------------------------------------------------------------------------


@every_errors
@every_kind
def test_quantiles_equal_formula(kind, errors):
    for column in range(2):
        e = errors_of_scipy(ERRORS[errors], column).ppf(Q)
        expected = value_by_hand(KINDS[kind], e, column)
        np.testing.assert_allclose(
            average(kind, errors).quantile(Q)[:, column], expected, rtol=1e-8
        )


@every_errors
@pytest.mark.parametrize("kind", ["logarithms", "both"])
def test_moments_equal_quadrature(kind, errors):
    """Quadrature between the tails of 1e-6."""
    combined = average(kind, errors)
    mean, sd = combined.mean, combined.sd
    for column in range(2):
        error = errors_of_scipy(ERRORS[errors], column)
        places = sorted([*error.ppf([1e-6, 1.0 - 1e-6]), 0.0, *kinks_of(KINDS[kind], column)])

        def integral(function, error=error, places=places):
            options = {"epsabs": 0.0, "epsrel": 1e-10, "limit": 400}
            return sum(
                integrate.quad(lambda e: function(e) * error.pdf(e), a, b, **options)[0]
                for a, b in itertools.pairwise(places)
            )

        def value(e, column=column):
            return value_by_hand(KINDS[kind], e, column)

        total = integral(lambda e: 1.0)
        first, second = integral(value) / total, integral(lambda e: value(e) ** 2) / total
        np.testing.assert_allclose(mean[column], first, rtol=1e-5)
        np.testing.assert_allclose(sd[column], np.sqrt(second - first**2), rtol=1e-4)


def test_growth_is_linear_above_the_limit():
    """Growth beyond the limit is proportional to the logarithm."""
    scale = Scale.from_values(np.array([1.0, 2.0, 4.0]), log=True)
    limit = np.log(4.0) + MAX_LOG_ABOVE_LARGEST
    z = (limit + np.array([-1.0, 0.0, 1.0, 3.0]) - scale.shift) / scale.size
    expected = np.exp(limit) * np.array([np.exp(-1.0), 1.0, 2.0, 4.0])
    np.testing.assert_allclose(scale.ahead(z, 0.0), expected, rtol=1e-12)


def test_linear_share_of_growth_above_largest_value():
    """Exponential below the largest value."""
    scale = Scale.from_values(np.array([1.0, 2.0, 4.0]), log=True, linear_share=0.25)
    beyond = np.array([-2.0, -0.1, 0.0, 0.5, 1.0])
    z = (np.log(4.0) + beyond - scale.shift) / scale.size
    growth = np.where(beyond > 0.0, 0.75 * np.exp(beyond) + 0.25 * (1.0 + beyond), np.exp(beyond))
    np.testing.assert_allclose(scale.ahead(z, 0.0), 4.0 * growth, rtol=1e-12)


@every_errors
@every_kind
def test_errors_invert_values(kind, errors):
    one = average(kind, errors)
    for e in (-6.0, -0.3, 0.0, 1.2, 9.0, 80.0):
        errors = np.array([e, 0.5 * e])
        np.testing.assert_allclose(one.errors_of(one.values(errors)), errors, rtol=1e-7, atol=1e-9)
    for y in (np.array([2.0, 7.0]), np.array([0.3, 400.0])):
        np.testing.assert_allclose(one.values(one.errors_of(y)), y, rtol=1e-9)


@every_errors
@every_kind
def test_density_integrates_to_probabilities(kind, errors):
    """Composite Gauss-Legendre quadrature, with a time for each node."""
    levels = [1e-7, 0.02, 0.5, 0.99, 1.0 - 1e-7]
    ends = average(kind, errors).quantile(levels)[:, 0]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    panels = np.linspace(0.0, 1.0, 2001)[:-1, None] + (nodes + 1.0) / 4000.0
    # In logarithms of the distance from the start, which may be heavy-tailed.
    lengths = np.log1p(np.diff(ends))[:, None, None]
    u = lengths * panels
    y = ends[:-1, None, None] + np.expm1(u)
    error = ERRORS[errors]
    at_nodes = QuantileAverage(
        WEIGHTS,
        KINDS[kind],
        np.repeat(MEANS[:, :1], y.size, axis=1),
        np.repeat(SDS[:, :1], y.size, axis=1),
        StudentErrors(np.full(y.size, error.scales[0]), error.degrees),
    )
    density = np.exp(at_nodes.log_density(y.ravel()).reshape(y.shape) + u)
    shares = np.sum(density * weights / 4000.0 * lengths, axis=(1, 2))
    np.testing.assert_allclose(shares, np.diff(levels), atol=2e-6)


def test_negative_values_on_log_scale_have_density_zero():
    one = average("logarithms", "normal")
    np.testing.assert_array_equal(one.log_density(np.array([-1.0, -1e-9])), -np.inf)
    np.testing.assert_array_equal(one.below(np.array([-1.0, -1e-9])), 0.0)


@pytest.mark.slow
@given(
    sds=st.lists(st.floats(0.01, 6.0), min_size=2, max_size=2),
    means=st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=2),
    weight=st.floats(0.0, 1.0),
    degrees=st.one_of(st.just(np.inf), st.floats(2.5, 60.0)),
    is_log=st.booleans(),
)
def test_mean_lies_in_central_98_percent_interval(sds, means, weight, degrees, is_log):
    """An unlimited lognormal violates this from a log sd of 4.7 on."""
    scales = [Scale(True, 0.0, 1.0), Scale(is_log, 0.0, 1.0)]
    one = QuantileAverage(
        [weight, 1.0 - weight],
        scales,
        np.array(means)[:, None],
        np.array(sds)[:, None],
        StudentErrors(np.ones(1), degrees),
    )
    low, high = one.quantile([0.01, 0.99])
    mean, sd = one.mean, one.sd
    assert low <= mean <= high and np.all(np.isfinite(sd)) and np.all(sd > 0.0)


def test_wide_lognormals_do_not_overflow():
    wide = QuantileAverage([0.5, 0.5], KINDS["both"], np.zeros((2, 1)), np.array([[1.0], [1e4]]))
    numbers = [*wide.quantile([0.01, 0.5, 0.99]), wide.mean, wide.sd]
    assert np.all(np.isfinite(numbers))


def test_zero_sd_gives_constant_quantiles():
    one = QuantileAverage([1.0], [AS_GIVEN], np.array([[0.1, 0.2]]), np.zeros((1, 2)))
    np.testing.assert_array_equal(one.quantile([0.01, 0.99]), [[3.2, 3.4]] * 2)
    np.testing.assert_array_equal(one.mean, [3.2, 3.4])


# -- draws -----------------------------------------------------------------------------------------

CORRELATION = np.array([[1.0, -0.6], [-0.6, 1.0]])


@every_errors
@every_kind
def test_draws_have_quantiles_and_correlation(kind, errors):
    one = average(kind, errors, correlation=lambda: CORRELATION)
    draws = one.sample(20_000, seed=3)
    for uniform in one.below(draws[:2000]).T:
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    # Kendall's correlation of a normal or a Student t distribution: Fang, Fang and Kotz (2002).
    expected = 2.0 / np.pi * np.arcsin(-0.6)
    assert stats.kendalltau(*draws.T).statistic == pytest.approx(expected, abs=0.02)
    np.testing.assert_array_equal(draws, one.sample(20_000, seed=3))
    assert not np.array_equal(draws, one.sample(20_000, seed=4))


def test_student_t_draws_share_their_scale():
    """Squares of Student t draws are correlated; squares of normal draws are not."""
    squares = []
    for degrees in (5.0, np.inf):
        errors = StudentErrors(np.ones(2), degrees)
        one = QuantileAverage(
            [1.0],
            [AS_GIVEN],
            np.zeros((1, 2)),
            np.ones((1, 2)),
            errors,
            correlation=lambda: np.eye(2),
        )
        draws = one.sample(20_000, seed=0)
        squares.append(stats.spearmanr(*np.square(draws - 3.0).T).statistic)
    assert squares[0] > 0.1 > 0.03 > abs(squares[1])


def test_draws_of_perfectly_correlated_times():
    degenerate = np.ones((2, 2))
    draws = average("values", "normal", correlation=lambda: degenerate).sample(100, seed=1)
    scaled = (draws - average("values", "normal").quantile(0.5)) / np.diff(
        average("values", "normal").quantile([0.1, 0.9]), axis=0
    )
    np.testing.assert_allclose(scaled[:, 0], scaled[:, 1], atol=1e-6)


# -- ranks -----------------------------------------------------------------------------------------

RAIN = np.concatenate([np.zeros(40), np.arange(1.0, 61.0)])


def of_ranks(errors=None):
    return QuantileAverage(
        [1.0], [NormalScores.from_values(RAIN)], np.zeros((1, 1)), np.ones((1, 1)), errors
    )


def test_standard_normal_ranks_have_distribution_of_series():
    one = of_ranks()
    q = np.linspace(0.02, 0.98, 49)
    np.testing.assert_allclose(one.quantile(q)[:, 0], np.quantile(RAIN, q, method="hazen"))
    assert np.exp(one.log_density(np.zeros(1)))[0] == pytest.approx(0.4, abs=0.006)
    assert one.below(np.array([30.5]))[0] == pytest.approx(0.7, abs=0.006)
    assert np.all(one.log_density(np.array([-0.1])) == -np.inf)
    assert np.all(one.log_density(np.array([60.1])) == -np.inf)


@pytest.mark.parametrize("errors", [None, StudentErrors(np.full(1, 3.0), 4.0)])
def test_quantiles_of_ranks_stay_within_range(errors):
    assert of_ranks(errors).quantile([1e-6, 1.0 - 1e-6]).ravel().tolist() == [0.0, 60.0]


def test_density_and_mass_of_ranks_sum_to_one():
    one = of_ranks()
    ends = np.exp(one.log_density(np.array([[0.0], [60.0]]))).ravel()
    nodes, weights = np.polynomial.legendre.leggauss(20)
    # Between one value of the series and the next.
    y = np.arange(60.0)[:, None] + 0.5 * (nodes + 1.0)
    inside = np.exp(one.log_density(y.reshape(-1, 1))).reshape(y.shape) @ (0.5 * weights)
    assert inside.sum() + ends.sum() == pytest.approx(1.0, abs=1e-6)
