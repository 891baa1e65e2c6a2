"""How many threads linear algebra takes."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

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
