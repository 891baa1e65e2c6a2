"""Importance weights: known tail indices, NumPy, SciPy, and the definitions of the resamplers."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeskern.inference.approximation.psis import (
    khat_threshold,
    pareto_smooth,
    resample,
    weighted_difference,
    weighted_moments,
)

# -- Pareto smoothing ----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.2, 0.5, 1.2])
def test_khat_of_pareto_ratios_is_their_tail_index(k):
    # r = u^-k is Pareto with tail index k exactly, and log r is exponential with mean k.
    khats = [
        pareto_smooth(k * np.random.default_rng(s).exponential(size=20_000)).khat for s in range(10)
    ]
    # The tail has 3 sqrt(20000) = 424 draws: the sd of k-hat is about (1 + k) / sqrt(424).
    assert abs(np.mean(khats) - k) < 3 * (1 + k) / np.sqrt(424 * 10)


@pytest.mark.parametrize("k", [0.3, 0.6, 0.8])
def test_unseen_share_of_pareto_ratios(k):
    # Of Pareto ratios, the share m^(1 - 1/k) of the mean lies beyond m.
    estimates, shares = [], []
    for seed in range(30):
        log_ratios = k * np.random.default_rng(seed).exponential(size=2000)
        estimates.append(pareto_smooth(log_ratios).unseen)
        shares.append(np.exp(np.max(log_ratios) * (1.0 - 1.0 / k)))
    # The expectation at the median of the largest of S draws is 1 / log 2 times the share.
    assert 1.0 < np.median(estimates) / np.median(shares) < 2.2


def test_share_beyond_the_largest_weight_is_not_known_without_a_tail():
    assert pareto_smooth(3.0 * np.random.default_rng(0).exponential(size=2000)).unseen == np.inf
    assert pareto_smooth(np.full(2000, -np.inf)).unseen == np.inf


@pytest.mark.parametrize("s", [0.4, 0.8])
def test_khat_of_a_narrow_gaussian_proposal(s):
    # log r = -z^2/2 + z^2/(2 s^2) + const; under q, (z/s)^2 is chi-square and exceeds t with
    # probability about exp(-t/2), so r exceeds R with probability about R^(-1/(1 - s^2)).
    khats = []
    for seed in range(10):
        z = s * np.random.default_rng(seed).normal(size=40_000)
        khats.append(pareto_smooth(stats.norm.logpdf(z) - stats.norm.logpdf(z, scale=s)).khat)
    # The logarithm in the tail of the chi-square brings k-hat a little below its limit.
    assert -0.15 < np.mean(khats) - (1 - s**2) < 0.05


def test_khat_of_bounded_ratios_is_negative():
    # A proposal that is too wide.
    z = 2.0 * np.random.default_rng(0).normal(size=8_000)
    assert pareto_smooth(stats.norm.logpdf(z) - stats.norm.logpdf(z, scale=2.0)).khat < 0


def test_smoothed_weights_are_normalized_and_keep_the_order():
    log_ratios = 0.7 * np.random.default_rng(0).exponential(size=3_000)
    weights = pareto_smooth(log_ratios + 1e4)  # a constant does not matter
    np.testing.assert_allclose(weights.normal.sum(), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(np.argsort(weights.log), np.argsort(log_ratios))
    np.testing.assert_allclose(weights.log, pareto_smooth(log_ratios).log, atol=1e-8)
    np.testing.assert_allclose(weights.ess, 1.0 / np.sum(weights.normal**2), rtol=1e-12)


def test_smoothing_reduces_the_error_of_a_mean():
    # The second moment of a standard normal by draws of sd 0.7: k = 0.51, so plain weights have no
    # variance.
    plain, smoothed = [], []
    for seed in range(100):
        z = 0.7 * np.random.default_rng(seed).normal(size=1_000)
        weights = pareto_smooth(stats.norm.logpdf(z) - stats.norm.logpdf(z, scale=0.7))
        raw = np.exp(weights.raw - logsumexp(weights.raw))
        plain.append(raw @ z**2 - 1.0), smoothed.append(weights.normal @ z**2 - 1.0)
    assert np.mean(np.square(smoothed)) < np.mean(np.square(plain))


def test_equal_ratios_mean_an_exact_proposal():
    weights = pareto_smooth(np.full(100, -7.0))
    assert weights.khat == -np.inf
    np.testing.assert_allclose(weights.ess, 100)
    # Rounding does not count.
    rounding = np.random.default_rng(0).normal(size=4_000) * 1e-12 - 5e3
    assert pareto_smooth(rounding).khat == -np.inf


def test_few_draws_leave_khat_unknown():
    weights = pareto_smooth(np.random.default_rng(0).normal(size=24))
    assert np.isnan(weights.khat)
    np.testing.assert_allclose(weights.log, weights.raw - logsumexp(weights.raw))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinite_ratios_leave_khat_unknown(value):
    log_ratios = np.random.default_rng(0).normal(size=1_000)
    log_ratios[3] = value
    weights = pareto_smooth(log_ratios)
    assert np.isnan(weights.khat)
    assert weights.normal[3] == 0
    np.testing.assert_allclose(weights.normal.sum(), 1.0)


def test_without_a_finite_ratio_weights_are_equal():
    for value in (-np.inf, np.nan):
        weights = pareto_smooth(np.full(50, value))
        assert np.isnan(weights.khat)
        np.testing.assert_allclose(weights.normal, 1 / 50)


def test_ratio_of_minus_infinity_is_a_weight_of_zero():
    # A truncated normal by draws from the whole one: half of the draws have no weight.
    z = np.random.default_rng(0).normal(size=4_000)
    weights = pareto_smooth(np.where(z > 0, 0.3 * z, -np.inf))
    assert np.isfinite(weights.khat)
    assert np.all(weights.normal[z < 0] == 0)
    np.testing.assert_allclose(weights.normal.sum(), 1.0)


def test_threshold_by_the_number_of_draws():
    # Vehtari et al. (2024), section 3.2.4: S > 10^(1 / (1 - k)).
    np.testing.assert_allclose([khat_threshold(100), khat_threshold(1_000)], [0.5, 2 / 3])
    assert khat_threshold(10**6) == 0.7


def test_log_evidence_and_its_standard_error():
    # E[exp(0.5 e)] of a standard normal is e^(1/8).
    estimates = [
        pareto_smooth(0.5 * np.random.default_rng(s).normal(size=2_000)).log_evidence
        for s in range(300)
    ]
    scores = np.array([(e.value - 0.125) / e.error for e in estimates])
    # A mean of 300 standard normals, and their sd.
    assert abs(scores.mean()) < 4 / np.sqrt(300)
    assert abs(scores.std() - 1.0) < 4 / np.sqrt(600)


# -- resampling ----------------------------------------------------------------------------------


def test_systematic_resampling_by_its_counts():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(200, 0.3))
    counts = np.bincount(resample(weights, 1_000, rng), minlength=200)
    assert counts.sum() == 1_000
    assert np.all(np.abs(counts - 1_000 * weights) < 1.0)


def test_systematic_resampling_is_unbiased():
    weights = np.array([0.05, 0.6, 0.02, 0.33])
    counts = np.zeros(4)
    for seed in range(4_000):
        counts += np.bincount(resample(weights, 3, np.random.default_rng(seed)), minlength=4)
    # A count changes by at most one, so its sd is below 1/2.
    np.testing.assert_allclose(counts / 4_000, 3 * weights, atol=5 * 0.5 / np.sqrt(4_000))


def test_resampled_draws_are_in_random_order():
    chosen = resample(np.full(1_000, 1e-3), 1_000, np.random.default_rng(0))
    assert sorted(chosen) == list(range(1_000))
    assert abs(stats.spearmanr(chosen, np.arange(1_000))[0]) < 0.15


def test_resampling_without_replacement():
    weights = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    first = np.zeros(5)
    for seed in range(4_000):
        rng = np.random.default_rng(seed)
        chosen = resample(weights, 4, rng, replace=False)
        assert sorted(chosen) == [0, 1, 2, 3]
        first[resample(weights, 1, rng, replace=False)] += 1
    # One draw without replacement is one draw with.
    np.testing.assert_allclose(first / 4_000, weights, atol=4 * 0.5 / np.sqrt(4_000))


# -- moments and comparisons ---------------------------------------------------------------------


def test_weighted_moments_of_numpy():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 3)) * [1.0, 1e3, 1e-3] + [0.0, 1e5, 1.0]
    weights = rng.dirichlet(np.ones(50))
    mean, covariance = weighted_moments(z, weights)
    np.testing.assert_allclose(mean, np.average(z, axis=0, weights=weights), rtol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(z.T, aweights=weights, ddof=0), rtol=1e-8)


def test_difference_of_samples_by_scipy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(0.3, 1.5, size=(170, 2))
    # Ties within and between.
    x[:, 1], y[:, 1] = np.round(x[:, 1]), np.round(y[:, 1])
    shift = weighted_difference(x, y)
    for j in range(2):
        ks = stats.ks_2samp(x[:, j], y[:, j], method="asymp").statistic
        np.testing.assert_allclose(shift.ks[j], ks, rtol=1e-12)
    np.testing.assert_allclose(shift.mean, abs(x.mean(0) - y.mean(0)) / y.std(0), rtol=1e-12)
    np.testing.assert_allclose(shift.log_sd, abs(np.log(x.std(0) / y.std(0))), rtol=1e-12)


def test_weight_of_two_is_two_draws():
    rng = np.random.default_rng(1)
    x, y, times = rng.normal(size=(40, 1)), rng.normal(size=(30, 1)), rng.integers(0, 4, 30)
    weighted = weighted_difference(x, y, y_weights=times / times.sum())
    repeated = weighted_difference(x, np.repeat(y, times, axis=0))
    # Rounding apart.
    np.testing.assert_allclose(np.concatenate(weighted), np.concatenate(repeated), rtol=1e-10)


def test_small_differences_of_large_numbers():
    x = np.random.default_rng(0).normal(size=(500, 1))
    shifted, plain = (
        weighted_difference(x * 1e-3 + 1e6, 2e-3 * x + 1e6),
        weighted_difference(x, 2 * x),
    )
    np.testing.assert_allclose(np.concatenate(shifted), np.concatenate(plain), atol=1e-5)


def test_difference_of_constants():
    same = weighted_difference(np.full((10, 1), 3.0), np.full((20, 1), 3.0))
    np.testing.assert_array_equal(np.concatenate(same), 0.0)
    other = weighted_difference(np.full((10, 1), 3.0), np.full((20, 1), 4.0))
    assert not np.any(np.concatenate(other) < 0.15)


def test_nan_is_no_agreement():
    x = np.random.default_rng(0).normal(size=(50, 1))
    broken = x.copy()
    broken[3] = np.nan
    for shift in (weighted_difference(broken, x), weighted_difference(x, broken)):
        assert not shift.mean[0] < 0.15
        assert not shift.log_sd[0] < 0.15


@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_ratios_of_any_size_have_weights(scale):
    # Where one draw has all the weight, the tail is as heavy as can be: never equal, and no error.
    log_ratios = -scale * (1.0 + np.arange(200.0))
    weights = pareto_smooth(log_ratios)
    assert not weights.khat < 0.7
    np.testing.assert_allclose(weights.ess, 1.0)


@pytest.mark.parametrize("equal", [8_000, 300])
def test_ratios_hidden_by_rounding_leave_khat_unknown(equal):
    """As from draws in the neck of a funnel, where the log density is -1e275."""
    log_ratios = -1e275 * np.repeat([1.0, 1.0 + 1e-12], [equal, 8_000 - equal])
    assert np.isnan(pareto_smooth(log_ratios).khat)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("k", [140.0, 1e5])
def test_khat_of_the_heaviest_tails(k):
    fits = [pareto_smooth(k * np.random.default_rng(s).exponential(size=4_000)) for s in range(10)]
    # The tail has 190 draws: the sd of Hill's estimate is k / sqrt(190).
    assert abs(np.mean([w.khat for w in fits]) - k) < 3 * k / np.sqrt(190 * 10)
    assert all(weights.normal.sum() == pytest.approx(1.0) for weights in fits)
