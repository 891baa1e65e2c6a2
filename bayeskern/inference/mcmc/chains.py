"""Markov chains run in stretches, so that progress shows and a checkpoint can be kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import HMCState

from bayeskern.core.progress import Progress
from bayeskern.core.sharding import from_first
from bayeskern.inference.mcmc.kernel import (
    ROWS,
    KernelOptions,
    ScaledTarget,
    Transitions,
    take_steps,
    take_steps_vectorized,
)
from bayeskern.inference.model.target import Target

# About how many seconds a stretch takes, and how many steps the first one has.
STRETCH = 0.5
FIRST = 10


class ChainProgress(NamedTuple):
    """How far a group of chains has come.

    state: of the kernel, with an axis of chains in front if they run together, and none for a
    single chain; scale: of its coordinates, as in `ScaledTarget`; done: how many steps; rows: the
    transitions after warmup, stretch by stretch, (chains, n, ...) each.
    """

    state: HMCState
    scale: np.ndarray
    done: int = 0
    rows: tuple[Transitions, ...] = ()

    @property
    def chains(self) -> int:
        return self.state.i.size


class ChainGroup:
    """One chain, or several in step, that run on one thread.

    `stage` is replaced as a whole after each stretch, so another thread may read it at any time.
    """

    def __init__(self, options: KernelOptions, target: Target, steps: int, stage: ChainProgress):
        self.options, self.steps, self.stage = options, steps, stage
        self.density = ScaledTarget(target, jnp.asarray(stage.scale))

    @property
    def finished(self) -> bool:
        return self.stage.done == self.steps

    @property
    def rows(self) -> Transitions:
        """The transitions after warmup, (chains, n, ...)."""
        return _joined(self.stage.rows, axis=1)

    def run(self, stop: threading.Event) -> None:
        """Run to the end, or until `stop` is set. The draws do not depend on the stretches."""
        steps = FIRST
        while not self.finished and not stop.is_set():
            steps = min(steps, ROWS, self.steps - self.stage.done)
            start = time.perf_counter()
            self.stage = self._further(steps)
            # Processes that share work take the same steps together.
            pace = float(from_first(np.array(STRETCH / (time.perf_counter() - start))))
            steps = max(1, int(steps * min(pace, 10.0)))

    def compile(self) -> None:
        """Compile by taking no step."""
        self._call(0)

    def _further(self, steps) -> ChainProgress:
        state, rows = self._call(steps)
        done = self.stage.done
        first = max(0, self.options.warmup - done)
        together = self.stage.state.i.ndim == 1

        def after_warmup(x):
            x = np.asarray(x)
            return (x if together else x[None])[:, first:steps].copy()

        new = (Transitions(*map(after_warmup, rows)),) if first < steps else ()
        return ChainProgress(state, self.stage.scale, done + steps, self.stage.rows + new)

    def _call(self, steps):
        call = take_steps_vectorized if self.stage.state.i.ndim == 1 else take_steps
        return jax.block_until_ready(
            call(self.options, self.density, self.stage.state, jnp.asarray(steps))
        )


def sample(
    groups: list[ChainGroup], workers: int, progress: bool, save: Callable, title: str = "NUTS"
) -> Transitions:
    """Run the groups, `workers` at a time: rows (chains, draws, ...) of all of them.

    save(stages) is called now and then, and when the run ends or is interrupted.
    """
    unfinished = [g for g in groups if not g.finished]
    # Before there are threads, which would each compile.
    for group in unfinished[:1]:
        group.compile()
    total, stop = sum(g.steps * g.stage.chains for g in groups), threading.Event()
    with Progress(title, total, progress) as bar, ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(group.run, stop) for group in unfinished]
        try:
            while waiting:
                ended, waiting = wait(waiting, STRETCH, FIRST_EXCEPTION)
                for run in ended:
                    run.result()
                stages = [g.stage for g in groups]
                bar.to(sum(s.done * s.chains for s in stages), _note(stages))
                save(stages)
        finally:
            stop.set()
            save([g.stage for g in groups], last=True)
    return _joined([group.rows for group in groups], axis=0)


def _note(stages) -> str:
    diverging = sum(int(np.sum(rows.diverging)) for s in stages for rows in s.rows)
    return f"{diverging} divergences" if diverging else ""


def _joined(rows, axis) -> Transitions:
    """Rows that follow in time, axis 1, or of chains side by side, axis 0."""
    return Transitions(*(np.concatenate(x, axis=axis) for x in zip(*rows, strict=True)))
