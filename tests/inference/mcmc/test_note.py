"""Note of the progress bar while chains run."""

import jax
import numpy as np
from arviz_stats.base import array_stats

from bayeskern.inference.mcmc import note
from bayeskern.inference.mcmc.kernel import InitialPoint, Transitions
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.note import RunNote
from bayeskern.inference.mcmc.stage import Stage

RNG = np.random.default_rng(0)


def stage(z, diverging=0):
    """Stage of one chain with draws z (n, d), of which the first ones diverged."""
    point = InitialPoint(z[0], np.zeros(()), np.zeros(z.shape[1]), np.ones(z.shape[1]))
    start = Stage.at(point, Metric.of_root(point.root, 0), jax.random.key(0), warmup=0)
    number = np.zeros((1, len(z)))
    rows = Transitions(z[None], np.arange(len(z))[None] < diverging, *[number] * 5)
    return start.after_draws(start.states[0], rows)


def test_note_has_the_smallest_ess_and_the_divergences():
    z = np.cumsum(RNG.normal(size=(2, 400, 3)), axis=1)
    z[..., 1:] = RNG.normal(size=(2, 400, 2))
    ess = min(float(array_stats.ess(z[..., i])) for i in range(3))
    text = RunNote()([stage(z[0], 2), stage(z[1])])
    assert text == f"smallest ESS about {float(f'{ess:.2g}'):.0f}, 2 divergences"


def test_note_needs_draws_of_all_chains():
    z = RNG.normal(size=(note.MIN_NOTE_DRAWS - 1, 2))
    assert RunNote()([stage(z), stage(z)]) == ""


def test_note_says_that_a_chain_does_not_move():
    moving, constant = RNG.normal(size=(60, 1)), np.ones((60, 1))
    assert RunNote()([stage(moving), stage(constant)]) == "a chain does not move"
