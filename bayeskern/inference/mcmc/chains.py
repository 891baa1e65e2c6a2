"""Run Markov chains in stretches of draws, with a progress bar and a checkpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from bayeskern.core.progress import Progress
from bayeskern.core.sharding import from_first
from bayeskern.inference.mcmc.checkpoint import stage_arrays
from bayeskern.inference.mcmc.kernel import (
    MAX_CALL_DRAWS,
    ChainState,
    KernelOptions,
    Stretch,
    Transitions,
    take_steps,
)
from bayeskern.inference.mcmc.note import RunNote
from bayeskern.inference.mcmc.stage import Stage
from bayeskern.inference.mcmc.warmup import window_ends
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.target import Target

# Approximate duration of a stretch.
STRETCH_SECONDS = 0.5


@dataclass(frozen=True)
class Plan:
    """Length of a chain.

    Attributes:
        warmup: Maximum number of steps of the warmup.
        draws: Draws after the warmup.
        thin: Steps for each draw.
    """

    warmup: int
    draws: int
    thin: int = 1

    def ends_window(self, stage: Stage) -> bool:
        """True at the end of a window, unless the warmup is already set to end early."""
        return stage.done in window_ends(self.warmup) and stage.warmup == self.warmup

    def total(self, stage: Stage) -> int:
        """Steps of the warmup and draws of the chains of a stage."""
        return stage.warmup + self.draws

    def next_stop(self, stage: Stage) -> int:
        """Next end of a window, of the warmup or of the chain."""
        stops = [*window_ends(self.warmup), stage.warmup, self.total(stage)]
        return min(stop for stop in stops if stop > stage.done)


class ChainGroup:
    """One chain, or several chains by vmap, on one thread.

    Args:
        options: The options of the kernel.
        target: The model.
        plan: The length of the chains.
        stage: Stage so far.

    Attributes:
        stage: Stage so far. It is replaced as a whole after each stretch, so that another thread
            may read it at any time.
    """

    def __init__(self, options: KernelOptions, target: Target, plan: Plan, stage: Stage):
        self.options, self.target, self.plan, self.stage = options, target, plan, stage

    @property
    def finished(self) -> bool:
        """True after all draws."""
        return self.stage.done >= self.plan.total(self.stage)

    @property
    def rows(self) -> Transitions:
        """Transitions after warmup, (chains, n, ...)."""
        return Transitions.joined(self.stage.rows, axis=1)

    def run(self, stop: threading.Event | None = None) -> None:
        """Run to the end, or until `stop` is set; stretches do not affect the draws."""
        # The first stretch measures the time of a draw.
        count = 10
        while not (self.finished or (stop is not None and stop.is_set())):
            left = self.plan.next_stop(self.stage) - self.stage.done
            start, taken = time.perf_counter(), min(count, MAX_CALL_DRAWS, left)
            self.stage = self._advance(taken)
            # Processes that share work take the same number of draws.
            pace = float(from_first(np.array(STRETCH_SECONDS / (time.perf_counter() - start))))
            count = max(1, int(taken * min(pace, 10.0)))

    def _advance(self, count: int) -> Stage:
        """Stage after further steps of the warmup, or further draws."""
        state, rows, gradients = self._take_steps(count)
        stage = self.stage
        rows = Transitions(*(stage.by_chain(x)[:, :count].copy() for x in rows))
        if stage.done >= stage.warmup:
            return stage.after_draws(state, rows)
        stage = stage.after_warmup(state, rows, stage.by_chain(gradients)[:, :count])
        if self.plan.ends_window(stage):
            stage = stage.with_new_metrics()
        return stage.without_recent_draws() if stage.done == stage.warmup else stage

    def _take_steps(self, count: int) -> tuple[ChainState, Transitions, jax.Array]:
        """Result of `take_steps`, for steps of the warmup or draws."""
        (state, metric), warms_up = self.stage.stacked, self.stage.done < self.stage.warmup
        thin = 1 if warms_up else self.plan.thin
        stretch = Stretch(np.array(count), np.array(thin), np.array(warms_up))
        steps = take_steps(self.options, self.target, metric, state, stretch)
        return jax.block_until_ready(steps)


def sample(
    groups: Sequence[ChainGroup],
    workers: int,
    progress: bool,
    file: CheckpointFile | None = None,
    title: str = "NUTS",
) -> None:
    """Run groups of chains to the end.

    Args:
        groups: The groups.
        workers: Threads, each of which runs one group at a time.
        progress: True to show a progress bar.
        file: Checkpoint file, which is rewritten from time to time and at the end.
        title: Title of the progress bar.
    """
    unfinished = [g for g in groups if not g.finished]
    # A call without steps compiles the program; otherwise each thread would compile it.
    for group in unfinished[:1]:
        group._take_steps(0)
    stop, note = threading.Event(), RunNote()
    total = sum((g.plan.warmup + g.plan.draws) * g.stage.chains for g in groups)
    with Progress(title, total, progress) as bar, ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(group.run, stop) for group in unfinished}
        try:
            while waiting:
                ended, waiting = wait(waiting, STRETCH_SECONDS, FIRST_EXCEPTION)
                for run in ended:
                    run.result()
                stages = [g.stage for g in groups]
                # A warmup that has ended early counts in full.
                done = [
                    (s.done + g.plan.warmup - s.warmup) * s.chains
                    for g, s in zip(groups, stages, strict=True)
                ]
                bar.to(sum(done), note(stages) if bar.is_shown else "")
                if file is not None:
                    file.write_when_due(partial(stage_arrays, stages), last=False)
        finally:
            stop.set()
            if file is not None:
                file.write_when_due(lambda: stage_arrays([g.stage for g in groups]), last=True)
