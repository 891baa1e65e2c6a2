"""A lock around NumPyro models: NumPyro keeps the handlers of all threads in one stack."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

_LOCK = threading.RLock()


def by_one_thread[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Let one thread at a time run a function that runs a NumPyro model.

    Compiled code runs no model: threads wait for one another while they trace, not while they
    compute.
    """

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        with _LOCK:
            return function(*args, **kwargs)

    return locked
