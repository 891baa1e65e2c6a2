"""Auto: the cheapest method with a good verdict, and its attempts."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import betaln, softmax
from scipy.stats import gamma, multivariate_normal

import bayeskern as bk
from bayeskern.inference.methods import auto
from bayeskern.inference.model import cost
from models import coin, eight_schools, funnel

rng = np.random.default_rng(0)
Y = rng.normal(2.0, 1.5, size=400)


def nearly_gaussian(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def test_auto_is_the_default():
    posterior = bk.infer(nearly_gaussian, Y, progress=False)
    assert posterior.method == "laplace"
    assert posterior.trust.verdict == "good"
    assert [a.method for a in posterior.attempts] == ["laplace"]
    assert posterior.attempts[0].verdict == "good"
    assert posterior.attempts[0].seconds > 0
    mean, sd = Y.mean(), Y.std() / 20
    assert abs(posterior.draws["mu"].mean() - mean) < 0.2 * sd


def test_exact_is_tried_first():
    posterior = bk.infer(coin.model, *coin.data(), progress=False)
    assert posterior.method == "exact"
    expected = betaln(2 + 14, 2 + 6) - betaln(2, 2)
    np.testing.assert_allclose(posterior.log_evidence.value, expected)


@pytest.mark.slow
def test_missing_closed_form_is_an_attempt_with_its_reason():
    from bayeskern.kernels import RBF

    model = bk.GPRegression(RBF(1.0), noise=dist.LogNormal(-1.0, 0.3))
    X = np.linspace(0, 5, 30)
    posterior = bk.infer(model, X, np.sin(X) + 0.3 * rng.normal(size=30), progress=False)
    first, *others = posterior.attempts
    assert first.method == "exact"
    assert first.verdict == "not assessable"
    assert "noise are to be inferred" in first.reason
    assert others[-1].verdict == "good"
    assert posterior.trust.verdict == "good"


@pytest.mark.slow
def test_poor_laplace_is_corrected_and_reasons_are_kept():
    posterior = bk.infer(eight_schools.noncentred, *eight_schools.data(), progress=False)
    methods = [a.method for a in posterior.attempts]
    assert methods[:2] == ["laplace", "importance from laplace"]
    assert posterior.attempts[0].verdict != "good"
    assert all(a.reason for a in posterior.attempts)
    assert posterior.method == methods[-1]
    assert posterior.trust.verdict == "good"
    # The posterior sd of tau from 10,000 reference draws of posteriordb is 3.2, its mean 3.6.
    tau = posterior.draws["tau"]
    assert abs(tau.mean() - 3.6) < 0.4
    assert abs(tau.std() - 3.2) < 0.5


def groups(y):
    m, tau = numpyro.sample("m", dist.Normal(0, 3)), numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("group", len(y)):
        e = numpyro.sample("e", dist.Normal(0, 1))
        numpyro.sample("y", dist.Poisson(jnp.exp(m + tau * e)), obs=y)


COUNTS = np.random.default_rng(0).poisson(5.0, size=20)


@pytest.mark.slow
def test_hopeless_draws_are_not_corrected():
    # In a ridge of 22 coordinates the weights of Laplace's draws have no mean.
    posterior = bk.infer(groups, COUNTS, progress=False)
    assert [a.method for a in posterior.attempts] == ["laplace", "nuts"]
    assert posterior.attempts[0].verdict == "bad"
    assert posterior.trust.verdict == "good"


@pytest.mark.slow
def test_chains_with_too_few_draws_go_on(monkeypatch):
    monkeypatch.setattr(auto, "NUTS", partial(bk.NUTS, draws=250))
    posterior = bk.infer(groups, COUNTS, progress=False)
    methods, verdicts = zip(*((a.method, a.verdict) for a in posterior.attempts), strict=True)
    assert methods == ("laplace", "nuts", "nuts, more draws")
    assert verdicts == ("bad", "caution", "good")
    assert (posterior.method, posterior.trust.verdict) == ("nuts", "good")
    assert posterior.shape in ((4, 500), (4, 750), (4, 1000))


def rate(y):
    numpyro.sample("y", dist.Poisson(numpyro.sample("rate", dist.Exponential(1.0))), obs=y)


def test_good_draws_of_laplace_are_corrected():
    """rate | y ~ Gamma(y + 1, 2), whose mean Laplace misses by 0.17 sd."""
    posterior = bk.infer(rate, 8, progress=False)
    assert [a.method for a in posterior.attempts] == ["laplace", "importance from laplace"]
    assert [a.verdict for a in posterior.attempts] == ["good", "good"]
    exact = gamma(9.0, scale=0.5)
    assert abs(posterior.draws["rate"].mean() - exact.mean()) < 0.05 * exact.std()


def test_good_draws_of_laplace_are_kept_where_their_correction_is_uncertain(monkeypatch):
    # Too few draws for a good verdict.
    monkeypatch.setattr(auto, "CORRECTION_DRAWS", 300)
    posterior = bk.infer(rate, 8, progress=False)
    assert [a.verdict for a in posterior.attempts] == ["good", "caution"]
    assert (posterior.method, posterior.trust.verdict) == ("laplace", "good")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "tried"), [(4000, 1), (300, 2)])
def test_correction_of_a_costly_density_starts_with_few_draws(monkeypatch, first, tried):
    """rate | y ~ Gamma(y + 1, 2), which is too skewed for a Gaussian."""
    monkeypatch.setattr(cost, "MAX_CHEAP_NUMBERS", 0)
    monkeypatch.setattr(auto, "FIRST_CORRECTION_DRAWS", first)
    posterior = bk.infer(rate, 1, progress=False)
    methods = [a.method for a in posterior.attempts]
    assert methods == ["laplace"] + tried * ["importance from laplace"]
    assert [a.verdict for a in posterior.attempts[1:]] == (tried - 1) * ["caution"] + ["good"]
    draws = posterior.flat["rate"]
    assert len(draws) == (first if tried == 1 else auto.CORRECTION_DRAWS)
    exact = gamma(2.0, scale=0.5)
    assert abs(draws.mean() - exact.mean()) < 0.1 * exact.std()
    assert abs(draws.std() / exact.std() - 1.0) < 0.1
    # p(y = 1) = 1/4.
    evidence = posterior.log_evidence
    assert abs(evidence.value - np.log(0.25)) < 5.0 * evidence.error


@pytest.mark.slow
def test_nuts_is_returned_where_no_verdict_is_good():
    posterior = bk.infer(funnel.model, *funnel.data(), progress=False)
    assert posterior.attempts[-1].method == "nuts"
    assert posterior.method == "nuts"
    assert all(a.verdict != "good" for a in posterior.attempts)
    assert posterior.trust.verdict == posterior.attempts[-1].verdict


@pytest.mark.slow
def test_laplace_is_skipped_for_a_density_with_kinks():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Laplace(mu, 1.0), obs=y)

    y = np.random.default_rng(1).laplace(2.0, 1.0, size=30)
    posterior = bk.infer(model, y, progress=False)
    first, *others = posterior.attempts
    assert (first.method, first.verdict) == ("laplace", "not assessable")
    assert "site 'y' has kinks" in first.reason
    assert others[-1].method == posterior.method
    assert posterior.trust.verdict == "good"
    # The posterior by quadrature.
    grid = np.linspace(-1.0, 5.0, 20_001)
    log_p = -np.abs(y[:, None] - grid).sum(axis=0) - grid**2 / 50.0
    p = np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    assert abs(posterior.draws["mu"].mean() - mean) < 0.15 * sd
    np.testing.assert_allclose(posterior.draws["mu"].std(), sd, rtol=0.1)


@pytest.mark.slow
def test_change_point_by_smc():
    # Enumerated: given the change, the other latents are normal (with the noise, 1, known).
    rng, n, k = np.random.default_rng(2), 300, 20
    X, rows = rng.normal(size=(n, k)), np.arange(n)
    y = rng.normal(np.where(rows < 100, 0.0, 0.6) + X @ rng.normal(size=k), 1.0)

    def model():
        change = numpyro.sample("change", dist.Uniform(0.0, n))
        level = numpyro.sample("level", dist.Normal(0.0, 10.0).expand([2]).to_event(1))
        b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([k]).to_event(1))
        mean = jnp.where(rows < change, level[0], level[1]) + X @ b
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    log_p = np.empty(n)
    for i in range(n):
        Z = np.column_stack([rows <= i, rows > i, X]) * np.array([10.0, 10.0, *np.ones(k)])
        log_p[i] = multivariate_normal.logpdf(y, cov=np.eye(n) + Z @ Z.T)
    p = softmax(log_p)
    mean = p @ (rows + 0.5)
    sd = np.sqrt(p @ (rows + 0.5 - mean) ** 2 + 1.0 / 12.0)
    posterior = bk.infer(model, seed=0, progress=False)
    assert posterior.method == "smc" and "nuts" not in [a.method for a in posterior.attempts]
    assert "jumps" in posterior.attempts[0].reason
    draws = posterior.flat["change"]
    assert abs(draws.mean() - mean) < 0.25 * sd and abs(np.log(draws.std() / sd)) < 0.25
