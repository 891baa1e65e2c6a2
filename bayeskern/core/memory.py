"""What the last few calls gave."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock


class Memory:
    """The results of the last few different calls, for calls that are often made again."""

    def __init__(self, most: int):
        self._most, self._kept, self._lock = most, OrderedDict(), Lock()

    def recall[T](self, key: Hashable, compute: Callable[[], T]) -> T:
        """What compute() gave when the key was last asked for, or what it gives now.

        key: what compute depends on, all of it.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        result = compute()
        with self._lock:
            self._kept[key] = result
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return result
