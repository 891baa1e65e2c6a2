"""A cache of the last few results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock


class ResultCache:
    """Thread-safe cache of the `max_results` most recently used results."""

    def __init__(self, max_results: int):
        self._max_results = max_results
        self._results: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = Lock()

    def recall[T](self, key: Hashable, compute: Callable[[], T]) -> T:
        """Cached result for a key, or the result of `compute()`.

        Args:
            key: Everything that the result depends on.
            compute: Function that computes the result.
        """
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]  # pyright: ignore[reportReturnType]
        result = compute()
        with self._lock:
            self._results[key] = result
            while len(self._results) > self._max_results:
                self._results.popitem(last=False)
        return result

    def __reduce__(self) -> tuple[type[ResultCache], tuple[int]]:
        # Another process starts with an empty cache.
        return ResultCache, (self._max_results,)
