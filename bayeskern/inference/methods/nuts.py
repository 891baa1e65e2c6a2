"""Markov chain Monte Carlo by NumPyro's No-U-Turn sampler."""

from __future__ import annotations

import os
import threading
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
from bayeskern.inference.mcmc.chains import ChainGroup, ChainProgress, sample
from bayeskern.inference.mcmc.checkpoint import Checkpoint
from bayeskern.inference.mcmc.initialization import chain_starts, find_modes, start_at
from bayeskern.inference.mcmc.kernel import (
    InitialPoint,
    KernelOptions,
    ScaledTarget,
    Transitions,
    at_step,
    initial_state,
    potential_and_gradient,
)
from bayeskern.inference.mcmc.regions import Exploration
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import REGION, Fit
from bayeskern.inference.verdict import Trust

CHAIN_METHODS = ("parallel", "sequential", "vectorized")
MODES = ("weigh", "report")
# The keys of visits, which are not those of the chains.
VISITS = 1_000_000
# Fewer divergences than this share of the draws may be cured by smaller steps: chains that diverged
# run again, their distance from an acceptance of 1 so many times as large, up to this acceptance.
FEW_DIVERGENCES, CLOSER, MOST_ACCEPTED = 0.02, 0.25, 0.99
# A visit keeps this share of the draws of a chain, and takes those steps of a long warmup in which
# the mass matrix is first learned, and so many of the last.
OF_A_VISIT, FIRST_WINDOWS, LAST_STEPS = 0.25, (75, 150), 200


