"""Text that commands print, checks of output paths, and files that commands write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import bayeskern as bk
from bayeskern.core import files
from bayeskern.core.formatting import printable, printable_lines


def say(text: object = "") -> None:
    """Print text; names from files cannot control the terminal."""
    print(printable_lines(text))


def require_target(target: Path, source: str) -> None:
    """Raise an error if the folder is not writable, or the target is the source."""
    files.require_writable(target.parent)
    require_not_input(target, source)


def require_not_input(target: Path, *sources: str | Path) -> None:
    """Raise ValueError if the target is one of the input files."""
    for path in sources:
        if Path(path).resolve() == target.resolve():
            raise ValueError(f"{path} is an input and would be replaced; write to another file.")


def write_report(
    subject: bk.Forecast | bk.Forecasts | bk.Posterior | Mapping[str, bk.Posterior],
    path: Path,
    seed: int,
    title: str = "",
) -> Path:
    """Write a report. title: Heading of the page; "" for the default."""
    from bayeskern.reports import report  # slow to import

    return report(subject, path, seed=seed, title=title or None)


def print_written(paths: Sequence[Path]) -> None:
    """Print the paths of the files that a command has written."""
    say("\n".join(["\nwritten:", *(f"  {printable(path)}" for path in paths)]))
