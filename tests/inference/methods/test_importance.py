"""Importance sampling against posteriors and evidences in closed form."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy import stats

import bayeskern as bk
from bayeskern.inference import ImportanceSampling, Laplace
from bayeskern.inference.approximation.adaptive import tempered_weights
from bayeskern.inference.approximation.psis import pareto_smooth
from tests.inference.closed_forms import (
    COIN,
    COIN_LOG_EVIDENCE,
    HEADS,
    Regression,
    coin,
    regression,
)
from tests.marks import slow


def fit(model, *args, seed=0, **options):
    options = {"draws": 4_000} | options
    method = ImportanceSampling(**options)
    return bk.infer(model, *args, method=method, seed=seed, progress=False)


# -- posteriors in closed form -------------------------------------------------------------------

Y = np.array([0.3, -1.2, 2.0, 0.7])
CASE = Regression(n=20)


def normal(y):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    numpyro.sample("y", dist.Normal(mu, 0.5), obs=y)


def normal_truth():
    precision = 1 / 4 + 4 / 0.25
    evidence = stats.multivariate_normal(np.ones(4), 0.25 * np.eye(4) + 4.0).logpdf(Y)
    return evidence, [(1 / 4 + Y.sum() / 0.25) / precision], [precision**-0.5]


# Model, arguments, and the log evidence, mean and sd of its posterior.
CASES = [
    (coin, (HEADS,), (COIN_LOG_EVIDENCE, [COIN.mean()], [COIN.std()])),
    slow(normal, (Y,), normal_truth()),
    slow(regression, CASE.data, (CASE.log_evidence, CASE.mean, CASE.sd)),
]


@pytest.mark.parametrize(("model", "args", "truth"), CASES)
def test_moments_and_evidence_in_closed_form(model, args, truth):
    evidence, mean, sd = truth
    posterior = fit(model, *args)
    draws = next(iter(posterior.flat.values())).reshape(4_000, -1)
    # The effective size of the weights is above 2,000: 5 standard errors.
    assert posterior.trust.evidence["ess_of_weights"] > 2_000
    np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0.0, atol=5 / np.sqrt(2_000))
    np.testing.assert_allclose(draws.std(0) / sd, 1.0, atol=5 / np.sqrt(4_000))
    found = posterior.log_evidence
    assert abs(found.value - evidence) < 3 * found.error
    assert 0 < found.error < 0.05
    assert posterior.trust.verdict == "good"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "args", "truth"), CASES)
def test_error_of_the_evidence_is_calibrated(model, args, truth):
    evidence = truth[0]
    found = [fit(model, *args, seed=s, draws=1_000).log_evidence for s in range(20)]
    scores = np.array([(e.value - evidence) / e.error for e in found])
    assert np.all(np.abs(scores) < 4)
    # The mean of 20 standard normals, and the chi-square of their squares.
    assert abs(scores.mean()) < 4 / np.sqrt(20)
    assert 0.4 < np.sqrt(np.mean(scores**2)) < 1.8


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"proposal": "prior", "draws": 20_000},
        {"proposal": "laplace", "tails": None, "adapt": 0},
        slow({"proposal": "laplace", "adapt": 0}),
        {"proposal": dist.MultivariateNormal(jnp.zeros(1), 4.0 * jnp.eye(1))},
        slow({"proposal": dist.MultivariateNormal(jnp.zeros(1), 4.0 * jnp.eye(1)), "tails": None}),
    ],
)
def test_kinds_of_proposals(options):
    posterior = fit(coin, HEADS, **options)
    found, p = posterior.log_evidence, posterior.flat["p"]
    assert abs(found.value - COIN_LOG_EVIDENCE) < 4 * found.error
    np.testing.assert_allclose((p.mean() - COIN.mean()) / COIN.std(), 0.0, atol=0.15)
    np.testing.assert_allclose(p.std() / COIN.std(), 1.0, atol=0.15)
    assert posterior.trust.verdict == "good"


@pytest.mark.slow
def test_posterior_as_proposal():
    laplace = bk.infer(coin, HEADS, method=Laplace(draws=500), progress=False)
    value, error = fit(coin, HEADS, proposal=laplace).log_evidence
    assert abs(value - COIN_LOG_EVIDENCE) < 4 * error


# -- draws and weights ---------------------------------------------------------------------------


@pytest.mark.slow
def test_weighted_and_resampled_draws_agree():
    posterior = fit(coin, HEADS, draws=1_000)
    draws, log_weights = posterior.weighted
    assert draws["p"].shape == log_weights.shape == (1_000,)
    assert posterior.draws["p"].shape == (1, 1_000)
    np.testing.assert_allclose(np.exp(log_weights).sum(), 1.0)
    # Each resampled draw is one of the weighted ones, as often as its weight says.
    distinct, counts = np.unique(posterior.flat["p"], return_counts=True)
    due = dict(zip(draws["p"], 1_000 * np.exp(log_weights), strict=True))
    assert all(abs(count - due[value]) < 1.0 for value, count in zip(distinct, counts, strict=True))
    assert posterior.trust.evidence["distinct_draws"] == len(distinct)


@pytest.mark.slow
def test_draws_without_replacement_are_distinct():
    posterior = fit(coin, HEADS, replace=False)
    p = posterior.flat["p"]
    assert len(np.unique(p)) == len(p) == 1_000
    assert abs(p.mean() - COIN.mean()) < 0.15 * COIN.std()


@pytest.mark.slow
def test_adaptation_improves_a_poor_proposal():
    # The posterior of other data lies several posterior sds away.
    poor = bk.infer(regression, CASE.X, CASE.y + 0.5 * CASE.X[:, 0], method="laplace", seed=0)
    fixed, adapted = (fit(regression, *CASE.data, proposal=poor, adapt=n) for n in (0, 4))
    ess = [p.trust.evidence["ess_of_weights"] for p in (fixed, adapted)]
    assert ess[1] > 3 * ess[0]


@pytest.mark.slow
def test_distant_proposal_is_bad():
    far = dist.MultivariateNormal(jnp.full(1, 6.0), 0.01 * jnp.eye(1))
    trust = fit(coin, HEADS, proposal=far, tails=None, adapt=0).trust
    assert trust.verdict == "bad"
    assert not trust.evidence["khat"] < 0.7


@pytest.mark.slow
def test_few_draws_are_caution():
    posterior = fit(coin, HEADS, draws=200)
    assert posterior.trust.verdict == "caution"
    assert "Take more draws" in posterior.trust.advice


def test_improper_prior_has_no_evidence():
    def model(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(mu, 0.5), obs=y)

    posterior = fit(model, Y)
    assert posterior.log_evidence is None
    np.testing.assert_allclose(posterior.flat["mu"].mean(), Y.mean(), atol=0.05)
    with pytest.raises(ValueError, match="'mu' has an improper prior"):
        fit(model, Y, proposal="prior")


def test_tempered_weights_have_the_given_ess():
    weights = pareto_smooth(5.0 * np.random.default_rng(0).normal(size=1_000))
    assert weights.ess < 20
    flat = tempered_weights(weights, 50)
    np.testing.assert_allclose([flat.sum(), 1 / np.sum(flat**2)], [1.0, 50.0], rtol=1e-6)
    even = pareto_smooth(0.1 * np.random.default_rng(0).normal(size=1_000))
    np.testing.assert_allclose(tempered_weights(even, 50), even.normal, rtol=1e-10)


def test_invalid_proposals_are_refused():
    with pytest.raises(ValueError, match=r"event shape \(2,\), but there are 1.*: p"):
        fit(coin, HEADS, proposal=dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
    with pytest.raises(TypeError, match="proposal must be one of.*got int"):
        fit(coin, HEADS, proposal=3)
    other = bk.infer(regression, *CASE.data, method="laplace", progress=False)
    with pytest.raises(ValueError, match="draws of 3 coordinates; this model needs"):
        fit(coin, HEADS, proposal=other)
