"""One model at a time: NumPyro keeps the handlers of all threads in one stack."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

_LOCK = threading.RLock()


def by_one_thread(function: Callable) -> Callable:
    """The function, which runs a NumPyro model, run by one thread at a time.

    A compiled function runs its model only while it is traced, so that nothing waits while it
    computes.
    """

    @functools.wraps(function)
    def locked(*args, **kwargs):
        with _LOCK:
            return function(*args, **kwargs)

    return locked
