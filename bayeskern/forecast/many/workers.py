"""Parallel forecasts on the cores of this machine or on a Dask cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import numpy as np

from bayeskern.core import extras, validation
from bayeskern.core.formatting import message_of
from bayeskern.core.progress import Progress, hidden_progress
from bayeskern.core.threads import without_threads
from bayeskern.series.series import Series

# Maximum number of times that the processes are started, if some are killed.
MAX_STARTS = 3


def run_all[Result](
    work: Callable[[Series], Result],
    reads: Sequence[Callable[[], Series]],
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
    receive: Callable[[int, Result | str], Result | str] | None = None,
) -> list[Result | str]:
    """Result for each series, in order; the error message as text if a series fails.

    If a worker is killed, another worker gets its series.

    Args:
        work: Function of a series.
        reads: A function () -> Series for each series.
        workers: Number of processes; None for one per core, or 1 for fewer than 8 series.
        scheduler: Address of a Dask scheduler, or "local" to start one on this machine; None for
            processes.
        progress: Show a progress bar.
        receive: Function (index of the series, result) -> result to return, called as soon as a
            result arrives.
    """
    if workers is not None:
        workers = validation.positive_integer(workers, "workers")
    if scheduler is not None:
        numbered = _run_on_dask(work, reads, workers, scheduler)
    else:
        # Starting processes takes longer than a few forecasts.
        default = 1 if len(reads) < 8 else min(os.cpu_count() or 1, len(reads))
        numbered = _run_on_cores(work, reads, workers or default)
    results = {}
    with Progress("forecasts", len(reads), progress, estimate=True) as bar:
        for i, result in numbered:
            results[i] = result if receive is None else receive(i, result)
            bar.advance()
    killed = "its workers were killed, possibly for lack of memory; use fewer workers."
    for i in set(range(len(reads))) - results.keys():
        results[i] = killed if receive is None else receive(i, killed)
    return [results[i] for i in range(len(reads))]


def _run[Result](
    work: Callable[[Series], Result], numbered: Sequence[tuple[int, Callable[[], Series]]]
) -> list[tuple[int, Result | str]]:
    """Numbered results of some series; a numerical or value error becomes its message."""
    results = []
    for i, read in numbered:
        try:
            with hidden_progress():
                result = work(read())
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            result = message_of(error)
        results.append((i, result))
    return results


def _run_in_worker[Result](
    work: Callable[[Series], Result],
    numbered: Sequence[tuple[int, Callable[[], Series]]],
    parent: int | None = None,
) -> list[tuple[int, Result | str]]:
    """As `_run`, in one of several processes.

    parent: Process soon after whose end this process ends, too; None if another program ends it.
    """
    if parent is not None:
        _end_with(parent)
    with without_threads():
        return _run(work, numbered)


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """End this process within a second of its parent, even if the parent is killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()


def _run_on_cores(
    work: Callable[[Series], Any],
    reads: Sequence[Callable[[], Series]],
    workers: int,
) -> Iterator[tuple[int, Any]]:
    """Numbered results from processes of this machine, as they arrive."""
    remaining = dict(enumerate(reads))
    if workers == 1:
        for item in remaining.items():
            yield from _run(work, [item])
        return
    from joblib import Parallel, delayed  # slow to import
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    for _ in range(MAX_STARTS):
        pool = Parallel(n_jobs=workers, return_as="generator_unordered")
        try:
            parent = os.getpid()
            batches = pool(
                delayed(_run_in_worker)(work, [item], parent) for item in [*remaining.items()]
            )
            for ((i, result),) in batches:  # pyright: ignore[reportGeneralTypeIssues]
                del remaining[i]
                yield i, result
            return
        except TerminatedWorkerError:
            continue


def _run_on_dask(
    work: Callable[[Series], Any],
    reads: Sequence[Callable[[], Series]],
    workers: int | None,
    scheduler: str,
    batch_size: int = 4,
) -> Iterator[tuple[int, Any]]:
    """Numbered results from the workers of a Dask scheduler, as they arrive.

    batch_size: Number of series per message; a larger one saves the time of messages.
    """
    with extras.needed_for("scheduler=", package="distributed", extra="dask"):
        from dask.distributed import Client, KilledWorker, LocalCluster, as_completed
    if scheduler != "local" and workers is not None:
        raise ValueError(
            "workers= is for this machine and cannot be used with the address of a scheduler; "
            "remove one of the two."
        )
    with ExitStack() as stack:
        if scheduler == "local":
            # One series at a time in each process; no dashboard.
            options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
            address = stack.enter_context(LocalCluster(n_workers=workers, **options))
        else:
            address = scheduler
        try:
            client = Client(address, timeout="30s", set_as_default=False)
            stack.enter_context(client)
        except (OSError, ValueError) as error:
            raise ValueError(f"scheduler={scheduler!r} does not answer: {error}") from None
        numbered = [*enumerate(reads)]
        batches = [numbered[i : i + batch_size] for i in range(0, len(reads), batch_size)]
        futures = [client.submit(_run_in_worker, work, batch, pure=False) for batch in batches]
        # Without the loop, as_completed asks for the default client.
        for future in as_completed(futures, loop=client.loop):
            try:
                yield from future.result()
            except KilledWorker:
                # Several workers died on this batch: its series have no results.
                continue
