"""Markov chain Monte Carlo by NumPyro's No-U-Turn sampler."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.core import validation
from bayeskern.core.timing import Stopwatch
from bayeskern.inference.assessment.mcmc import assess_mcmc
from bayeskern.inference.mcmc.bridge_sampling import bridge_log_evidence
from bayeskern.inference.mcmc.chains import ChainGroup, ChainProgress, sample
from bayeskern.inference.mcmc.checkpoint import Checkpoint
from bayeskern.inference.mcmc.initialization import initial_points
from bayeskern.inference.mcmc.kernel import (
    InitialPoint,
    KernelOptions,
    ScaledTarget,
    Transitions,
    initial_state,
)
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit

CHAIN_METHODS = ("parallel", "sequential", "vectorized")


@dataclass(frozen=True)
class NUTS(Method):
    """The No-U-Turn sampler, with NumPyro's kernel and adaptation.

    Chains start around the modes that were found, two posterior sds away, each at the mode that its
    own search led to.

    Args:
        chains: How many chains.
        warmup: Steps of adaptation of each chain, which are dropped.
        draws: Steps of each chain that are kept.
        target_accept: The acceptance probability that the step size aims at; nearer to 1 for
            smaller steps.
        max_tree_depth: The most doublings of a trajectory.
        dense_mass: A full mass matrix in place of a diagonal one.
        chain_method: "parallel", a thread for each chain (as many at once as there are cores);
            "sequential", one after the other, with the same draws; "vectorized", all in step by
            vmap, for accelerators.
        evidence: Whether to estimate the log evidence by bridge sampling.
        checkpoint: A file which is kept up to date, and from which a run that was killed goes on,
            to the same draws.

    Raises:
        ValueError: If an option is not what it must be; in `infer`, if the checkpoint is of another
            run.

    References:
        Hoffman and Gelman (2014), "The No-U-Turn sampler: adaptively setting path lengths in
        Hamiltonian Monte Carlo".
    """

    chains: int = 4
    warmup: int = 1000
    draws: int = 1000
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool = False
    chain_method: str = "parallel"
    evidence: bool = False
    checkpoint: str | Path | None = None

    name = "nuts"

    def __post_init__(self):
        for name in ("chains", "warmup", "draws", "max_tree_depth"):
            validation.positive_integer(getattr(self, name), name)
        validation.level(self.target_accept, "target_accept")
        validation.one_of("chain_method", self.chain_method, CHAIN_METHODS)

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("NUTS")
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self.checkpoint, target, self._settings(seed))
        stages = checkpoint and checkpoint.read(self._abstract(target))
        if stages is None:
            stages = self._begin(target, seed, progress)
        steps = self.warmup + self.draws
        groups = [ChainGroup(self._options, target, steps, stage) for stage in stages]
        workers = 1 if self.chain_method == "sequential" else os.cpu_count() or 1
        with Stopwatch() as watch:
            rows = sample(
                groups, workers, progress, checkpoint.save if checkpoint else _save_nothing
            )
        return Fit(
            z=rows.z,
            assess=assess_mcmc,
            sample_stats=_sample_stats(rows, self.max_tree_depth),
            log_evidence=bridge_log_evidence(target, rows.z, seed) if self.evidence else None,
            timing={"sampling": watch.seconds["run"]},
        )

    @property
    def _options(self) -> KernelOptions:
        return KernelOptions(self.warmup, self.target_accept, self.max_tree_depth, self.dense_mass)

    @property
    def _vectorized(self) -> bool:
        return self.chain_method == "vectorized"

    def _settings(self, seed) -> tuple:
        """What the draws depend on, beside the target."""
        return (seed, self.chains, self.draws, *self._options, self._vectorized)

    def _begin(self, target, seed, progress) -> list[ChainProgress]:
        """The first stage of each group of chains."""
        points = initial_points(target, self.chains, seed, progress, self.dense_mass)
        # One scale for all chains: the median of the sds in their first inverse mass matrices.
        variances = [
            p.inverse_mass if p.inverse_mass.ndim == 1 else np.diag(p.inverse_mass) for p in points
        ]
        scale = np.sqrt(np.median(variances, axis=0))
        density = ScaledTarget(target, jnp.asarray(scale))
        # Not the keys that the starts were drawn with.
        keys = jax.random.split(jax.random.key(seed), 2 * self.chains)[self.chains :]
        states = [
            initial_state(self._options, density, point.over(scale), key)
            for point, key in zip(points, keys, strict=True)
        ]
        if self._vectorized:
            states = [jax.tree.map(lambda *x: jnp.stack(x), *states)]
        return [ChainProgress(state, scale) for state in states]

    def _abstract(self, target) -> HMCState:
        """The state of one chain, without values."""
        d = target.size
        point = InitialPoint(
            np.zeros(d), np.zeros(()), np.zeros(d), np.zeros((d,) * (1 + self.dense_mass))
        )
        density = ScaledTarget(target, jnp.ones(d))
        return eqx.filter_eval_shape(
            initial_state, self._options, density, point, jax.random.key(0)
        )


def _save_nothing(stages, last=False) -> None:
    """Where no checkpoint is kept."""


def _sample_stats(rows: Transitions, max_tree_depth: int) -> dict[str, np.ndarray]:
    """By ArviZ's names, each (chains, draws)."""
    depth = np.ceil(np.log2(rows.n_steps + 1)).astype(int)
    return {
        "diverging": rows.diverging,
        "energy": rows.energy,
        "lp": -rows.potential,
        "n_steps": rows.n_steps,
        "tree_depth": depth,
        "acceptance_rate": rows.acceptance_rate,
        "step_size": rows.step_size,
        "reached_max_treedepth": depth >= max_tree_depth,
    }