@dataclass(frozen=True)
class NUTS(Method):
    """The No-U-Turn sampler, with NumPyro's kernel and adaptation.

    Chains start two posterior sds away from modes that a search found, as far apart as can be. Ends
    of the search that no chain has been near are visited by a chain of their own. Where chains stay
    in several places, the draws come from each place by its share of the posterior; chains that
    agree are left as they ran. Where a few draws diverge, their chains run again from their starts
    with smaller steps.

    Args:
        chains: Number of chains.
        warmup: Steps of adaptation of each chain, which are dropped.
        draws: Steps of each chain after that.
        thin: Thinning interval of the draws, which saves memory and nothing else.
        target_accept: The acceptance probability that the step size aims at; nearer to 1 for
            smaller steps.
        max_tree_depth: The most doublings of a trajectory.
        dense_mass: True for a full mass matrix in place of a diagonal one; [("a", "b"), ("c",)] for
            a full one of sites a and b, one of c, and a diagonal one of the others.
        chain_method: "parallel", a thread for each chain (as many at once as there are cores);
            "sequential", one after the other, with the same draws; "vectorized", all in step by
            vmap, for accelerators.
        modes: "weigh": where chains sit in several places, the draws come from each place by its
            share of the posterior, if that can be estimated: one row of as many draws, which are
            no chains any more. "report": the draws of the chains as they ran.
        init: Where chains start, as {site: value}, each with the shape of the site, or with an axis
            of chains in front; None, and sites without a value, for where the search says.
        known: The findings of an earlier fit of the same model, `posterior.findings`, whose places
            chains have to reach like the ends of the search.
        evidence: Whether to estimate the log evidence by bridge sampling.
        checkpoint: A file which is kept up to date, and from which a run that was killed goes on,
            to the same draws.

    Raises:
        ValueError: If an option is not what it must be; in `infer`, if the checkpoint is of another
            run.
        TypeError: If `known` is something else.

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

    def __post_init__(self):
        for name in ("chains", "warmup", "draws", "thin", "max_tree_depth"):
            validation.positive_integer(getattr(self, name), name)
        if self.draws % self.thin:
            raise ValueError(
                f"thin is {self.thin} and draws is {self.draws}: the last {self.draws % self.thin} "
                "steps of each chain would be lost. Take a multiple of thin for draws."
            )
        validation.level(self.target_accept, "target_accept")
        validation.one_of("chain_method", self.chain_method, CHAIN_METHODS)
        validation.one_of("modes", self.modes, MODES)
        if not isinstance(self.dense_mass, bool):
            _require_blocks(self.dense_mass)
        if not isinstance(self.known, Findings | None):
            raise TypeError(
                "known must be the findings of a posterior, known=posterior.findings; got "
                f"{type(self.known).__name__}."
            )

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("NUTS")
        checkpoint = None
        if self.checkpoint is not None:
            options = self._options(target)
            checkpoint = Checkpoint(self.checkpoint, target, options, self._settings(seed))
        stages = checkpoint and checkpoint.read(self._abstract(target))
        optimum = find_modes(target, seed, progress)
        if stages is None:
            stages = self._begin(target, optimum, seed)
        with Stopwatch() as watch:
            rows = self._sample(
                target, stages, progress, checkpoint.save if checkpoint else _save_nothing
            )
            rows, seen = self._again_where_diverging(target, optimum, rows, seed, progress)
            rows = rows.thinned(self.thin)
            scale = stages[0].scale
            exchanges = Exchanges() if optimum is None else optimum.exchanges
            visits = self._visits(target, scale, seed)
            exploration = Exploration(target, rows, visits, exchanges)
            exploration.look_around(optimum, self.known or Findings(), seed)
            regions = exploration.regions(seed)
            weighs = self._wants_shares(exploration) and _are_known(regions)
            if weighs:
                exploration.keep_influential(regions)
                weighs = self._wants_shares(exploration)
            if weighs:
                exploration.at_least(2, self._visits(target, scale, seed, whole=True))
                regions = exploration.regions(seed)
                weighs = _are_known(regions)
            seen |= exploration.evidence
            seen |= {} if optimum is None else optimum.search_evidence
        timing = {"sampling": watch.seconds["run"]}
        if weighs:
            return self._weighed(exploration, regions, seen, seed, timing)
        return self._as_they_ran(rows, exploration, regions, seen, seed, timing)

    def _wants_shares(self, exploration: Exploration) -> bool:
        """True if draws are to come from several places, or orders, by their shares."""
        several = len(exploration.rows) > 1 or exploration.hold_one_order
        return self.modes == "weigh" and several and not exploration.spikes

    def _as_they_ran(self, rows, exploration, regions, seen, seed, timing) -> Fit:
        """The chains themselves."""
        stats, target = _sample_stats(rows, self.max_tree_depth), exploration.target

        def assess(posterior) -> Trust:
            left, exchanges = exploration.left, exploration.exchanges
            if exploration.hold_one_order and len(regions) == 1:
                return assess_one_order(posterior, regions, stats, exchanges, left, seen)
            in_vain = self._wants_shares(exploration)
            return assess_mcmc(posterior, regions, left, seen, in_vain)

        log_evidence = None
        if self.evidence and exploration.hold_one_order:
            log_evidence = exploration.log_evidence(seed)
        elif self.evidence:
            log_evidence = bridge_log_evidence(target, rows.z, seed)
        return Fit(
            z=rows.z,
            assess=assess,
            sample_stats=stats,
            log_evidence=log_evidence,
            timing=timing,
            findings=exploration.findings,
        )

    def _sample(self, target, stages, progress, save, title="NUTS") -> Transitions:
        steps = self.warmup + self.draws
        groups = [ChainGroup(self._options(target), target, steps, stage) for stage in stages]
        # Devices that share work do so in one order.
        one_by_one = self.chain_method == "sequential" or current_mesh() is not None
        workers = 1 if one_by_one else os.cpu_count() or 1
        return sample(groups, workers, progress, save, title)

    def _again_where_diverging(
        self, target, optimum, rows: Transitions, seed, progress
    ) -> tuple[Transitions, dict]:
        """The rows with chains that diverged run again by smaller steps, and what was done.

        Many divergences need another form of the model, and not smaller steps.
        """
        seen, method = {}, self
        while (
            0 < np.mean(rows.diverging) < FEW_DIVERGENCES and method.target_accept < MOST_ACCEPTED
        ):
            accept = min(MOST_ACCEPTED, 1.0 - CLOSER * (1.0 - method.target_accept))
            method = replace(self, target_accept=accept)
            stages = method._begin(target, optimum, seed)
            chains = np.flatnonzero(rows.diverging.any(axis=1))
            if self._vectorized:
                chains = np.arange(self.chains)
            else:
                stages = [stages[i] for i in chains]
            again = method._sample(target, stages, progress, _save_nothing, f"NUTS at {accept:.3g}")
            rows = Transitions(*(x.copy() for x in rows))
            for kept, new in zip(rows, again, strict=True):
                kept[chains] = new
            seen = {"chains_again": len(chains), "target_accept_of_them": accept}
        return rows, seen

    def _visits(self, target, scale, seed, whole: bool = False):
        """From a place (d,) and a number to a chain: a short one, or a whole one."""
        density = ScaledTarget(target, jnp.asarray(scale))
        covariance = np.square(scale)
        if scale.ndim == 2 or self._is_dense:
            root = scale if scale.ndim == 2 else np.diag(scale)
            covariance = root @ root.T
        keep, skips = self.draws // self.thin, False
        if not whole:
            keep = max(100, int(OF_A_VISIT * keep))
            skips = self.warmup - LAST_STEPS > FIRST_WINDOWS[1]

        def go_on(state, begin: int, end: int) -> ChainGroup:
            stage = ChainProgress(at_step(state, begin, self.warmup), scale, begin)
            group = ChainGroup(self._options(target), target, end, stage)
            group.run(threading.Event())
            return group

        def visit(place, number: int) -> Transitions:
            (potential,), (gradient,) = potential_and_gradient(target, place[None])
            point = InitialPoint(place, potential, gradient, covariance)
            key = jax.random.fold_in(jax.random.key(seed), VISITS + number)
            state = initial_state(self._options(target), density, point.over(scale), key)
            begin = 0
            if skips:
                state = go_on(state, *FIRST_WINDOWS).stage.state
                begin = self.warmup - LAST_STEPS
            return go_on(state, begin, self.warmup + keep * self.thin).rows.thinned(self.thin)

        return visit

    def _weighed(self, exploration, regions, seen, seed, timing) -> Fit:
        """Draws from each region by its share, members that can change places in any order."""
        rows, exchanges = exploration.rows, exploration.exchanges
        shares = np.array([region.share.value for region in regions])
        rng, total = np.random.default_rng(seed), self.chains * (self.draws // self.thin)
        counts = np.floor(shares * total).astype(int)
        counts[np.argmax(shares)] += total - counts.sum()
        parts = []
        for region, count in zip(rows, counts, strict=True):
            flat = [x.reshape(-1, *x.shape[2:]) for x in region]
            chosen = rng.choice(len(flat[0]), count, replace=count > len(flat[0]))
            parts.append([x[chosen] for x in flat])
        order = rng.permutation(total)
        # One row of draws: they are no chains that R-hat could compare.
        mixed = Transitions(*(np.concatenate(x)[order][None] for x in zip(*parts, strict=True)))
        numbers = np.repeat(np.arange(len(rows)), counts)[order][None]
        stats = [_sample_stats(region, self.max_tree_depth) for region in rows]
        return Fit(
            z=exchanges.shuffled(mixed.z[0], rng)[None],
            assess=lambda posterior: assess_regions(
                posterior, regions, stats, exchanges, exploration.left, seen
            ),
            sample_stats=_sample_stats(mixed, self.max_tree_depth) | {REGION: numbers},
            log_evidence=exploration.log_evidence(seed) if self.evidence else None,
            timing=timing,
            findings=exploration.findings,
        )

    def _options(self, target) -> KernelOptions:
        # An array, so that another acceptance does not compile again.
        accept, blocks = np.asarray(self.target_accept), None
        if self._is_dense and self.dense_mass is not True:
            blocks = Blocks.of(target, self.dense_mass)
        return KernelOptions(self.warmup, accept, self.max_tree_depth, self._is_dense, blocks)

    @property
    def _is_dense(self) -> bool:
        """Whether some mass matrix is a full one."""
        return bool(self.dense_mass)

    @property
    def _vectorized(self) -> bool:
        return self.chain_method == "vectorized"

    def _settings(self, seed) -> tuple:
        """What the draws depend on, beside the target."""
        options = (self.warmup, self.target_accept, self.max_tree_depth, self.dense_mass)
        starts = {k: np.asarray(v, float).tolist() for k, v in (self.init or {}).items()}
        return (seed, self.chains, self.draws, *options, self._vectorized, starts)

    def _begin(self, target, optimum, seed) -> list[ChainProgress]:
        """The first stage of each group of chains."""
        points, scale = chain_starts(
            target, optimum, self.chains, seed, self._is_dense, self.dense_mass is False
        )
        if self.init is not None:
            points = start_at(target, points, self.init)
        density = ScaledTarget(target, jnp.asarray(scale))
        # Not the keys that the starts were drawn with.
        keys = jax.random.split(jax.random.key(seed), 2 * self.chains)[self.chains :]
        states = [
            initial_state(self._options(target), density, point.over(scale), key)
            for point, key in zip(points, keys, strict=True)
        ]
        if self._vectorized:
            states = [jax.tree.map(lambda *x: jnp.stack(x), *states)]
        return [ChainProgress(state, scale) for state in states]

    def _abstract(self, target) -> HMCState:
        """The state of one chain, without values."""
        d = target.size
        point = InitialPoint(
            np.zeros(d), np.zeros(()), np.zeros(d), np.zeros((d,) * (1 + self._is_dense))
        )
        density = ScaledTarget(target, jnp.ones(d))
        return eqx.filter_eval_shape(
            initial_state, self._options(target), density, point, jax.random.key(0)
        )


def _require_blocks(blocks) -> None:
    """Raise ValueError unless these are blocks of names."""
    is_list = isinstance(blocks, list | tuple)
    if not is_list or not all(isinstance(block, list | tuple) and block for block in blocks):
        raise ValueError(
            f"dense_mass must be True, False, or a list of tuples of sites, as [('a', 'b')]; got "
            f"{blocks!r}."
        )


def _are_known(regions) -> bool:
    """Whether the share of each region could be estimated."""
    return all(np.isfinite(region.share.value) for region in regions)


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
