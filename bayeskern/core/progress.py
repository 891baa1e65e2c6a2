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
        estimate_after: Seconds of steps after which the remaining time is printed without a
            terminal.
        min_steps, min_share: Number of steps, or share of the total, that an estimate needs.
        two_steps_after: Seconds of steps after which two steps suffice for an estimate.
    """

    estimate_after: float = 3.0
    min_steps: int = 8
    min_share: float = 0.2
    two_steps_after: float = 20.0

    def __init__(
        self,
        title: str,
        total: float,
        enabled: bool = True,
        delay: float = 0.0,
        estimate: bool = False,
        even: bool = True,
    ):
        """Show a bar on a terminal.

        Args:
            title: Text before the bar.
            total: Number of steps, or sum of their costs.
            enabled: False for no output at all.
            delay: Seconds after which the bar appears.
            estimate: True to print the remaining time if there is no terminal.
            even: False if the times of steps differ too much for an estimate, even on a terminal.
        """
        # Only the first of several processes shows the bar.
        process_index, _ = processes()
        enabled = enabled and process_index == 0 and not _is_hidden.get()
        terminal = sys.stderr.isatty()
        title = printable(title)
        self._title, self._total, self._done = title, total, 0.0
        self._estimate = enabled and estimate and not terminal
        # Time and work done after the first step, and number of steps since. The first step is not
        # representative: it starts processes, loads libraries and fills caches.
        self._first: tuple[float, float] | None = None
        self._steps = 0
        self._expected_end = 0.0
        remaining = "<{remaining}" if even else ""
        self._bar = tqdm(
            total=total,
            desc=title,
            disable=not (enabled and terminal),
            leave=False,
            delay=delay,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}" + remaining + "{postfix}",
        )

    @property
    def is_shown(self) -> bool:
        """True if there is a bar on a terminal."""
        return not self._bar.disable

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def to(self, done: float, note: str = "") -> None:
        """Show that `done` of the total is done."""
        self._bar.set_postfix_str(printable(note), refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        if self._estimate and done:
            self._print_estimate(perf_counter())

    def advance(self, cost: float = 1.0) -> None:
        """Show that one more step is done."""
        self.to(self._done + cost)

    def _print_estimate(self, now: float) -> None:
        """Print the remaining time once it is known, and again if it doubles."""
        if self._first is None:
            self._first = now, self._done
            return
        self._steps += 1
        (start, before), left = self._first, max(self._total - self._done, 0.0)
        taken, done = now - start, self._done - before
        is_known = self._steps >= self.min_steps or done >= self.min_share * self._total
        is_known |= taken > self.two_steps_after and self._steps >= 2
        if taken < self.estimate_after or not is_known or not left:
            return
        seconds = taken * left / done
        expected = max(self._expected_end - now, self.estimate_after)
        if self._expected_end and seconds < 2.0 * expected:
            return
        self._expected_end = now + seconds
        print(f"{self._title}: about {duration(seconds)} more", file=sys.stderr)


def duration(seconds: float) -> str:
    """Time in words, rounded: "40 s", "3 min", "2 hours"."""
    if seconds < 100.0:
        return f"{float(f'{max(seconds, 1.0):.1g}'):.0f} s"
    if seconds < 6000.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.0f} hours"
