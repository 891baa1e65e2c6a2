"""Lock around NumPyro models: all threads share the stack of handlers in NumPyro."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

_LOCK = threading.RLock()


def by_one_thread[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Serialise calls of a function that runs a NumPyro model.

    Threads wait for one another only while JAX traces the model; compiled code runs no model.
    """

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        with _LOCK:
            return function(*args, **kwargs)

    return locked
