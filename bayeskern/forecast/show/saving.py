"""Write texts and figures of a result to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bayeskern.core.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_files(folder: str | Path, contents: Mapping[str, str | Figure]) -> list[Path]:
    """Write texts and figures, given by file name, to a folder; return their paths."""
    paths = [Path(folder) / name for name in contents]
    for target, content in zip(paths, contents.values(), strict=True):
        with atomic_write(target) as path:
            if isinstance(content, str):
                path.write_text(content, encoding="utf-8")
            else:
                content.savefig(path)
    return paths
