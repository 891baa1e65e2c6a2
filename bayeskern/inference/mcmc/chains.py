"""Run Markov chains in stretches of steps, with a progress bar and a checkpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.core.progress import Progress
from bayeskern.core.sharding import from_first
from bayeskern.inference.mcmc.checkpoint import stage_arrays
from bayeskern.inference.mcmc.kernel import (
    MAX_CALL_STEPS,
    ChainProgress,
    KernelOptions,
    ScaledTarget,
    Transitions,
    take_steps,
)
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.target import Target

# Approximate duration of a stretch of steps.
STRETCH_SECONDS = 0.5


class ChainGroup:
    """One chain, or several vectorized chains, on one thread.

    Args:
        options: The options of the kernel.
        target: The model.
        steps: Total number of steps.
        stage: Progress so far.

    Attributes:
        stage: Progress so far. It is replaced as a whole after each stretch, so that another
            thread may read it at any time.
    """

    def __init__(self, options: KernelOptions, target: Target, steps: int, stage: ChainProgress):
        self.options, self.steps, self.stage = options, steps, stage
        self.density = ScaledTarget(target, jnp.asarray(stage.scale))

    @property
    def finished(self) -> bool:
        """True after all steps."""
        return self.stage.done == self.steps

    @property
    def rows(self) -> Transitions:
        """Transitions after warmup, (chains, n, ...)."""
        return Transitions.joined(self.stage.rows, axis=1)

    def run(self, stop: threading.Event | None = None) -> None:
        """Run to the end, or until `stop` is set; stretches do not change the draws."""
        # The first steps measure the pace.
        steps = 10
        while not (self.finished or (stop is not None and stop.is_set())):
            steps = min(steps, MAX_CALL_STEPS, self.steps - self.stage.done)
            start = time.perf_counter()
            self.stage = self._advance(steps)
            # Processes that share work take the same number of steps.
            pace = float(from_first(np.array(STRETCH_SECONDS / (time.perf_counter() - start))))
            steps = max(1, int(steps * min(pace, 10.0)))

    def _advance(self, steps: int) -> ChainProgress:
        """Progress after further steps."""
        state, rows = self._take_steps(steps)
        done, vectorized = self.stage.done, self.stage.state.i.ndim == 1
        first = max(0, self.options.warmup - done)
        new_rows = self.stage.rows
        if first < steps:
            arrays = (np.asarray(x) if vectorized else np.asarray(x)[None] for x in rows)
            new_rows += (Transitions(*(x[:, first:steps].copy() for x in arrays)),)
        return ChainProgress(state, self.stage.scale, done + steps, new_rows)

    def _take_steps(self, steps: int) -> tuple[HMCState, Transitions]:
        state, count = self.stage.state, jnp.asarray(steps)
        return jax.block_until_ready(take_steps(self.options, self.density, state, count))


def sample(
    groups: Sequence[ChainGroup],
    workers: int,
    progress: bool,
    file: CheckpointFile | None = None,
    title: str = "NUTS",
) -> Transitions:
    """Run groups of chains to the end.

    Args:
        groups: The groups.
        workers: Threads, each of which runs one group at a time.
        progress: True to show a progress bar.
        file: Checkpoint file, which is kept up to date.
        title: Title of the progress bar.

    Returns:
        Transitions after warmup of all chains, (chains, draws, ...).
    """
    unfinished = [g for g in groups if not g.finished]
    # A call without steps compiles the program; otherwise each thread would compile it.
    for group in unfinished[:1]:
        group._take_steps(0)
    total, stop = sum(g.steps * g.stage.state.i.size for g in groups), threading.Event()
    with Progress(title, total, progress) as bar, ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(group.run, stop) for group in unfinished}
        try:
            while waiting:
                ended, waiting = wait(waiting, STRETCH_SECONDS, FIRST_EXCEPTION)
                for run in ended:
                    run.result()
                stages = [g.stage for g in groups]
                diverging = sum(int(np.sum(r.diverging)) for stage in stages for r in stage.rows)
                note = f"{diverging} divergences" if diverging else ""
                bar.to(sum(s.done * s.state.i.size for s in stages), note)
                if file is not None:
                    file.write_when_due(partial(stage_arrays, stages), last=False)
        finally:
            stop.set()
            if file is not None:
                file.write_when_due(lambda: stage_arrays([g.stage for g in groups]), last=True)
    return Transitions.joined([group.rows for group in groups], axis=0)
