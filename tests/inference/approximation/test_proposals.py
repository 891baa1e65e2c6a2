"""Proposals against SciPy's densities, and their draws against their moments."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from bayeskern.inference import Target
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.proposals import (
    DefensiveMixture,
    DistributionProposal,
    PriorProposal,
)
from bayeskern.inference.search.factors import robust_cholesky, triangular_root
from tests.marks import few

COVARIANCE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])
POINTS = np.random.default_rng(0).normal(size=(7, 3)) * 3.0


def two_parts(tails=None):
    trils = np.linalg.cholesky(np.stack([COVARIANCE, 0.25 * np.eye(3)]))
    means = np.stack([MEAN, MEAN + 6.0])
    # log weights need not be normalised.
    return Elliptical(means, trils, 5.0 + np.log([0.7, 0.3]), tails)


def peers(tails):
    def part(mean, covariance):
        if tails is None:
            return stats.multivariate_normal(mean, covariance)
        return stats.multivariate_t(mean, covariance, df=tails)

    return part(MEAN, COVARIANCE), part(MEAN + 6.0, 0.25 * np.eye(3))


@pytest.mark.parametrize("tails", [None, 5.0])
def test_densities_of_normal_and_student_t_mixtures(tails):
    first, second = peers(tails)
    single = Elliptical.at_mean(MEAN, np.linalg.cholesky(COVARIANCE), tails)
    np.testing.assert_allclose(single.log_density(POINTS), first.logpdf(POINTS), rtol=1e-10)
    both = np.stack([np.log(0.7) + first.logpdf(POINTS), np.log(0.3) + second.logpdf(POINTS)])
    np.testing.assert_allclose(
        two_parts(tails).log_density(POINTS), logsumexp(both, axis=0), rtol=1e-10
    )


@pytest.mark.parametrize("tails", few([None, 8.0], 8.0))
def test_moments_and_densities_of_draws(tails):
    q = two_parts(tails)
    z, log_q = q.draw(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(log_q, q.log_density(z), rtol=1e-10)
    is_of_first = np.linalg.norm(z - MEAN, axis=1) < np.linalg.norm(z - MEAN - 6.0, axis=1)
    # 5 standard errors, and the few draws that are nearer to the other part.
    assert abs(is_of_first.mean() - 0.7) < 0.015
    mean = 0.7 * MEAN + 0.3 * (MEAN + 6.0)
    inflated = 1.0 if tails is None else tails / (tails - 2.0)
    within = inflated * (0.7 * COVARIANCE + 0.3 * 0.25 * np.eye(3))
    covariance = within + 0.21 * 36.0 * np.ones((3, 3))
    np.testing.assert_allclose(np.mean(z, axis=0), mean, atol=5 * 3.0 / 200)
    np.testing.assert_allclose(np.cov(z.T), covariance, atol=0.35)


def test_radius_of_a_student_t():
    q = Elliptical.at_mean(MEAN, np.linalg.cholesky(COVARIANCE), 4.0)
    z, _ = q.draw(np.random.default_rng(1), 20_000)
    white = np.linalg.solve(np.linalg.cholesky(COVARIANCE), np.asarray(z - MEAN).T)
    # |white|^2 / d is F with d and 4 degrees of freedom.
    assert stats.kstest(np.sum(white**2, axis=0) / 3, stats.f(3, 4).cdf).pvalue > 1e-4


def test_refitting_to_a_mixture_of_two():
    rng = np.random.default_rng(0)
    z = np.concatenate(
        [rng.multivariate_normal(MEAN, COVARIANCE, 6_000), rng.normal(6.0, 0.5, (4_000, 3))]
    )
    q = Elliptical(
        np.array([[0.0, 0.0, 0.0], [5.0, 5.0, 5.0]]), np.stack([np.eye(3)] * 2), np.zeros(2)
    )
    for _ in range(5):
        q = q.refit(z, np.full(10_000, 1e-4))
    np.testing.assert_allclose(softmax(q.log_weights), [0.6, 0.4], atol=0.01)
    np.testing.assert_allclose(q.means, [MEAN, np.full(3, 6.0)], atol=0.1)
    np.testing.assert_allclose(q.trils[0] @ q.trils[0].T, COVARIANCE, atol=0.12)
    np.testing.assert_allclose(q.trils[1] @ q.trils[1].T, 0.25 * np.eye(3), atol=0.03)


def test_refitting_to_weighted_draws():
    # Draws from N(0, 4) weighted to N(1, 1).
    z = 2.0 * np.random.default_rng(0).normal(size=(20_000, 1))
    w = stats.norm.pdf(z[:, 0], 1.0) / stats.norm.pdf(z[:, 0], 0.0, 2.0)
    q = Elliptical.at_mean(np.zeros(1), np.eye(1)).refit(z, w / w.sum())
    np.testing.assert_allclose(q.means[0, 0], 1.0, atol=0.05)
    np.testing.assert_allclose(q.trils[0, 0, 0], 1.0, atol=0.05)


def test_parts_without_draws_are_not_refitted():
    q = Elliptical(np.array([[0.0], [500.0]]), np.ones((2, 1, 1)), np.zeros(2))
    z = np.random.default_rng(0).normal(size=(1_000, 1))
    again = q.refit(z, np.full(1_000, 1e-3))
    assert again.means[1, 0] == 500.0
    assert 0 < softmax(again.log_weights)[1] < 0.05


# -- Cholesky factors ----------------------------------------------------------------------------


def test_cholesky_factors_over_twelve_orders_of_magnitude():
    rng = np.random.default_rng(0)
    size = 10.0 ** np.array([-6.0, 6.0, 0.0, -3.0, 3.0])
    A = rng.normal(size=(5, 5))
    correlation = A @ A.T + np.eye(5)
    covariance = correlation * np.outer(size, size)
    for L in (
        robust_cholesky(covariance),
        triangular_root(size[:, None] * np.linalg.cholesky(correlation)),
    ):
        assert np.all(np.triu(L, 1) == 0) and np.all(np.diag(L) > 0)
        # Each entry on its own scale.
        np.testing.assert_allclose(L @ L.T / np.outer(size, size), correlation, atol=1e-9)


def test_triangular_root_of_any_root():
    root = np.random.default_rng(1).normal(size=(4, 4)) * [1e6, 1e-6, 1.0, 1e3]
    L = triangular_root(root)
    np.testing.assert_allclose(L @ L.T, root @ root.T, rtol=1e-8, atol=1e-3)
    np.testing.assert_array_equal(np.triu(L, 1), 0.0)


def test_cholesky_factor_of_a_singular_covariance():
    x = np.random.default_rng(0).normal(size=(100, 1))
    covariance = np.cov(np.hstack([x, 1e5 * x]).T)
    L = robust_cholesky(covariance)
    assert np.all(np.isfinite(L)) and np.all(np.diag(L) > 0)
    np.testing.assert_allclose(L @ L.T, covariance, rtol=1e-6)


# -- other proposals -----------------------------------------------------------------------------


@pytest.mark.slow
def test_numpyro_distribution_and_its_defensive_mixture():
    peer = stats.multivariate_normal(MEAN, COVARIANCE)
    q = DistributionProposal(dist.MultivariateNormal(MEAN, COVARIANCE))
    z, log_q = q.draw(np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(log_q, peer.logpdf(z), rtol=1e-9)
    wide = DefensiveMixture(q, Elliptical.around(z, 5.0))
    # The guard is a Student t whose scale matrix is the covariance of the draws.
    guard = stats.multivariate_t(np.mean(z, axis=0), np.cov(np.asarray(z).T, ddof=0), df=5.0)
    both = np.log((1 - wide.share) * peer.pdf(POINTS) + wide.share * guard.pdf(POINTS))
    np.testing.assert_allclose(wide.log_density(POINTS), both, rtol=1e-8)
    drawn, log_wide = wide.draw(np.random.default_rng(1), 1_000)
    np.testing.assert_allclose(log_wide, wide.log_density(drawn), rtol=1e-10)


def model(y):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    s = numpyro.sample("s", dist.Gamma(3.0, 2.0))
    numpyro.sample("y", dist.Normal(mu, s), obs=y)


def test_prior_as_a_proposal():
    target = Target.from_model(model, (np.array([0.3, 2.0]),), {})
    z, log_q = PriorProposal(target).draw(np.random.default_rng(0), 4_000)
    s = np.exp(z[:, 1])
    density = stats.norm(1.0, 2.0).logpdf(z[:, 0]) + stats.gamma(3.0, scale=0.5).logpdf(s) + z[:, 1]
    np.testing.assert_allclose(log_q, density, rtol=1e-10)
    assert stats.kstest(z[:, 0], stats.norm(1.0, 2.0).cdf).pvalue > 1e-4
    assert stats.kstest(s, stats.gamma(3.0, scale=0.5).cdf).pvalue > 1e-4
