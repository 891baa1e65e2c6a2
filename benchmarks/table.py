"""One table of what was measured: tasks, sizes, libraries, and their seconds over ours."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

OURS = "bayeskern"


class Row(NamedTuple):
    """Seconds of one library for one task.

    Ours comes before those that it is compared with; the first word of its name is OURS. seconds:
    of the task itself; gradient: with the gradient of its result.
    """

    task: str
    n: int
    library: str
    seconds: float | None
    gradient: float | None = None


def peer(name: str):
    """The module of another library; None, with a line that says so, where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed and left out: uv run --group bench has it", file=sys.stderr)
        return None


def printed(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, each printed as it comes, with its ratios to ours."""
    header = f"{'N':>9} {'library':21}{'seconds':>10}{'ratio':>7}{'+ gradient':>12}{'ratio':>7}"
    task, mine = None, None
    for row in rows:
        if row.task != task:
            task = row.task
            print(f"\n{task}\n{header}")
        mine = row if row.library.startswith(OURS) else mine
        cells = [
            " " * 17 if s is None else f"{s:10.4f}{s / of_ours:7.2f}" if of_ours else f"{s:10.4f}"
            for s, of_ours in ((row.seconds, mine.seconds), (row.gradient, mine.gradient))
        ]
        print(f"{row.n:9,} {row.library:21}{cells[0]:17}  {cells[1]}", flush=True)
        yield row


def show(rows: Iterable[Row]) -> None:
    """Print all of them."""
    for _ in printed(rows):
        pass
