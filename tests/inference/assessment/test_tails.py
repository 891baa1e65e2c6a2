"""Moments that draws cannot estimate, named by Pareto k-hat."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayeskern as bk
from bayeskern.inference.assessment.density_tail import Tail
from bayeskern.inference.assessment.tails import heavy_tail_advice

COUNT = 4000
LIGHT = {
    "normal": scipy.stats.norm(),
    "exponential": scipy.stats.expon(),
    "lognormal, 0.5": scipy.stats.lognorm(0.5),
    # 4,000 draws tell its sd within 10 %.
    "lognormal, 1": scipy.stats.lognorm(1.0),
    "student t, 6": scipy.stats.t(6.0),
}
# Distributions without a variance, or whose sd 4,000 draws miss by half of itself.
HEAVY = {
    "cauchy": scipy.stats.cauchy(),
    "student t, 1.5": scipy.stats.t(1.5),
    "student t, 1.7": scipy.stats.t(1.7),
    "inverse gamma, 1.5": scipy.stats.invgamma(1.5),
}


def advice_on(distribution, seed, scale=1.0):
    evidence = {}
    columns = [scipy.stats.norm(), distribution]
    draws = [
        d.rvs(COUNT, random_state=np.random.default_rng([seed, i])) for i, d in enumerate(columns)
    ]
    advice = heavy_tail_advice(["z", "x"], scale * np.column_stack(draws), evidence)
    return advice, evidence


@pytest.mark.parametrize("name", LIGHT)
def test_light_tails_give_no_advice(name):
    for seed in range(5):
        assert advice_on(LIGHT[name], seed)[0] is None


@pytest.mark.parametrize("name", HEAVY)
def test_number_with_a_heavy_tail_is_named(name):
    for seed in range(5):
        advice, evidence = advice_on(HEAVY[name], seed)
        assert advice.startswith("x has so heavy a tail") and evidence["sd_khat_at"] == "x"
        assert evidence["sd_khat"] > 0.7


def khat_between(low, high):
    """Draws of a Student t with such a k-hat of the sd."""
    for seed in range(100):
        x = scipy.stats.t(3.0).rvs(COUNT, random_state=np.random.default_rng(seed))
        evidence = {}
        heavy_tail_advice(["x"], x[:, None], evidence)
        if low < evidence.get("sd_khat", 0.0) < high:
            return x[:, None]
    raise AssertionError("no such draws")


def test_density_tail_overrules_a_moderate_khat():
    x = khat_between(0.86, 0.98)
    unknown = Tail(np.nan, np.nan)
    assert "k-hat of its sd" in heavy_tail_advice(["x"], x, {}, density=lambda name, share: unknown)
    known = Tail(5.0, np.std(x))
    assert heavy_tail_advice(["x"], x, {}, density=lambda name, share: known) is None


@pytest.mark.parametrize(
    ("index", "factor", "says", "log_ratio"),
    [
        (3.0, 1.5, "its sd is 1.5 times", np.log(1.5)),
        (2.3, 1.0, "draws do not determine its sd", np.inf),
        (1.8, np.inf, "it has no sd", np.inf),
        (-0.5, np.inf, "it has no sd", np.inf),
    ],
)
def test_sd_that_the_density_refutes_is_named(index, factor, says, log_ratio):
    x, evidence = khat_between(0.6, 0.8), {}
    tail = Tail(index, factor * np.std(x))
    assert says in heavy_tail_advice(["x"], x, evidence, density=lambda name, share: tail)
    np.testing.assert_allclose(evidence["tail_log_sd_ratio"], log_ratio)


def test_khat_above_one_is_doubted_despite_the_density():
    x = scipy.stats.t(1.7).rvs(COUNT, random_state=np.random.default_rng(0))[:, None]
    light = Tail(10.0, np.std(x))
    assert "k-hat of its sd" in heavy_tail_advice(["x"], x, {}, density=lambda name, share: light)


def test_mean_that_does_not_exist_is_named():
    assert "mean and sd" in advice_on(HEAVY["cauchy"], 0)[0]
    assert "mean and sd" not in advice_on(HEAVY["inverse gamma, 1.5"], 0)[0]


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_neither_overflow_nor_underflow(scale):
    assert advice_on(HEAVY["student t, 1.5"], 0, scale)[0]
    assert advice_on(LIGHT["student t, 6"], 0, scale)[0] is None


def test_indicator_of_a_rare_event_has_no_tail():
    rare = (np.arange(COUNT) % 500 == 0).astype(float)
    assert heavy_tail_advice(["rare"], rare[:, None], {}) is None


@pytest.mark.slow
def test_tail_that_no_proposal_reaches_is_bad():
    """Standardised effects lie in a ridge of width 1 / tau if tau is large."""
    y = np.array([4.0, -2.0, 9.0])

    def model():
        m, tau = numpyro.sample("m", dist.Normal(0, 10)), numpyro.sample("tau", dist.HalfCauchy(1))
        with numpyro.plate("study", 3):
            e = numpyro.sample("e", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(m + tau * e, 1.0), obs=jnp.asarray(y))

    posterior = bk.infer(model, method="importance", seed=0, progress=False)
    # Quadrature over log tau: y is normal with variance 1 + tau^2 and a common variance of 100.
    u = np.linspace(-8.0, 12.0, 20_001)
    tau, v = np.exp(u), 1.0 + np.exp(2.0 * u)
    log_p = u + scipy.stats.halfcauchy.logpdf(tau) - np.log(v) - np.var(y) * 1.5 / v
    log_p -= 0.5 * np.log(v + 300.0) + 1.5 * np.mean(y) ** 2 / (v + 300.0)
    p = np.exp(log_p - np.max(log_p))
    p /= p.sum()
    sd = np.sqrt(p @ tau**2 - (p @ tau) ** 2)
    draws_sd = posterior.draws["tau"].std()
    assert draws_sd < 0.8 * sd
    assert posterior.trust.verdict == "bad" and "tail of tau" in posterior.trust.advice
    ratio = posterior.trust.evidence["tail_log_sd_ratio"]
    np.testing.assert_allclose(ratio, np.log(sd / draws_sd), atol=0.1)
