"""A progress bar, on a terminal only; it goes when the work is done."""

from __future__ import annotations

import sys

from tqdm import tqdm


class Progress:
    """`with Progress("MAP", total, wanted) as bar: bar.to(done, "a note")`."""

    def __init__(self, title: str, total: int, wanted: bool = True, delay: float = 0.0):
        """delay: seconds that the work must take before it is worth a bar."""
        quiet = not wanted or not sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=title, disable=quiet, leave=False, delay=delay)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._bar.close()

    def to(self, done: int, note: str = "") -> None:
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)
