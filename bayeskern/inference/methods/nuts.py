"""Markov chain Monte Carlo by NumPyro's No-U-Turn sampler."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayeskern.core import validation
from bayeskern.core.sharding import current_mesh
from bayeskern.core.timing import Stopwatch
from bayeskern.inference.assessment.regions import ChainAssessment, RegionAssessment
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc import first_chains
from bayeskern.inference.mcmc.bridge_sampling import bridge_log_integral
from bayeskern.inference.mcmc.centring import centred_target
from bayeskern.inference.mcmc.chain_run import ChainRun
from bayeskern.inference.mcmc.chains import ChainGroup, Plan, sample
from bayeskern.inference.mcmc.checkpoint import read_stages
from bayeskern.inference.mcmc.exploration import Exploration
from bayeskern.inference.mcmc.first_chains import FirstDraws
from bayeskern.inference.mcmc.initialization import find_modes, initial_points, start_at
from bayeskern.inference.mcmc.kernel import InitialPoint, KernelOptions, Transitions
from bayeskern.inference.mcmc.mass_matrix import MetricShape, SiteBlocks, require_mass_matrix
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.stage import Stage, divergent_draws, joined_rows
from bayeskern.inference.mcmc.visits import ChainVisits
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.goal import MAX_BATCHES, Goal, GoalNotReached
from bayeskern.inference.model.centring import PartlyCentred
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import REGION, Fit
from bayeskern.inference.search.modes import Optimum

# Share of divergent draws above which smaller steps are not tried.
MAX_RETRY_SHARE = 0.1


@dataclass(frozen=True)
class NUTS(Method):
    """The No-U-Turn sampler with a mass matrix by Fisher divergence.

    NumPyro computes the trajectories. In directions where the draws of the warmup vary more than
    this matrix says, as along the log scale of groups, its inverse has their variances.

    A search finds modes, and each chain starts two posterior sds from one of them; these modes are
    as distant from one another as possible. An extra chain visits each end of the search that no
    chain is connected to. If chains stay in several regions, the share of a region in the posterior
    determines its number of draws; chains that agree are returned unchanged. If a few draws
    diverge, all chains draw again, with smaller steps.

    Args:
        chains: Number of chains.
        warmup: Maximum number of adaptation steps of each chain, which are discarded. The warmup
            ends early once the mass matrix has settled. Unless it is shorter than 300 or the
            density is costly, 150 steps of each chain come before it, whose draws give all chains
            one mass matrix.
        draws: Steps of each chain after the warmup.
        thin: Thinning interval of the draws; it saves only memory.
        target_accept: Target acceptance probability; values closer to 1 give smaller steps.
        max_tree_depth: Maximum number of doublings of a trajectory.
        mass_matrix: "dense"; "low_rank", a diagonal with corrections in a few directions;
            "diagonal"; "auto", dense up to 100 coordinates, of low rank up to 1,000 and diagonal
            beyond; or [("a", "b"), ("c",)] for a full matrix of sites a and b, a full matrix of c,
            and a diagonal matrix of the other sites. "auto" is diagonal, too, where correlations
            hardly improve the fit to held-out draws of the first steps.
        chain_method: "parallel", a thread for each chain (at most one per core at a time);
            "sequential", one after the other, with the same draws; "vectorized", all together by
            vmap, for accelerators.
        modes: "weigh": if chains stay in several regions and the shares of the regions can be
            estimated, draw from each region in proportion to its share. The draws then are a single
            row, not chains. "report": the draws of the chains as they ran.
        init: Starts of the chains, as {site: value}. A value has the shape of the site, or a
            leading axis of chains. Other sites start near the modes, as without `init`.
        known: Findings of an earlier fit of the same model, `posterior.findings`. Extra chains
            visit those points of the findings that no chain has reached, as they visit ends of the
            search.
        centring: True to sample location-scale sites, such as the effects of groups, between their
            centred and their non-centred form: as far centred as the data determine each element.
            Draws are those of the sites of the model. With `init`, a `mass_matrix` by site or a
            warmup shorter than 300, and where the density is costly, models keep their own form.
        evidence: True to estimate the log evidence by bridge sampling.
        until: Goal of the run, such as "ess=1000" or "ess=1000, rhat=1.005": chains take further
            batches of `draws`, at most 50, until the bulk and tail ESS and the R-hat (1.01 by
            default) of all coordinates reach it.
        checkpoint: File for the state of the run. An interrupted run resumes from it with the same
            draws.

    Raises:
        ValueError: If an option is out of range or unknown; in `infer`, if the checkpoint belongs
            to another run.
        TypeError: If `known` has a wrong type.

    References:
        Hoffman and Gelman (2014), "The No-U-Turn sampler: adaptively setting path lengths in
        Hamiltonian Monte Carlo"; Seyboldt, Carlson and Carpenter (2026), "Preconditioning
        Hamiltonian Monte Carlo by minimizing Fisher divergence".
    """

    chains: int = 4
    warmup: int = 1000
    draws: int = 1000
    thin: int = 1
    target_accept: float = 0.9
    max_tree_depth: int = 10
    mass_matrix: str | SiteBlocks = "auto"
    chain_method: str = "parallel"
    modes: str = "weigh"
    init: dict[str, Any] | None = None
    known: Findings | None = None
    centring: bool = True
    evidence: bool = False
    until: str | None = None
    checkpoint: str | Path | None = None

    name = "nuts"
    samples_latents = True
    use = "everything else; separate modes get their shares by bridge sampling"
    counts = ("chains", "warmup", "draws", "thin", "max_tree_depth")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws % self.thin:
            raise ValueError(
                f"draws={self.draws} is not a multiple of thin={self.thin}: the last "
                f"{self.draws % self.thin} steps of each chain would be lost. Change draws or thin."
            )
        validation.level(self.target_accept, "target_accept")
        methods = ("parallel", "sequential", "vectorized")
        validation.one_of("chain_method", self.chain_method, methods)
        validation.one_of("modes", self.modes, ("weigh", "report"))
        require_mass_matrix(self.mass_matrix)
        if self.until is not None:
            Goal.parse(self.until)
        if not isinstance(self.known, Findings | None):
            raise TypeError(
                "known must be the findings of a posterior, known=posterior.findings; got "
                f"{type(self.known).__name__}."
            )

    @property
    def centres(self) -> bool:
        keeps_form = self.init is not None or not isinstance(self.mass_matrix, str)
        return self.centring and not keeps_form and self.warmup >= first_chains.MIN_WARMUP

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("NUTS")
        optimum = find_modes(target, seed, progress, self.known)
        sampled, draws = target, None
        if self.warmup >= first_chains.MIN_WARMUP and not is_costly(target):
            draws = self._first_draws(target, optimum, seed, progress)
            if isinstance(target.model, PartlyCentred):
                sampled = centred_target(target, np.concatenate(draws.z))
        file, stages = self._resumed(sampled, seed)
        if stages is None:
            stages = (
                self._initial_stages(target, optimum, seed)
                if draws is None
                else self._stages_after(draws, target, sampled, seed)
            )
        return self._finish(ChainRun(target, sampled, optimum, seed), stages, progress, file)

    def _first_draws(
        self, target: Target, optimum: Optimum | None, seed: int, progress: bool
    ) -> FirstDraws:
        """Draws of the first chains."""
        steps, count = first_chains.WARMUP_STEPS, first_chains.DRAWS
        first = replace(self, warmup=steps, draws=count, thin=1)
        starts = first._initial_stages(target, optimum, seed)
        return FirstDraws.from_stages(
            first._sample(target, starts, progress, title="NUTS: first steps")
        )

    def _stages_after(
        self, draws: FirstDraws, target: Target, sampled: Target, seed: int
    ) -> list[Stage]:
        """First stage of each group, after the first chains."""
        if sampled is not target:
            shape = MetricShape.from_option(sampled, self.mass_matrix)
            draws = draws.recentred(target, sampled, shape)
        points, metric = draws.starts(sampled, may_be_diagonal=self.mass_matrix == "auto")
        # Another seed than that of the first chains.
        stages = self._stages_at(points, [metric] * self.chains, seed + 1)
        steps = draws.leapfrog_steps
        return [replace(s, leapfrog_steps=n) for s, n in zip(stages, steps, strict=True)]

    def _resumed(
        self, target: Target, seed: int
    ) -> tuple[CheckpointFile | None, list[Stage] | None]:
        """The checkpoint file, if there is one, and the stages in it."""
        if self.checkpoint is None:
            return None, None
        file = CheckpointFile(self.checkpoint, "NUTS", target, self._settings(seed))
        return file, read_stages(
            file, target, MetricShape.from_option(target, self.mass_matrix).blocks
        )

    def _finish(
        self, run: ChainRun, stages: list[Stage], progress: bool, file: CheckpointFile | None = None
    ) -> Fit:
        """Fit of chains that run to their end, or until they reach a goal."""
        with Stopwatch() as watch:
            method, stages, reached = self._sample_until(run.sampled, stages, progress, file)
            ends, evidence = method._draw_again_if_divergent(run.sampled, stages, progress)
            rows = joined_rows(ends)
            if ends is stages:
                # The stages refer to `rows`, so that the draws are stored once.
                stages = ends = [s.with_rows(rows, i) for i, s in enumerate(stages)]
            shape = MetricShape.from_option(run.target, self.mass_matrix)
            rows, metric = run.in_form_of_target(rows, ends[0].metrics[0], shape)
            exploration, weighs = method._explore(run, rows, metric)
        evidence |= exploration.evidence | run.evidence
        if weighs:
            fit = method._weighed_fit(exploration, evidence, run.seed)
        else:
            fit = method._plain_fit(rows, exploration, evidence, run.seed)
        if self.until is not None and not reached:
            fit = replace(fit, assess=GoalNotReached(fit.assess, self.until))
        steps = np.array(sum(stage.leapfrog_steps for stage in ends))
        return replace(
            fit,
            timing={"sampling": watch.seconds["run"]},
            trace={"leapfrog_steps": steps},
            continuation=Continuation(method, run, stages),
        )

    # -- sampling ---------------------------------------------------------------------------------

    def _initial_stages(self, target: Target, optimum: Optimum | None, seed: int) -> list[Stage]:
        """First stage of each group of chains."""
        points = initial_points(target, optimum, self.chains, seed)
        if self.init is not None:
            points = start_at(target, points, self.init)
        shape = MetricShape.from_option(target, self.mass_matrix)
        return self._stages_at(points, [shape.metric(point.root) for point in points], seed)

    def _stages_at(
        self, points: list[InitialPoint], metrics: list[Metric], seed: int
    ) -> list[Stage]:
        """First stage of each group of chains, from the start and the metric of each chain."""
        stages = [
            Stage.at(point, metric, key, self.warmup)
            for point, metric, key in zip(
                points, metrics, _chain_keys(seed, self.chains), strict=True
            )
        ]
        return [Stage.of_all(stages)] if self._vectorized else stages

    def _sample(
        self,
        target: Target,
        stages: list[Stage],
        progress: bool,
        file: CheckpointFile | None = None,
        title: str = "NUTS",
    ) -> list[Stage]:
        """Run groups of chains from their stages to the end."""
        groups = [ChainGroup(self._options, target, self._plan, stage) for stage in stages]
        # Devices that share work must run in one order.
        in_order = self.chain_method == "sequential" or current_mesh() is not None
        workers = 1 if in_order else os.cpu_count() or 1
        sample(groups, workers, progress, file, title)
        return [group.stage for group in groups]

    def _sample_until(
        self,
        target: Target,
        stages: list[Stage],
        progress: bool,
        file: CheckpointFile | None,
    ) -> tuple[NUTS, list[Stage], bool]:
        """Run chains to the end; with a goal, take batches of draws until it is reached.

        Returns:
            This method with the number of draws taken, the stages, and False if a goal was not
            reached.
        """
        method, stages = self, self._sample(target, stages, progress, file)
        if self.until is None:
            return method, stages, True
        goal, batch = Goal.parse(self.until), 1
        # A stage from a checkpoint may have more draws than this batch.
        while not (reached := goal.is_reached(joined_rows(stages).z[:, : method._plan.draws])):
            if batch == MAX_BATCHES:
                break
            batch += 1
            method = replace(method, draws=batch * self.draws)
            stages = method._sample(target, stages, progress, file)
        return method, stages, reached

    def _draw_again_if_divergent(
        self,
        target: Target,
        stages: list[Stage],
        progress: bool,
    ) -> tuple[list[Stage], dict[str, Any]]:
        """If a few draws diverge, run all chains again, with smaller steps.

        Steps get smaller until no draw diverges or the target acceptance probability is 0.99. If
        many draws diverge, the model needs another parametrisation, not smaller steps. Chains
        without divergent draws run again, too: to keep them is to prefer chains that have not
        entered the narrow regions where long steps diverge.

        Args:
            target: The model.
            stages: Stages of all chains at their ends.
            progress: True to show a progress bar.

        Returns:
            Stages of all chains; if draws diverged, the target acceptance probability.
        """
        if not divergent_draws(stages).any():
            return stages, {}
        accept, max_accept = self.target_accept, 0.99
        while 0.0 < np.mean(divergent_draws(stages)) < MAX_RETRY_SHARE and accept < max_accept:
            accept = min(max_accept, 1.0 - 0.25 * (1.0 - accept))
            method = replace(self, target_accept=accept)
            # Only the step size adapts anew.
            starts = [stage.before_draws() for stage in stages]
            stages = method._sample(target, starts, progress, title=f"NUTS at {accept:.3g}")
        return stages, {"target_accept": accept}

    # -- regions ----------------------------------------------------------------------------------

    def _explore(
        self, run: ChainRun, rows: Transitions, metric: Metric
    ) -> tuple[Exploration, bool]:
        """Visit points that the chains have missed; estimate the shares of regions.

        Args:
            run: The run.
            rows: Transitions of the chains, in coordinates of `run.target`.
            metric: First metric of further chains.

        Returns:
            The exploration, and True if regions get draws in proportion to their shares.
        """
        optimum, seed = run.optimum, run.seed
        exchanges = Exchanges() if optimum is None else optimum.exchanges
        visits = ChainVisits(run.target, self._options, metric, self._plan, seed)
        exploration = Exploration(run.target, rows, visits, exchanges)
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
        log_evidence = None
        if self.evidence and exploration.hold_one_order:
            log_evidence = exploration.log_evidence(seed)
        elif self.evidence:
            log_evidence = bridge_log_integral(exploration.target, rows.z, seed)
        return Fit(
            z=rows.z,
            assess=ChainAssessment(
                exploration.explored(evidence), shares_unknown=self._wants_shares(exploration)
            ),
            sample_stats=_sample_stats(rows, self.max_tree_depth),
            log_evidence=log_evidence,
            findings=exploration.findings,
        )

    def _weighed_fit(self, exploration: Exploration, evidence: dict[str, Any], seed: int) -> Fit:
        """Fit with draws by the shares of regions, members in random order."""
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
            assess=RegionAssessment(exploration.explored(evidence), stats),
            sample_stats=_sample_stats(mixed, self.max_tree_depth) | {REGION: region_of_draw},
            log_evidence=exploration.log_evidence(seed) if self.evidence else None,
            findings=exploration.findings,
        )

    # -- options ----------------------------------------------------------------------------------

    @property
    def _options(self) -> KernelOptions:
        """Options that the kernel is compiled for."""
        return KernelOptions(np.asarray(self.target_accept), self.max_tree_depth)

    @property
    def _plan(self) -> Plan:
        """Length of a chain."""
        return Plan(self.warmup, self.draws // self.thin, self.thin)

    @property
    def _vectorized(self) -> bool:
        return self.chain_method == "vectorized"

    def _settings(self, seed: int) -> tuple:
        """Seed and options that determine the draws, together with the target."""
        options = (self.warmup, self.target_accept, self.max_tree_depth, self.mass_matrix)
        starts = {k: np.asarray(v, float).tolist() for k, v in (self.init or {}).items()}
        return (seed, self.chains, self.draws, self.thin, *options, self._vectorized, starts)


@dataclass(frozen=True, eq=False)
class Continuation:
    """A finished run of NUTS that can go on.

    Attributes:
        method: The method, with the number of draws taken.
        run: The run.
        stages: Stages of the chains at their ends.
    """

    method: NUTS
    run: ChainRun
    stages: list[Stage]

    def __call__(self, draws: int, progress: bool) -> Fit:
        """Fit of the run with further draws, equal to that of one long run.

        Raises:
            ValueError: If `draws` is not a multiple of the thinning interval.
        """
        method = replace(self.method, draws=self.method.draws + draws, until=None, checkpoint=None)
        return method._finish(self.run, self.stages, progress)


@partial(jax.jit, static_argnames="chains")
def _chain_keys(seed: int, chains: int) -> list[jax.Array]:
    """A random key for each chain."""
    # The first `chains` keys are skipped, since they may have drawn the starts.
    return list(jax.random.split(jax.random.key(seed), 2 * chains)[chains:])


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
