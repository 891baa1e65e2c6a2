"""Bridge sampling against closed forms, from exact posterior draws."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import betaln, logit
from scipy.stats import multivariate_normal

from bayeskern.inference.mcmc.bridge_sampling import bridge_log_evidence
from bayeskern.inference.model.target import Target
from tests.marks import slow

SEEDS = range(24)


def coin(heads):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    numpyro.sample("heads", dist.Bernoulli(p).expand(heads.shape), obs=heads)


def coin_case():
    heads = np.array([1, 0, 0, 1, 1, 1, 0, 1, 1, 1])
    a, b = 2.0 + heads.sum(), 3.0 + (1 - heads).sum()

    def draw(rng):
        return logit(rng.beta(a, b, size=(4, 500, 1)))

    return coin, (heads,), betaln(a, b) - betaln(2.0, 3.0), draw


def correlated(rng, mean, covariance, rho, shape=(4, 500)):
    """Stationary first-order autoregressions with exactly this normal distribution."""
    white = rng.normal(size=(*shape, len(mean)))
    x = np.empty_like(white)
    x[:, 0] = white[:, 0]
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * white[:, t]
    return mean + x @ np.linalg.cholesky(covariance).T


def line(X, y):
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(X @ w, 0.7), obs=y)


def line_case(rho, X=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) if X is None else X
    y = X @ np.arange(1.0, 1.0 + X.shape[1]) + 0.7 * rng.normal(size=len(X))
    covariance = np.linalg.inv(X.T @ X / 0.49 + np.eye(X.shape[1]) / 4.0)
    mean = covariance @ X.T @ y / 0.49
    marginal = multivariate_normal(np.zeros(len(X)), 4.0 * X @ X.T + 0.49 * np.eye(len(X)))

    def draw(rng):
        return correlated(rng, mean, covariance, rho)

    return line, (X, y), marginal.logpdf(y), draw


def normal_case():
    # One mean, one prior: the regression on a column of ones.
    return line_case(0.0, np.ones((12, 1)))


@pytest.mark.parametrize(
    "case",
    [slow(coin_case), slow(normal_case), slow(lambda: line_case(0.0)), lambda: line_case(0.9)],
    ids=["coin", "normal", "regression", "autocorrelated"],
)
def test_log_evidence_is_within_its_standard_error(case):
    model, data, truth, draw = case()
    target = Target.of(model, data, {})
    found = [bridge_log_evidence(target, draw(np.random.default_rng(s)), s) for s in SEEDS]
    scores = np.array([(e.value - truth) / e.error for e in found])
    assert np.all(np.abs(scores) < 4.0)
    # Of 24 independent standard scores the root mean square lies in here 99.8 times in 100.
    assert 0.55 < np.sqrt(np.mean(np.square(scores))) < 1.5
    assert all(0 < e.error < 0.1 for e in found)


def test_too_few_draws_give_no_evidence():
    model, data, _, draw = line_case(0.0)
    z = draw(np.random.default_rng(0))
    found = bridge_log_evidence(Target.of(model, data, {}), z[:1, :8], 0)
    assert np.isnan(found.value)
    assert np.isnan(found.error)


def test_nonfinite_density_gives_no_evidence():
    def broken():
        x = numpyro.sample("x", dist.Normal())
        numpyro.factor("f", jnp.nan * x)

    z = np.random.default_rng(0).normal(size=(4, 100, 1))
    assert np.isnan(bridge_log_evidence(Target.of(broken, (), {}), z, 0).value)


def test_stuck_chains_give_no_evidence():
    model, data, _, draw = coin_case()
    z = draw(np.random.default_rng(0))
    z[:, 250:] = z[0, 0]
    assert np.isnan(bridge_log_evidence(Target.of(model, data, {}), z, 0).value)


def test_proposal_without_overlap_gives_no_evidence():
    """Draws from the corners of a cube: the normal around all of them falls between."""

    def corners():
        z = numpyro.sample("z", dist.Normal(0.0, 1e3).expand([6]).to_event(1))
        numpyro.factor("f", jnp.sum(jnp.logaddexp(-((z - 1e3) ** 2), -((z + 1e3) ** 2))))

    rng = np.random.default_rng(0)
    z = 1e3 * rng.choice([-1.0, 1.0], (4, 400, 6)) + rng.normal(0.0, np.sqrt(0.5), (4, 400, 6))
    assert np.isnan(bridge_log_evidence(Target.of(corners, (), {}), z, 0).value)
