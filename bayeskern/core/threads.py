"""How linear algebra is divided over threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock

from threadpoolctl import OpenBLASController, ThreadpoolController

# From matrices of so many rows on NumPy spends its time where other threads can run.
PARALLEL_FROM = 200
# From matrices of so many rows on two threads factor and invert one faster than one thread does.
SEVERAL_FROM = 256

_lock = Lock()
_users = 0
_limits = None


@cache
def _controller() -> ThreadpoolController:
    # It reads the list of all loaded libraries, which takes milliseconds.
    return ThreadpoolController()


@contextmanager
def one_blas_thread():
    """A context in which NumPy and SciPy take one thread, for work that is divided in another way.

    It may be entered again inside, and from several threads: the last to leave restores what was.
    """
    global _users, _limits
    with _lock:
        if _users == 0:
            with _in_control():
                _limits = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                with _in_control():
                    _limits.restore_original_limits()


@contextmanager
def _in_control():
    """A context in which this thread can set the number of threads of OpenBLAS.

    The first thread that sets it would otherwise be the only one that can, for as long as it lives.
    """
    OpenBLASController.clear_controlling_thread(force=True)
    yield
    OpenBLASController.clear_controlling_thread(force=True)


def blas_threads_for(n: int):
    """A context for linear algebra on one matrix n x n: one thread where several would only wait.

    They wait by spinning, which takes the processor from whatever else runs.
    """
    return one_blas_thread() if n < SEVERAL_FROM else nullcontext()


def side_by_side(function, items, n: int) -> list:
    """function(item) of each, in threads where matrices of n x n make that faster."""
    if n < PARALLEL_FROM or len(items) < 2:
        return [function(item) for item in items]
    return in_threads(function, items)


def in_threads(function, items) -> list:
    """function(item) of each, as many at a time as there are processors."""
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
