"""A progress bar, on a terminal only, which disappears when the work is done."""

from __future__ import annotations

import sys

from tqdm import tqdm


class Progress:
    """`with Progress("MAP", total, enabled) as bar: bar.to(done, "a note")`."""

    def __init__(self, title: str, total: int, enabled: bool = True, delay: float = 0.0):
        """delay: the seconds after which the bar appears."""
        disabled = not enabled or not sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=title, disable=disabled, leave=False, delay=delay)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._bar.close()

    def to(self, done: int, note: str = "") -> None:
        """Show that `done` of the total is done."""
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)

    def advance(self) -> None:
        """Show that one more is done."""
        self._bar.update()
