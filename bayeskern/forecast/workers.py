"""Many forecasts, shared out over processes of this machine or over machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from bayeskern.core import extras, validation
from bayeskern.core.progress import Progress

# For fewer series than this it does not pay to start processes.
FEW = 8
# So many workers may die before the series that are left are given up.
MOST_DEATHS = 3
# How many series a machine is given at a time: each way there and back takes a while.
TOGETHER = 4
# The name of a scheduler that is started here.
LOCAL = "local"


class Work(Protocol):
    """What a process needs to do its part."""

    def run(self):
        """The result, which goes back to this process."""


def run_all(
    jobs: Sequence[Work], died, workers: int | None, scheduler: str | None, progress: bool
) -> list:
    """The results in the order of the jobs. A worker that dies loses none of them.

    died: the result of a job on which several workers died; workers: how many processes; scheduler:
    that of Dask, "local" for one of this machine.
    """
    if workers is not None:
        workers = validation.positive_integer(workers, "workers")
    if scheduler is not None:
        done = _on_machines(jobs, workers, scheduler)
    else:
        few = 1 if len(jobs) < FEW else min(os.cpu_count() or 1, len(jobs))
        done = _on_cores(jobs, workers or few)
    found = {}
    with Progress("forecasts", len(jobs), progress, estimate=True) as bar:
        for i, one in done:
            found[i] = one
            bar.advance()
    return [found.get(i, died) for i in range(len(jobs))]


def _on_cores(jobs: Sequence[Work], workers: int) -> Iterator[tuple[int, Any]]:
    """Results with the numbers of their jobs, as they come, from processes of this machine."""
    if workers == 1:
        for i, job in enumerate(jobs):
            yield i, job.run()
        return
    # Here, since it takes a while to import.
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = dict(enumerate(jobs))
    for _ in range(MOST_DEATHS):
        pool = Parallel(n_jobs=workers, return_as="generator_unordered")
        try:
            for i, one in pool(delayed(_numbered)(i, job) for i, job in [*left.items()]):
                del left[i]
                yield i, one
            return
        except TerminatedWorkerError:
            # What it had in hand is done again.
            continue


def _on_machines(
    jobs: Sequence[Work], workers: int | None, scheduler: str
) -> Iterator[tuple[int, Any]]:
    """The same from the workers of a scheduler of Dask, which gives again what one had in hand."""
    with extras.needed_for("scheduler=", package="distributed", extra="dask"):
        from dask.distributed import Client, KilledWorker, LocalCluster, as_completed
    if scheduler != LOCAL and workers is not None:
        raise ValueError("workers= is for this machine: those of a scheduler are what it has.")
    with ExitStack() as opened:
        if scheduler == LOCAL:
            # Processes of one thread, since NumPy takes more where it can; no page of its own.
            one = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
            address = opened.enter_context(LocalCluster(n_workers=workers, **one))
        else:
            address = scheduler
        try:
            client = opened.enter_context(Client(address, timeout="30s"))
        except (OSError, ValueError) as error:
            raise ValueError(f"scheduler={scheduler!r} does not answer: {error}") from None
        parts = [range(i, min(i + TOGETHER, len(jobs))) for i in range(0, len(jobs), TOGETHER)]
        futures = {
            client.submit(_several, [jobs[i] for i in part], pure=False): part for part in parts
        }
        for future in as_completed(futures):
            try:
                results = future.result()
            except KilledWorker:
                # Several workers died on it, which is said of its series.
                continue
            yield from zip(futures[future], results, strict=True)


def _numbered(i: int, job: Work) -> tuple[int, Any]:
    return i, job.run()


def _several(jobs: Sequence[Work]) -> list:
    return [job.run() for job in jobs]
