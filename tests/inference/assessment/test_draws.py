"""Draws compared with themselves after steps of NUTS, where importance weights are not reliable."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.assessment.persistence import rank_persistence
from bayeskern.inference.mcmc.moves import MOVE_STEPS, moved_draws
from bayeskern.inference.result import MovedDraws

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("r", [0.0, 0.4, 0.9])
def test_persistence_is_the_correlation(r):
    start = RNG.normal(size=(20_000, 2))
    end = r * start + np.sqrt(1.0 - r**2) * RNG.normal(size=start.shape)
    # Spearman's correlation of two normal numbers with correlation r.
    expected = 6.0 / np.pi * np.arcsin(r / 2.0)
    np.testing.assert_allclose(rank_persistence(start, end), expected, atol=0.03)


def test_persistence_of_the_scale_counts():
    start = RNG.normal(size=20_000)
    end = start * RNG.choice([-1.0, 1.0], size=20_000)
    assert rank_persistence(start[:, None], end[:, None])[0] > 0.99
    constant = np.ones((100, 1))
    assert rank_persistence(constant, constant)[0] == 0.0


WIDTHS = np.linspace(0.1, 0.2, 4)


def bananas(data):
    """Four pairs: x is standard normal, and y is normal around x^2. The priors are wide."""
    wide = dist.Normal(0.0, 20.0)
    with numpyro.plate("banana", 4):
        x, y = numpyro.sample("x", wide), numpyro.sample("y", wide)
    log_density = dist.Normal(0.0, 1.0).log_prob(x) + dist.Normal(x**2, WIDTHS).log_prob(y)
    numpyro.factor("density", jnp.sum(log_density - wide.log_prob(x) - wide.log_prob(y)) + data)


def draws_of_bananas(rng=RNG):
    x = rng.normal(size=(4000, 4))
    return {"x": x, "y": x**2 + WIDTHS * rng.normal(size=x.shape)}


def assess(draws, model=bananas):
    posterior = bk.assess(model, 0.0, draws=draws, progress=False)
    assert posterior.trust.evidence["steps_moved"] in MOVE_STEPS, "weights are reliable"
    return posterior.trust


@pytest.mark.slow
def test_exact_draws_pass_where_weights_fail():
    trust = assess(draws_of_bananas())
    assert trust.verdict == "good", trust
    assert "steps of NUTS" in trust.advice and trust.evidence["persistence"] < 0.5


@pytest.mark.slow
def test_heavy_tailed_numbers_are_no_false_alarm():
    # The sds of 1,024 moved draws of x^2 are uncertain by 6 %: 3 of 40 data sets were *caution*.
    trust = assess(draws_of_bananas(np.random.default_rng(113)))
    assert trust.verdict == "good", trust


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda d: {"x": d["x"], "y": d["y"][::-1]},
        lambda d: {"x": 0.7 * d["x"], "y": 0.49 * d["y"]},
        lambda d: {"x": d["x"] + 0.6, "y": (d["x"] + 0.6) ** 2},
        lambda d: {"x": np.abs(d["x"]), "y": d["y"]},
    ],
)
def test_wrong_draws_are_found_where_weights_fail(change):
    trust = assess(change(draws_of_bananas()))
    assert trust.verdict in ("caution", "bad"), trust


@pytest.mark.slow
def test_shares_of_modes_that_steps_do_not_cross_are_not_vouched_for():
    def model(data):
        side = dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.5, 0.5])), dist.Normal(jnp.array([-8.0, 8.0]), 1.0)
        )
        numpyro.sample("side", side)
        bananas(data)

    side = np.where(RNG.uniform(size=4000) < 0.8, -8.0, 8.0) + RNG.normal(size=4000)
    trust = assess(draws_of_bananas() | {"side": side}, model)
    assert trust.verdict == "caution" and "steps of NUTS hardly change" in trust.advice


def test_pooled_batches_do_not_overstate_their_steps():
    # Divergences are counted by draw: more steps than a batch took would understate their share.
    few, many = (
        MovedDraws(np.full((2, 1), steps), np.full((2, 1), -steps), steps, np.array([True, False]))
        for steps in (2, 8)
    )
    for batches in ([few, many], [many, few]):
        pooled = MovedDraws.pooled(batches)
        assert pooled.steps == 2
        values = [batch.steps for batch in batches for _ in range(2)]
        np.testing.assert_array_equal(pooled.start[:, 0], values)
        np.testing.assert_array_equal(pooled.end[:, 0], np.negative(values))
        np.testing.assert_array_equal(pooled.diverged, [True, False, True, False])


@pytest.mark.slow
def test_moves_leave_the_posterior_and_lead_to_it():
    def model():
        numpyro.sample("x", dist.Normal(jnp.zeros(3), jnp.array([1e-3, 1.0, 50.0])).to_event(1))

    target, sds = Target.from_model(model, (), {}), np.array([1e-3, 1.0, 50.0])
    exact = sds * RNG.normal(size=(3000, 3))
    *_, last = moved_draws(target, exact, 0, seed=0)
    assert last.steps == MOVE_STEPS[-1] and not last.diverged.any()
    np.testing.assert_allclose(last.end.std(axis=0), sds, rtol=0.06)
    assert np.max(np.abs(last.end.mean(axis=0)) / sds) < 0.1
    *_, last = moved_draws(target, 0.3 * exact + 0.5 * sds, 0, seed=0)
    np.testing.assert_allclose(last.end.std(axis=0), sds, rtol=0.06)
    assert np.max(np.abs(last.end.mean(axis=0)) / sds) < 0.1
