"""The verdict on chains of known quality."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from bayeskern.inference.assessment.mcmc import assess_mcmc
from bayeskern.inference.result import Explored


def chains_of(x, **changes):
    """A posterior made of numbers: x (4, n), beside a constant; energies are independent."""
    n = x.shape
    stats = {
        "diverging": np.zeros(n, bool),
        "energy": np.random.default_rng(1).normal(size=n),
        "reached_max_treedepth": np.zeros(n, bool),
    } | changes
    flat = {"x": x.ravel(), "c": np.ones(x.size)}
    target = SimpleNamespace(coordinates=["x"], deterministics=())
    return SimpleNamespace(
        z=x[..., None], flat=flat, sample_stats=stats, fitted_target=target, target=target
    )


INDEPENDENT = np.random.default_rng(0).normal(size=(4, 1000))


def some(count):
    return (np.arange(4000) < count).reshape(4, 1000)


def walk(rho, n=1000):
    """Autoregressions that start from their stationary distribution."""
    x = np.random.default_rng(2).normal(size=(4, n))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


def replaced(at, value):
    x = INDEPENDENT.copy()
    x[at] = value
    return x


SHIFTED = INDEPENDENT + np.array([0.0, 0.0, 0.0, 1.0])[:, None]


@pytest.mark.parametrize(
    ("posterior", "verdict", "advice"),
    [
        (chains_of(INDEPENDENT), "good", "chains agree"),
        (chains_of(1e-9 * INDEPENDENT), "good", "chains agree"),
        (chains_of(INDEPENDENT, diverging=some(5)), "caution", "5 of 4000.*raise target_accept"),
        (chains_of(INDEPENDENT, diverging=some(40)), "bad", "40 of 4000.*non-centred"),
        # Far out there is too little for it to matter; nearer in, what is hidden may count.
        (chains_of(INDEPENDENT, diverging=INDEPENDENT > 2.5), "good", "draws could change.*0.0"),
        (chains_of(INDEPENDENT, diverging=INDEPENDENT > 2.0), "bad", "mean of x by 0.0"),
        (chains_of(walk(0.9), diverging=walk(0.9) > 2.5), "caution", "more (warmup and )?draws"),
        (chains_of(INDEPENDENT, reached_max_treedepth=some(100)), "good", "chains agree"),
        (chains_of(INDEPENDENT, reached_max_treedepth=some(400)), "caution", "400.*largest tree"),
        (chains_of(INDEPENDENT, energy=walk(0.95)), "caution", "E-BFMI"),
        (chains_of(INDEPENDENT, energy=np.full((4, 1000), np.nan)), "caution", "E-BFMI nan"),
        (chains_of(walk(0.9)), "caution", "take more (warmup and )?draws"),
        (chains_of(walk(0.99)), "bad", "x"),
        (chains_of(SHIFTED), "bad", "do not agree, most at x"),
        (chains_of(10.0 * SHIFTED - 9.0 * INDEPENDENT), "bad", "different regions, most at x"),
        (chains_of(replaced((1, 5), np.nan)), "bad", "x has 1 draw that is not finite"),
        (chains_of(replaced((1, 5), np.inf)), "bad", "x has 1 draw that is not finite"),
        (chains_of(replaced(2, 0.3)), "bad", "Chain 2 did not move"),
        (chains_of(np.full((4, 1000), 0.3)), "bad", "Chain 0 did not move"),
    ],
)
def test_verdicts(posterior, verdict, advice):
    trust = assess_mcmc(posterior, Explored())
    assert trust.verdict == verdict, trust
    assert re.search(advice, trust.advice), trust
    if not np.all(posterior.z == 0.3):
        assert trust.evidence["constants_left_out"] == 1


def test_advice_leaves_out_what_was_done():
    """Smaller steps and the non-centred form are not advised where NUTS has taken them."""
    done = Explored(evidence={"target_accept": 0.99, "centredness": "theta 0.1 to 0.4"})
    diverging = assess_mcmc(chains_of(INDEPENDENT, diverging=some(5)), done)
    slow = assess_mcmc(chains_of(INDEPENDENT, energy=walk(0.95)), done)
    for trust in (diverging, slow):
        assert "tighter priors" in trust.advice
        assert not re.search("target_accept|non-centred", trust.advice)


def with_deterministic(f):
    """Chains that sit in different regions, beside a deterministic site f (4, n)."""
    posterior = chains_of(10.0 * SHIFTED - 9.0 * INDEPENDENT)
    posterior.flat["f"], posterior.target.deterministics = f.ravel(), ("f",)
    return posterior


def test_agreement_on_deterministics_is_reported():
    independent = np.random.default_rng(3).normal(size=(4, 1000))
    trust = assess_mcmc(with_deterministic(independent), Explored())
    assert trust.verdict == "bad" and trust.evidence["rhat_computed"] < 1.01
    assert re.search(r"in different regions.*The chains do agree on f \(R-hat 1", trust.advice)


@pytest.mark.parametrize("f", [SHIFTED, walk(0.95), np.full((4, 1000), np.nan)])
def test_disagreement_on_deterministics_is_not_reported_as_agreement(f):
    trust = assess_mcmc(with_deterministic(f), Explored())
    assert trust.verdict == "bad" and "do agree" not in trust.advice
