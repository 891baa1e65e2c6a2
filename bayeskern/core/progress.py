"""A progress bar, on a terminal only, which disappears when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

from tqdm import tqdm

from bayeskern.core.sharding import processes

# Seconds after which work that nobody sees a bar of says how long it will take.
LONG = 3.0
_is_hidden: ContextVar[bool] = ContextVar("is_hidden", default=False)


@contextmanager
def hidden_progress() -> Iterator[None]:
    """Hide all progress bars in this context: for parts of work that has a bar of its own."""
    token = _is_hidden.set(True)
    try:
        yield
    finally:
        _is_hidden.reset(token)


class Progress:
    """`with Progress("MAP", total, enabled) as bar: bar.to(done, "a note")`."""

    def __init__(
        self,
        title: str,
        total: int,
        enabled: bool = True,
        delay: float = 0.0,
        estimate: bool = False,
    ):
        """delay: the seconds after which the bar appears.

        estimate: whether to write one line where there is no terminal, on how long it will take.
        """
        # Of several processes the first one speaks.
        first, _ = processes()
        enabled = enabled and first == 0 and not _is_hidden.get()
        terminal = sys.stderr.isatty()
        self._title, self._total, self._done, self._start = title, total, 0, perf_counter()
        self._estimate = enabled and estimate and not terminal
        self._bar = tqdm(
            total=total, desc=title, disable=not (enabled and terminal), leave=False, delay=delay
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._bar.close()

    def to(self, done: int, note: str = "") -> None:
        """Show that `done` of the total is done."""
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        taken = perf_counter() - self._start
        if self._estimate and done and taken > LONG:
            more = taken * max(self._total - done, 0) / done
            print(f"{self._title}: about {more:.0f} s more", file=sys.stderr)
            self._estimate = False

    def advance(self) -> None:
        """Show that one more is done."""
        self.to(self._done + 1)
