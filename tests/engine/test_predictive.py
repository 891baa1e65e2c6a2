"""Joint distribution of new values against SciPy."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, norm

from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.predictive import JointPredictive
from bayeskern.engine.prior import NumpyPrior
from bayeskern.kernels import RBF, Linear

RNG = np.random.default_rng(5)
X, NEW = np.sort(RNG.uniform(0.0, 5.0, 30)), np.linspace(5.2, 7.0, 6)
Y, LATER = np.sin(X) + 0.2 * RNG.normal(size=30), np.array([-0.7, 0.3, 1.1])
ALL = np.append(X, NEW)
KERNEL = RBF(dist.LogNormal(), dist.LogNormal()) + Linear(dist.LogNormal(-2.0, 0.5))
Z = 0.3 * RNG.normal(size=(3, 4)) + [0.0, 0.0, -2.0, -2.0]
FACTORS = RNG.uniform(0.5, 3.0, 30)


class Tides:
    """An effect with a coefficient ~ N(0, 1)."""

    names = ("tides",)

    def covariance(self, x, x_new, name=None):
        return np.outer(np.cos(9.0 * x), np.cos(9.0 * x_new))


PLAIN = DenseLogMarginal(NumpyPrior(KERNEL, dist.LogNormal(-2.0, 0.5)), X, Y)
# Each series, the covariance beside the kernel and the factors of the noise.
SERIES = {
    "plain": (PLAIN, np.zeros((36, 36)), np.ones(30)),
    "factors": (PLAIN.with_noise_factors(FACTORS, 0.0), np.zeros((36, 36)), FACTORS),
    "effects": (
        DenseLogMarginal(PLAIN.prior, PLAIN.x, PLAIN.y, Tides()),
        Tides().covariance(ALL, ALL),
        np.ones(30),
    ),
}


def by_hand(z, beside, factors):
    """Covariance of all values at one draw: (36, 36)."""
    lengthscale, *variances, noise = np.exp(z)
    lags = np.subtract.outer(ALL, ALL)
    K = variances[0] * np.exp(-0.5 * np.square(lags / lengthscale))
    return (
        K
        + variances[1] * np.outer(ALL, ALL)
        + beside
        + noise * np.diag(np.append(factors, np.ones(6)))
    )


def conditioned(K, known, y, at):
    """Mean and covariance at indices `at`, given values y at indices `known`."""
    solved = np.linalg.solve(K[np.ix_(known, known)], K[np.ix_(known, at)])
    return solved.T @ y, K[np.ix_(at, at)] - K[np.ix_(at, known)] @ solved


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("came", [[0], [0, 1, 2], [1, 3, 4]], ids=str)
def test_joint_predictive_equals_conditional_normal(name, came):
    series, *rest = SERIES[name]
    first = series.predictive(Z, NEW)
    then = first.given(NEW[came], LATER[: len(came)])
    np.testing.assert_array_equal(then.x, NEW[came[-1] + 1 :])
    assert then.covers(NEW[5:]) and not then.covers(NEW[came])
    old, together = np.arange(30), np.append(np.arange(30), 30 + np.array(came))
    y = np.append(Y, LATER[: len(came)])
    for i, z in enumerate(Z):
        K = by_hand(z, *rest)
        prior = norm([0.0, 0.0, -2.0, -2.0], [1.0, 1.0, 0.5, 0.5]).logpdf(z).sum()
        for found, known in ((first, old), (then, together)):
            density = multivariate_normal(cov=K[np.ix_(known, known)]).logpdf(y[: len(known)])
            np.testing.assert_allclose(found.log_densities[i], density + prior, rtol=1e-9)
            at = np.arange(36 - len(found.x), 36)
            mean, covariance = conditioned(K, known, y[: len(known)], at)
            ours = found.covariances[i] + found.noise[i] * np.eye(len(at))
            np.testing.assert_allclose(found.means[i], mean, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(ours, covariance, rtol=1e-8, atol=1e-10)
            (means,), (variances,) = found.moments([i], NEW[5:])
            np.testing.assert_allclose(means, mean[-1:], rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(variances, np.diag(covariance)[-1:], rtol=1e-8)


def test_conditioning_leaves_original_unchanged():
    first = PLAIN.predictive(Z, NEW)
    means, covariances = first.means.copy(), first.covariances.copy()
    one, other = first.given(NEW[:1], [0.5]), first.given(NEW[:1], [-0.5])
    np.testing.assert_array_equal(first.means, means)
    np.testing.assert_array_equal(first.covariances, covariances)
    assert np.all(one.means[:, 0] > other.means[:, 0])


def test_times_match_up_to_rounding():
    found = PLAIN.predictive(Z, NEW)
    assert found.covers(NEW[[0, 5]] + 1e-12) and found.covers(NEW - 1e-12)
    assert not found.covers(NEW[:1] + 0.01) and not found.covers(np.array([9.0]))
    unknown = JointPredictive.unknown(np.zeros(3))
    assert not unknown.covers(NEW[:1]) and not PLAIN.predictive(Z, NEW[:0]).covers(NEW[:1])


def test_draws_without_factor_have_density_zero():
    without_factor = np.array([[9.0, 9.0, -30.0, -700.0]])
    found = PLAIN.predictive(np.append(Z, without_factor, axis=0), NEW)
    assert np.all(np.isfinite(found.log_densities[:3])) and found.log_densities[3] == -np.inf
    then = found.given(NEW[:2], LATER[:2])
    assert np.all(np.isfinite(then.log_densities[:3])) and then.log_densities[3] == -np.inf
    assert np.all(found.given(NEW[:2], [1e200, 0.0]).log_densities == -np.inf)
