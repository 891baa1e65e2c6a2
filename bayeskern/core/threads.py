"""Limit the threads of linear algebra, and divide work over threads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Lock

from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = Lock()
# Open contexts of each kind: divided work, small matrices, large matrices.
_contexts: Counter[str] = Counter()
_limits = None
_without_threads = ContextVar("_without_threads", default=False)


@cache
def _controller() -> ThreadpoolController:
    # Cached: it reads the list of all loaded libraries, which takes milliseconds.
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager:
    """Context in which NumPy and SciPy use one thread, for work divided otherwise.

    Several threads may enter it, also repeatedly. The last exit restores the number of threads.
    """
    return _blas_context("divided")


def blas_threads_for(n: int) -> AbstractContextManager:
    """Context for linear algebra on n x n matrices: one thread for small matrices.

    Idle threads spin, which takes the processor from other work. Within a context for small
    matrices, one for a large matrix has all threads.
    """
    # With 256 rows or more, two threads factor and invert faster than one.
    return _blas_context("small" if n < 256 else "large")


@contextmanager
def _blas_context(kind: str) -> Iterator[None]:
    with _lock:
        _contexts[kind] += 1
        _limit_blas()
    try:
        yield
    finally:
        with _lock:
            _contexts[kind] -= 1
            _limit_blas()


def _limit_blas() -> None:
    """Limit the threads of BLAS, or restore their number, as the open contexts require."""
    global _limits
    has_small_only = _contexts["small"] > 0 and _contexts["large"] == 0
    is_limited = _contexts["divided"] > 0 or has_small_only
    if is_limited and _limits is None:
        with _controlling_blas():
            _limits = _controller().limit(limits=1, user_api="blas")
    elif not is_limited and _limits is not None:
        with _controlling_blas():
            _limits.restore_original_limits()
        _limits = None


@contextmanager
def _controlling_blas() -> Iterator[None]:
    """Context in which this thread can set the number of threads of OpenBLAS.

    Without it, only the first thread that sets the number can change it again.
    """
    OpenBLASController.clear_controlling_thread(force=True)
    yield
    OpenBLASController.clear_controlling_thread(force=True)


def side_by_side[T, R](function: Callable[[T], R], items: Sequence[T], n: int) -> list[R]:
    """function(item) of each item, in threads if that is faster for n x n matrices."""
    # With 200 rows or more, NumPy spends its time in code that releases the interpreter lock.
    if n < 200 or len(items) < 2:
        return [function(item) for item in items]
    return in_threads(function, items)


@contextmanager
def without_threads() -> Iterator[None]:
    """Context in which `in_threads` starts no threads.

    Where each core has a process already, threads gain nothing, and their matrices take up memory.
    """
    token = _without_threads.set(True)
    try:
        yield
    finally:
        _without_threads.reset(token)


def in_threads[T, R](function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """function(item) of each item, in as many threads as there are processors.

    In these threads, as in `without_threads`, further calls take their items one after the other.
    """
    if _without_threads.get():
        with one_blas_thread():
            return [function(item) for item in items]
    # Settings of this thread, such as `numpy.errstate`, hold in the others, too.
    context = copy_context()
    context.run(_without_threads.set, True)
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda item: context.copy().run(function, item), items))
