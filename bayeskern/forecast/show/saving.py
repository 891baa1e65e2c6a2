"""Write texts and figures of a result to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeskern.core.files import atomic_write, together
from bayeskern.core.formatting import spreadsheet_text

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd
    from matplotlib.figure import Figure


def write_files(folder: str | Path, contents: Mapping[str, str | Figure]) -> list[Path]:
    """Write texts and figures by file name to a folder; return their paths.

    If one of them cannot be written, none of them is.
    """
    paths = [Path(folder) / name for name in contents]
    with together():
        for target, content in zip(paths, contents.values(), strict=True):
            with atomic_write(target) as path:
                if isinstance(content, str):
                    path.write_text(content, encoding="utf-8")
                else:
                    content.savefig(path)
    return paths


def csv_text(table: pd.DataFrame) -> str:
    """CSV of a table and its index, with ten digits and without formulas."""
    safe = table.map(_safe).rename(columns=_safe).rename_axis(_safe(table.index.name))
    if safe.index.dtype.kind == "O":
        safe.index = safe.index.map(_safe)
    return safe.to_csv(float_format="%.10g", na_rep="nan", lineterminator="\n")


def spreadsheet_frame(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Frame whose cells and column names a spreadsheet does not run as formulas."""
    import narwhals as nw  # slow to import

    cells = {name: frame[name].to_list() for name in frame.columns}
    safe = [
        nw.new_series(name, list(map(_safe, column)), backend=frame.implementation)
        for name, column in cells.items()
        if any(isinstance(cell, str) for cell in column)
    ]
    return frame.with_columns(*safe).rename({name: _safe(name) for name in cells})


def _safe(cell: Any) -> Any:
    return spreadsheet_text(cell) if isinstance(cell, str) else cell
