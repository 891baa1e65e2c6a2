"""Posteriors with truth in closed form, on which a wrong verdict is easily given.

A verdict of good has to be right. Needles, which no search can be blamed for, are left out.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from tests.inference.zoo.mixtures import random_mixture

METHODS = {
    "auto": "auto",
    "importance": bk.ImportanceSampling(),
    "smc": bk.SMC(),
    "nuts": bk.NUTS(draws=500),
}
# A mean this far off, in sds, or a log sd, is wrong.
MAX_ERROR = 0.25
# Seeds of mixtures without a needle, those of the smallest basins first.
SEEDS = (
    18, 6, 0, 1, 8, 11, 12, 14, 16, 19, 20, 21, 22, 23, 24, 26, 27, 30, 34, 35, 37, 38, 39, 41,
    42, 43, 47, 48, 49, 51, 54, 55, 57, 58, 59,
)  # fmt: skip


def is_right(draws, mean, sd) -> bool:
    x = np.asarray(draws).reshape(-1, len(mean))
    moved = np.max(np.abs(x.mean(axis=0) - mean) / sd)
    return bool(moved < MAX_ERROR and np.max(np.abs(np.log(x.std(axis=0) / sd))) < MAX_ERROR)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_mixtures_of_unequal_widths_are_not_wrongly_good(seed, method):
    mixture = random_mixture(seed)
    assert not mixture.is_needle
    posterior = bk.infer(mixture.model, method=METHODS[method], seed=seed, progress=False)
    right = is_right(posterior.draws["x"], mixture.mean, mixture.sd)
    assert right or posterior.trust.verdict != "good"


@pytest.mark.parametrize("seed", [18, 6])
def test_narrow_modes_with_small_basins_are_found_and_vouched_for(seed):
    mixture = random_mixture(seed)
    posterior = bk.infer(mixture.model, method="importance", seed=seed, progress=False)
    assert posterior.trust.verdict == "good"
    assert is_right(posterior.draws["x"], mixture.mean, mixture.sd)


def concentric():
    """Two normal distributions at one place, of sds 1 and 0.01, with equal mass."""
    prior = dist.Normal(0.0, 5.0).expand([10]).to_event(1)
    x = numpyro.sample("x", prior)
    wide, narrow = (dist.Normal(0.0, s).expand([10]).to_event(1).log_prob(x) for s in (1.0, 0.01))
    numpyro.factor("likelihood", jnp.logaddexp(wide, narrow) - prior.log_prob(x))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_an_assessment_has_seen_is_visited(seed):
    """Laplace's method sees the narrow distribution alone, and its assessment the wide one."""
    posterior = bk.infer(concentric, seed=seed, progress=False)
    sd = np.full(10, np.sqrt(0.5 * (1.0 + 1e-4)))
    right = is_right(posterior.draws["x"], np.zeros(10), sd)
    assert right or posterior.trust.verdict != "good"
    assert posterior.method == "nuts"


def lattice():
    """A normal distribution of sd 5 with a comb of modes: the comb changes no mean and no sd."""
    x = numpyro.sample("x", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    numpyro.factor("comb", 4.0 * jnp.sum(jnp.cos(2.0 * x)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_places_that_were_not_visited_keep_a_posterior_from_good(seed):
    method = bk.NUTS(modes="weigh")
    posterior = bk.infer(lattice, method=method, seed=seed, progress=False)
    right = is_right(posterior.draws["x"], np.zeros(2), np.full(2, 5.0))
    assert right or posterior.trust.verdict != "good"


def separable(X, y):
    vector = dist.constraints.real_vector
    w = numpyro.sample("w", dist.ImproperUniform(vector, (), (X.shape[1],)))
    numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "auto"])
def test_a_posterior_without_an_integral_is_bad(method):
    """The likelihood of separable classes rises for ever."""
    X = np.column_stack([np.ones(20), np.linspace(-1.0, 1.0, 20)])
    posterior = bk.infer(
        separable, X, (X[:, 1] > 0.0).astype(int), method=method, seed=0, progress=False
    )
    assert posterior.trust.verdict == "bad" and "run away" in posterior.trust.advice
