"""Markov chain Monte Carlo by NumPyro's No-U-Turn sampler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.core import validation
from bayeskern.core.sharding import current_mesh
from bayeskern.core.timing import Stopwatch
from bayeskern.inference.assessment.mcmc import assess_mcmc
from bayeskern.inference.assessment.regions import assess_one_order, assess_regions
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.blocks import Blocks
from bayeskern.inference.mcmc.bridge_sampling import bridge_log_evidence
from bayeskern.inference.mcmc.chains import ChainGroup, sample
from bayeskern.inference.mcmc.checkpoint import read_stages
from bayeskern.inference.mcmc.exploration import Exploration
from bayeskern.inference.mcmc.initialization import chain_starts, find_modes, start_at
from bayeskern.inference.mcmc.kernel import (
    ChainProgress,
    InitialPoint,
    KernelOptions,
    ScaledTarget,
    Transitions,
    initial_state,
)
from bayeskern.inference.mcmc.visits import ChainVisits
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.result import REGION, Assessable, Fit
from bayeskern.inference.verdict import Trust


@dataclass(frozen=True)
class NUTS(Method):
    """The No-U-Turn sampler, with NumPyro's kernel and adaptation.

    A search finds modes, and each chain starts two posterior sds from one of them; these modes are
    as distant from one another as possible. An end of the search that no chain is connected to is
    visited by an extra chain. If chains stay in several regions, the share of a region in the
    posterior determines its number of draws; chains that agree are returned unchanged. If a few
    draws diverge, their chains run again from the same starts with smaller steps.

    Args:
        chains: Number of chains.
        warmup: Adaptation steps of each chain, which are discarded.
        draws: Steps of each chain after the warmup.
        thin: Thinning interval of the draws; it saves only memory.
        target_accept: Target acceptance probability; values closer to 1 give smaller steps.
        max_tree_depth: Maximum number of doublings of a trajectory.
        dense_mass: True for a full mass matrix, False for a diagonal matrix; [("a", "b"), ("c",)]
            for a full matrix of sites a and b, a full matrix of c, and a diagonal matrix of the
            other sites.
        chain_method: "parallel", a thread for each chain (at most one per core at a time);
            "sequential", one after the other, with the same draws; "vectorized", all together by
            vmap, for accelerators.
        modes: "weigh": if chains stay in several regions and the shares of the regions can be
            estimated, draw from each region in proportion to its share. The draws then are a single
            row, not chains. "report": the draws of the chains as they ran.
        init: Starts of the chains, as {site: value}. A value has the shape of the site, or a
            leading axis of chains. Other sites start near the modes, as without `init`.
        known: Findings of an earlier fit of the same model, `posterior.findings`. Chains must reach
            their points, as they must reach the ends of the search.
        evidence: True to estimate the log evidence by bridge sampling.
        checkpoint: File for the state of the run. An interrupted run resumes from it with the same
            draws.

    Raises:
        ValueError: If an option is out of range or unknown; in `infer`, if the checkpoint belongs
            to another run.
        TypeError: If `known` has a wrong type.

    References:
        Hoffman and Gelman (2014), "The No-U-Turn sampler: adaptively setting path lengths in
        Hamiltonian Monte Carlo".
    """

    chains: int = 4
    warmup: int = 1000
    draws: int = 1000
    thin: int = 1
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool | Sequence[Sequence[str]] = False
    chain_method: str = "parallel"
    modes: str = "weigh"
    init: dict[str, Any] | None = None
    known: Findings | None = None
    evidence: bool = False
    checkpoint: str | Path | None = None

    name = "nuts"

    def __post_init__(self) -> None:
        for name in ("chains", "warmup", "draws", "thin", "max_tree_depth"):
            validation.positive_integer(getattr(self, name), name)
        if self.draws % self.thin:
            raise ValueError(
                f"draws={self.draws} is not a multiple of thin={self.thin}: the last "
                f"{self.draws % self.thin} steps of each chain would be lost. Change draws or thin."
            )
        validation.level(self.target_accept, "target_accept")
        methods = ("parallel", "sequential", "vectorized")
        validation.one_of("chain_method", self.chain_method, methods)
        validation.one_of("modes", self.modes, ("weigh", "report"))
        if not isinstance(self.dense_mass, bool):
            _require_blocks(self.dense_mass)
        if not isinstance(self.known, Findings | None):
            raise TypeError(
                "known must be the findings of a posterior, known=posterior.findings; got "
                f"{type(self.known).__name__}."
            )

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("NUTS")
        file = stages = None
        if self.checkpoint is not None:
            file = CheckpointFile(self.checkpoint, "NUTS", target, self._settings(seed))
            stages = read_stages(file, target, self._options(target), self._abstract_state(target))
        optimum = find_modes(target, seed, progress)
        if stages is None:
            stages = self._initial_stages(target, optimum, seed)
        with Stopwatch() as watch:
            rows = self._sample(target, stages, progress, file)
            rows, evidence = self._rerun_divergent(target, optimum, rows, seed, progress)
            rows = rows.thinned(self.thin)
            exploration, weighs = self._explore(target, rows, stages[0].scale, optimum, seed)
        evidence |= exploration.evidence
        evidence |= {} if optimum is None else optimum.search_evidence
        if weighs:
            fit = self._weighed_fit(exploration, evidence, seed)
        else:
            fit = self._plain_fit(rows, exploration, evidence, seed)
        return replace(fit, timing={"sampling": watch.seconds["run"]})

    # -- sampling ---------------------------------------------------------------------------------

    def _initial_stages(
        self, target: Target, optimum: Optimum | None, seed: int
    ) -> list[ChainProgress]:
        """First stage of each group of chains."""
        points, scale = chain_starts(
            target, optimum, self.chains, seed, self._is_dense, self.dense_mass is False
        )
        if self.init is not None:
            points = start_at(target, points, self.init)
        density = ScaledTarget(target, jnp.asarray(scale))
        # The first `chains` keys are skipped, since they may have drawn the starts.
        keys = jax.random.split(jax.random.key(seed), 2 * self.chains)[self.chains :]
        states = [
            initial_state(self._options(target), density, point.rescaled(scale), key)
            for point, key in zip(points, keys, strict=True)
        ]
        if self._vectorized:
            states = [jax.tree.map(lambda *x: jnp.stack(x), *states)]
        return [ChainProgress(state, scale) for state in states]

    def _sample(
        self,
        target: Target,
        stages: list[ChainProgress],
        progress: bool,
        file: CheckpointFile | None = None,
        title: str = "NUTS",
    ) -> Transitions:
        """Run chains from their stages to the end: (chains, draws, ...)."""
        steps = self.warmup + self.draws
        groups = [ChainGroup(self._options(target), target, steps, stage) for stage in stages]
        # Devices that share work must run in one order.
        in_order = self.chain_method == "sequential" or current_mesh() is not None
        workers = 1 if in_order else os.cpu_count() or 1
        return sample(groups, workers, progress, file, title)

    def _rerun_divergent(
        self, target: Target, optimum: Optimum | None, rows: Transitions, seed: int, progress: bool
    ) -> tuple[Transitions, dict[str, Any]]:
        """Run chains again with smaller steps if a few of their draws diverge.

        Steps get smaller until no draw diverges or the target acceptance probability is 0.99. If
        many draws diverge, the model needs another parametrisation, not smaller steps.

        Args:
            target: The model.
            optimum: The modes near which the chains start.
            rows: Transitions of all chains.
            seed: Seed of the chains.
            progress: True to show a progress bar.

        Returns:
            Transitions of all chains, and evidence on chains that ran again.
        """
        evidence, accept, max_accept = {}, self.target_accept, 0.99
        while 0 < np.mean(rows.diverging) < 0.02 and accept < max_accept:
            accept = min(max_accept, 1.0 - 0.25 * (1.0 - accept))
            method = replace(self, target_accept=accept)
            stages = method._initial_stages(target, optimum, seed)
            chains = np.flatnonzero(rows.diverging.any(axis=1))
            if self._vectorized:
                chains = np.arange(self.chains)
            else:
                stages = [stages[i] for i in chains]
            new_rows = method._sample(target, stages, progress, title=f"NUTS at {accept:.3g}")
            rows = Transitions(*(x.copy() for x in rows))
            for old, new in zip(rows, new_rows, strict=True):
                old[chains] = new
            evidence = {"chains_again": len(chains), "target_accept_of_them": accept}
        return rows, evidence

    # -- regions ----------------------------------------------------------------------------------

    def _explore(
        self,
        target: Target,
        rows: Transitions,
        scale: np.ndarray,
        optimum: Optimum | None,
        seed: int,
    ) -> tuple[Exploration, bool]:
        """Visit points that the chains have missed, and estimate the shares of all regions.

        Args:
            target: The model.
            rows: Transitions of the chains.
            scale: Scale of the coordinates, as in `ScaledTarget`.
            optimum: The modes, if there was a search.
            seed: Seed of the visits and integrals.

        Returns:
            The exploration, and True if regions get draws in proportion to their shares.
        """
        exchanges = Exchanges() if optimum is None else optimum.exchanges
        draws = self.draws // self.thin
        visits = ChainVisits(target, self._options(target), scale, draws, self.thin, seed)
        exploration = Exploration(target, rows, visits, exchanges)
        exploration.explore(optimum, self.known or Findings(), seed)
        exploration.estimate_shares(seed)
        if not (self._wants_shares(exploration) and exploration.has_shares):
            return exploration, False
        exploration.keep_influential()
        if not self._wants_shares(exploration):
            return exploration, False
        # R-hat of a region needs two chains.
        exploration.extend_regions(2, replace(visits, full_length=True))
        exploration.estimate_shares(seed)
        return exploration, exploration.has_shares

    def _wants_shares(self, exploration: Exploration) -> bool:
        """True if the draws should have the shares of several regions, or of all orders."""
        several = len(exploration.rows) > 1 or exploration.hold_one_order
        return self.modes == "weigh" and several and not exploration.spikes

    # -- fits -------------------------------------------------------------------------------------

    def _plain_fit(
        self, rows: Transitions, exploration: Exploration, evidence: dict[str, Any], seed: int
    ) -> Fit:
        """Fit with the draws of the chains as they ran."""
        stats, regions = _sample_stats(rows, self.max_tree_depth), exploration.regions

        def assess(posterior: Assessable) -> Trust:
            unvisited, exchanges = exploration.unvisited, exploration.exchanges
            if exploration.hold_one_order and len(regions) == 1:
                return assess_one_order(posterior, regions, stats, exchanges, unvisited, evidence)
            shares_unknown = self._wants_shares(exploration)
            return assess_mcmc(posterior, regions, unvisited, evidence, shares_unknown)

        log_evidence = None
        if self.evidence and exploration.hold_one_order:
            log_evidence = exploration.log_evidence(seed)
        elif self.evidence:
            log_evidence = bridge_log_evidence(exploration.target, rows.z, seed)
        return Fit(
            z=rows.z,
            assess=assess,
            sample_stats=stats,
            log_evidence=log_evidence,
            findings=exploration.findings,
        )

    def _weighed_fit(self, exploration: Exploration, evidence: dict[str, Any], seed: int) -> Fit:
        """Fit with draws in proportion to the shares of regions, and in all orders alike."""
        rows, regions, exchanges = exploration.rows, exploration.regions, exploration.exchanges
        shares = np.array([region.share.value for region in regions])
        rng, total = np.random.default_rng(seed), self.chains * (self.draws // self.thin)
        counts = np.floor(shares * total).astype(int)
        # The largest region gets the draws that rounding down leaves.
        counts[np.argmax(shares)] += total - counts.sum()
        parts = []
        for region, count in zip(rows, counts, strict=True):
            flat = [x.reshape(-1, *x.shape[2:]) for x in region]
            chosen = rng.choice(len(flat[0]), count, replace=count > len(flat[0]))
            parts.append(Transitions(*(x[chosen] for x in flat)))
        order = rng.permutation(total)
        # A single row, because these draws are not chains that R-hat could compare.
        mixed = Transitions(*(x[order][None] for x in Transitions.joined(parts, axis=0)))
        region_of_draw = np.repeat(np.arange(len(rows)), counts)[order][None]
        stats = [_sample_stats(region, self.max_tree_depth) for region in rows]
        return Fit(
            z=exchanges.shuffled(mixed.z[0], rng)[None],
            assess=lambda posterior: assess_regions(
                posterior, regions, stats, exchanges, exploration.unvisited, evidence
            ),
            sample_stats=_sample_stats(mixed, self.max_tree_depth) | {REGION: region_of_draw},
            log_evidence=exploration.log_evidence(seed) if self.evidence else None,
            findings=exploration.findings,
        )

    # -- options ----------------------------------------------------------------------------------

    def _options(self, target: Target) -> KernelOptions:
        """Options that the kernel is compiled for."""
        blocks = None
        if not isinstance(self.dense_mass, bool) and self.dense_mass:
            blocks = Blocks.of(target, self.dense_mass)
        accept = np.asarray(self.target_accept)
        return KernelOptions(self.warmup, accept, self.max_tree_depth, self._is_dense, blocks)

    @property
    def _is_dense(self) -> bool:
        """True if a block of the mass matrix is full."""
        return bool(self.dense_mass)

    @property
    def _vectorized(self) -> bool:
        return self.chain_method == "vectorized"

    def _settings(self, seed: int) -> tuple:
        """Seed and options that determine the draws, together with the target."""
        options = (self.warmup, self.target_accept, self.max_tree_depth, self.dense_mass)
        starts = {k: np.asarray(v, float).tolist() for k, v in (self.init or {}).items()}
        return (seed, self.chains, self.draws, *options, self._vectorized, starts)

    def _abstract_state(self, target: Target) -> HMCState:
        """Shapes and dtypes of the state of one chain."""
        d = target.size
        point = InitialPoint(
            np.zeros(d), np.zeros(()), np.zeros(d), np.zeros((d,) * (1 + self._is_dense))
        )
        density = ScaledTarget(target, jnp.ones(d))
        return eqx.filter_eval_shape(
            initial_state, self._options(target), density, point, jax.random.key(0)
        )


def _require_blocks(blocks: Any) -> None:
    """Raise ValueError unless `blocks` is a list of tuples of names."""
    is_list = isinstance(blocks, list | tuple)
    if not is_list or not all(isinstance(block, list | tuple) and block for block in blocks):
        raise ValueError(
            "dense_mass must be True, False, or a list of tuples of sites, such as [('a', 'b')]; "
            f"got {blocks!r}."
        )


def _sample_stats(rows: Transitions, max_tree_depth: int) -> dict[str, np.ndarray]:
    """Sample statistics by ArviZ's names, each (chains, draws)."""
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
