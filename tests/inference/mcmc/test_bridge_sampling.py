"""Bridge sampling against closed forms, from exact posterior draws."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import logit
from scipy.stats import norm

from bayeskern.inference.mcmc.bridge_sampling import _bridge, bridge_log_integral
from bayeskern.inference.model.target import Target
from tests.inference.closed_forms import (
    COIN,
    COIN_LOG_EVIDENCE,
    HEADS,
    Regression,
    coin,
    regression,
)
from tests.marks import slow

SEEDS = range(24)


def coin_case():
    def draw(rng):
        return logit(COIN.rvs((4, 500, 1), random_state=rng))

    return coin, (HEADS,), COIN_LOG_EVIDENCE, draw


def regression_case(rho):
    """Stationary first-order autoregressions with the posterior as their distribution."""
    case = Regression()

    def draw(rng):
        x = rng.normal(size=(4, 500, 3))
        for t in range(1, 500):
            x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
        return case.mean + x @ np.linalg.cholesky(case.covariance).T

    return regression, case.data, case.log_evidence, draw


@pytest.mark.parametrize(
    "case",
    [slow(coin_case), slow(lambda: regression_case(0.0)), lambda: regression_case(0.9)],
    ids=["coin", "regression", "autocorrelated"],
)
def test_log_evidence_is_within_its_standard_error(case):
    model, data, truth, draw = case()
    target = Target.from_model(model, data, {})
    found = [bridge_log_integral(target, draw(np.random.default_rng(s)), s) for s in SEEDS]
    scores = np.array([(e.value - truth) / e.error for e in found])
    assert np.all(np.abs(scores) < 4.0)
    # Of 24 independent standard scores the root mean square lies in here 99.8 times in 100.
    assert 0.55 < np.sqrt(np.mean(np.square(scores))) < 1.5
    assert all(0 < e.error < 0.1 for e in found)


def test_error_counts_effective_draws():
    """Posterior N(0, 1) by dependent draws, proposal N(0, 0.5^2) by 500 independent ones."""

    def score(seed):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(4, 500))
        for t in range(1, 500):
            x[:, t] = 0.95 * x[:, t - 1] + np.sqrt(1.0 - 0.95**2) * x[:, t]
        proposals = rng.normal(0.0, 0.5, 500)
        estimate = _bridge(*(norm.logpdf(z) - norm.logpdf(z, 0.0, 0.5) for z in (x, proposals)))
        return estimate.value / estimate.error

    scores = np.array([score(seed) for seed in range(60)])
    # The root mean square would be 1.9 with the number of all draws in the error. Of 60 standard
    # scores it lies in here 99.8 times in 100.
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.3


def test_too_few_draws_give_no_evidence():
    model, data, _, draw = regression_case(0.0)
    z = draw(np.random.default_rng(0))
    assert np.all(np.isnan(bridge_log_integral(Target.from_model(model, data, {}), z[:1, :6], 0)))


def test_nonfinite_density_gives_no_evidence():
    def broken():
        x = numpyro.sample("x", dist.Normal())
        numpyro.factor("f", jnp.nan * x)

    z = np.random.default_rng(0).normal(size=(4, 100, 1))
    assert np.isnan(bridge_log_integral(Target.from_model(broken, (), {}), z, 0).value)


def test_stuck_chains_give_no_evidence():
    model, data, _, draw = coin_case()
    z = draw(np.random.default_rng(0))
    z[:, 250:] = z[0, 0]
    assert np.isnan(bridge_log_integral(Target.from_model(model, data, {}), z, 0).value)


def test_proposal_without_overlap_gives_no_evidence():
    """Draws from the corners of a cube: the normal around all of them falls between."""

    def corners():
        z = numpyro.sample("z", dist.Normal(0.0, 1e3).expand([6]).to_event(1))
        numpyro.factor("f", jnp.sum(jnp.logaddexp(-((z - 1e3) ** 2), -((z + 1e3) ** 2))))

    rng = np.random.default_rng(0)
    z = 1e3 * rng.choice([-1.0, 1.0], (4, 400, 6)) + rng.normal(0.0, np.sqrt(0.5), (4, 400, 6))
    assert np.isnan(bridge_log_integral(Target.from_model(corners, (), {}), z, 0).value)
