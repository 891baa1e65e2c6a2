"""How linear algebra is divided over threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

# From matrices of so many rows on NumPy spends its time where other threads can run.
PARALLEL_FROM = 200

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
            _limits = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()


def side_by_side(function, items, n: int) -> list:
    """function(item) of each, in threads where matrices of n x n make that faster."""
    if n < PARALLEL_FROM or len(items) < 2:
        return [function(item) for item in items]
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
