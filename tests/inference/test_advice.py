"""Advice of verdicts: what it says helps on the case that it is printed for."""

import re
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import plate, sample

import bayeskern as bk
from models import coin, eight_schools

pytestmark = pytest.mark.slow


def correlated():
    """Two latents with a correlation of 0.99."""
    covariance = jnp.array([[1.0, 0.99], [0.99, 1.0]])
    sample("x", dist.MultivariateNormal(jnp.zeros(2), covariance))


def skewed():
    """A latent with another shape than the normal distribution."""
    sample("x", dist.Gamma(0.7, 1.0).expand([2]).to_event(1))


def two_modes():
    sample(
        "x",
        dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.5, 0.5])),
            dist.Normal(jnp.array([-30.0, 30.0]), 1.0),
        ),
    )


def wide_scales():
    """Ten latents whose sds range from 1e-3 to 1e3."""
    sample("x", dist.Normal(0.0, jnp.logspace(-3.0, 3.0, 10)).to_event(1))


def groups():
    """The mean and the sd of twenty groups of counts, one count each."""
    m, tau = sample("m", dist.Normal(0.0, 3.0)), sample("tau", dist.HalfNormal(1.0))
    with plate("group", 20):
        e = sample("e", dist.Normal(0.0, 1.0))
        sample("y", dist.Poisson(jnp.exp(m + tau * e)), obs=COUNTS)


COUNTS = np.random.default_rng(0).poisson(5.0, size=20)
SCHOOLS = eight_schools.data()
SHORT = bk.NUTS(mass_matrix="diagonal", max_tree_depth=3, target_accept=0.8)
# Model, data, method, words of the advice, and the method that follows the advice.
CASES = {
    "one chain": (coin.model, coin.data(), bk.NUTS(chains=1, draws=4000), "chains=4", bk.NUTS()),
    "few draws": (coin.model, coin.data(), bk.NUTS(draws=200), "take more draws", bk.NUTS()),
    "metric": (correlated, (), SHORT, "another mass_matrix", replace(SHORT, mass_matrix="dense")),
    "tree depth": (correlated, (), SHORT, "max_tree_depth", replace(SHORT, max_tree_depth=10)),
    "neck": (
        eight_schools.model, SCHOOLS, bk.NUTS(centring=False), "non-centred form", bk.NUTS()
    ),
    "weights": (
        coin.model, coin.data(), bk.ImportanceSampling(draws=300), "Take more draws",
        bk.ImportanceSampling(),
    ),
    "rounds": (
        eight_schools.noncentred, SCHOOLS, bk.ImportanceSampling(adapt=0), "more rounds",
        bk.ImportanceSampling(),
    ),
    "shape": (groups, (), bk.Laplace(), "another shape", bk.NUTS()),
    "skew": (skewed, (), bk.Laplace(), "take method='nuts'", bk.NUTS()),
    "dependence": (correlated, (), bk.SVI(guide="mean_field"), "take method='nuts'", bk.NUTS()),
    "missed modes": (two_modes, (), bk.Laplace(), "Take method='nuts'", bk.NUTS()),
    "missed modes, SMC": (two_modes, (), bk.Laplace(), "or 'smc'", bk.SMC()),
    "particles": (
        eight_schools.noncentred, SCHOOLS, bk.SMC(particles=200), "more particles", bk.SMC()
    ),
    "moves": (wide_scales, (), bk.SMC(max_moves=1), "raise max_moves", bk.SMC()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_advice_helps(case):
    model, data, method, words, advised = CASES[case]
    before, after = (
        bk.infer(model, *data, method=m, seed=0, progress=False).trust for m in (method, advised)
    )
    assert before.verdict != "good" and words in before.advice, before
    assert after.verdict == "good", after


def test_advised_prior():
    """Separated classes, whose log odds have no bound but the prior."""
    x = np.sort(np.random.default_rng(0).normal(size=20))

    def classes(prior):
        a, b = sample("a", prior(0.0, 10.0)), sample("b", prior(0.0, 2.5))
        sample("y", dist.Bernoulli(logits=a + b * x), obs=(x > 0.1).astype(int))

    heavy, light = (
        bk.infer(classes, prior, method="nuts", seed=0, progress=False).trust
        for prior in (dist.Cauchy, dist.Normal)
    )
    assert re.search("bound heavy tails|tighter priors", heavy.advice)
    assert light.verdict == "good", light


def test_advised_correction():
    posterior = bk.infer(correlated, method=bk.SVI(guide="mean_field"), seed=0, progress=False)
    assert "bk.ImportanceSampling(proposal=this posterior)" in posterior.trust.advice
    corrected = bk.infer(
        correlated, method=bk.ImportanceSampling(proposal=posterior), seed=0, progress=False
    )
    assert corrected.trust.verdict == "good"
