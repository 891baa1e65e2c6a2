"""Moment matching against closed forms of normal distributions."""

import numpy as np
from scipy.stats import multivariate_normal, norm

from bayeskern.inference.approximation.moment_matching import (
    Affine,
    Proposal,
    match_moments,
)
from bayeskern.inference.approximation.psis import pareto_smooth

MEAN = np.array([3.0, -2.0])
COVARIANCE = np.array([[0.5, 0.3], [0.3, 0.4]])
TARGET = multivariate_normal(MEAN, COVARIANCE)
STANDARD = multivariate_normal(np.zeros(2), np.eye(2))


def standard(count, seed=0):
    z = np.random.default_rng(seed).normal(size=(count, 2))
    return Proposal(z, STANDARD.logpdf(z), STANDARD.logpdf)


def moments(matched):
    w = matched.weights.normal
    mean = w @ matched.z
    return mean, (matched.z - mean).T @ ((matched.z - mean) * w[:, None])


def test_moments_of_a_normal_target():
    proposal = standard(4000)
    plain = pareto_smooth(TARGET.logpdf(proposal.z) - proposal.log_density)
    matched = match_moments(proposal, TARGET.logpdf)
    mean, covariance = moments(matched)
    # The plain weights fail: their mean is some sds away.
    assert plain.khat > 0.7
    assert np.abs(plain.normal @ proposal.z - MEAN).max() > 0.1
    assert matched.steps and matched.khat < 0.5
    # 2,000 draws have an error of 0.016 in means, and 0.03 in variances.
    np.testing.assert_allclose(mean, MEAN, atol=0.06)
    np.testing.assert_allclose(covariance, COVARIANCE, atol=0.08)


def test_weights_of_the_mixture_have_no_bias():
    """Over many sets of draws, the error of the mean is its standard error."""
    errors = []
    for seed in range(60):
        matched = match_moments(standard(500, seed), TARGET.logpdf)
        w = matched.weights.normal
        error = np.sqrt(np.square(w) @ np.square(matched.z - MEAN))
        errors.append((w @ matched.z - MEAN) / error)
    # The mean of 60 standard normal numbers has an sd of 0.13.
    assert np.abs(np.mean(errors, axis=0)).max() < 0.5
    np.testing.assert_allclose(np.std(errors, axis=0), 1.0, atol=0.35)


def test_draws_with_a_low_khat_stay():
    proposal = standard(1000)
    near = multivariate_normal([0.1, 0.0], np.eye(2))
    matched = match_moments(proposal, near.logpdf)
    expected = pareto_smooth(near.logpdf(proposal.z) - proposal.log_density)
    assert matched.steps == 0 and matched.khat == expected.khat
    np.testing.assert_array_equal(matched.z, proposal.z)
    np.testing.assert_array_equal(matched.weights.log, expected.log)


def test_target_beyond_all_draws_is_not_called_reliable(monkeypatch):
    """k-hat may be low where all draws lie on one side of the target: the moments tell."""
    monkeypatch.setattr("bayeskern.inference.approximation.moment_matching.MAX_MATCHING_STEPS", 3)
    far = multivariate_normal([40.0, 0.0], np.diag([0.01, 1.0]))
    for seed in range(5):
        matched = match_moments(standard(200, seed), far.logpdf)
        mean = moments(matched)[0]
        assert abs(mean[0] - 40.0) < 0.1 or not matched.has_low_khat


def test_unknown_density_rejects_a_step():
    def log_target(z):
        return np.where(z[:, 0] > 4.0, np.nan, TARGET.logpdf(z))

    proposal = standard(1000)
    matched = match_moments(proposal, log_target)
    assert np.isfinite(log_target(matched.z)).all()


def test_constant_coordinate_stays():
    proposal = standard(1000)
    z = proposal.z * [1.0, 0.0] + [0.0, 7.0]

    def log_normal(mean, z):
        return norm(mean, 0.5).logpdf(z[:, 0])

    matched = match_moments(
        Proposal(z, norm.logpdf(z[:, 0]), lambda z: norm.logpdf(z[:, 0])),
        lambda z: log_normal(4.0, z),
    )
    np.testing.assert_allclose(matched.z[:, 1], 7.0, rtol=1e-12)
    np.testing.assert_allclose(matched.weights.normal @ matched.z[:, 0], 4.0, atol=0.1)


def test_affine_maps():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5, 3))
    scale = Affine(np.array([2.0, 0.5, 3.0]), rng.normal(size=3))
    root = np.tril(rng.normal(size=(3, 3)))
    root[np.diag_indices(3)] = [1.0, 2.0, 0.7]
    general = Affine(root, rng.normal(size=3))
    for first in (scale, general):
        for second in (scale, general):
            both = second.after(first)
            np.testing.assert_allclose(both(z), second(first(z)), rtol=1e-12)
            np.testing.assert_allclose(both.inverse(both(z)), z, rtol=1e-9)
            full = both.matrix if both.matrix.ndim == 2 else np.diag(both.matrix)
            np.testing.assert_allclose(both.log_det, np.log(np.linalg.det(full)), rtol=1e-12)
