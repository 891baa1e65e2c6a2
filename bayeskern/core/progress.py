"""A progress bar, on a terminal only, which disappears when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Self

from tqdm import tqdm

from bayeskern.core.formatting import printable
from bayeskern.core.sharding import processes

_is_hidden: ContextVar[bool] = ContextVar("is_hidden", default=False)


@contextmanager
def hidden_progress() -> Iterator[None]:
    """Hide progress bars in this context, because the caller shows a bar of its own."""
    token = _is_hidden.set(True)
    try:
        yield
    finally:
        _is_hidden.reset(token)


class Progress:
    """Progress bar on a terminal.

    Usage: `with Progress("MAP", total, enabled) as bar: bar.to(done, "a note")`.

    Attributes:
        estimate_after: Seconds after which the remaining time is printed without a terminal.
    """

    estimate_after: float = 3.0

    def __init__(
        self,
        title: str,
        total: int,
        enabled: bool = True,
        delay: float = 0.0,
        estimate: bool = False,
    ):
        """Show a bar on a terminal.

        Args:
            title: Text before the bar.
            total: Number of steps.
            enabled: False for no output at all.
            delay: Seconds after which the bar appears.
            estimate: True to print one line with the remaining time if there is no terminal.
        """
        # Only the first of several processes shows the bar.
        process_index, _ = processes()
        enabled = enabled and process_index == 0 and not _is_hidden.get()
        terminal = sys.stderr.isatty()
        title = printable(title)
        self._title, self._total, self._done, self._start = title, total, 0, perf_counter()
        self._estimate = enabled and estimate and not terminal
        self._bar = tqdm(
            total=total, desc=title, disable=not (enabled and terminal), leave=False, delay=delay
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def to(self, done: int, note: str = "") -> None:
        """Show that `done` steps of the total are done."""
        self._bar.set_postfix_str(printable(note), refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        taken = perf_counter() - self._start
        if self._estimate and done and taken > self.estimate_after:
            remaining = taken * max(self._total - done, 0) / done
            print(f"{self._title}: about {remaining:.0f} s more", file=sys.stderr)
            self._estimate = False

    def advance(self) -> None:
        """Show that one more step is done."""
        self.to(self._done + 1)
