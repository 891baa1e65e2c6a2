"""Cells of a table as numbers."""

from __future__ import annotations

import numpy as np

MISSING = {"", "na", "n/a", "<na>", "nan", "nat", "null", "none", "."}
DECIMAL_COMMA = r"[+-]?\d*,\d+([eE][+-]?\d+)?"
# Numbers with a decimal comma in which it may part thousands instead.
THOUSANDS = r"[+-]?[1-9]\d{0,2},\d{3}"


def parse_numbers(cells, name: str) -> np.ndarray:
    """Numbers, (n,), with NaN for what is missing. Raises ValueError with the row of all else."""
    numbers = np.asarray(cells)
    if numbers.dtype.kind not in "iuf":
        import pandas as pd  # slow to import

        cells = pd.Series(numbers).astype(object)
        missing = is_missing(cells)
        # pandas takes a complex number for a number.
        real = cells.mask(missing | cells.map(np.iscomplexobj))
        numbers = pd.to_numeric(real, errors="coerce").to_numpy(float)
        unreadable = np.isnan(numbers) & ~missing.to_numpy()
        if unreadable.any():
            row = int(unreadable.argmax())
            raise ValueError(
                f"{name}, row {row + 1}: {str(cells[row])!r} is not a number. "
                "Write it as in 1234.5, with a point and no thousands separator; "
                "leave the cell empty if the value is missing."
            )
    if np.isinf(numbers).any():
        raise ValueError(f"{name}, row {np.isinf(numbers).argmax() + 1}: the value is infinite.")
    return numbers.astype(float)


def is_missing(cells):
    """Which cells of a pandas series hold nothing, or a word for it."""
    return cells.isna() | cells.astype(str).str.strip().str.lower().isin(MISSING)


def decimal_points(cells):
    """A pandas series of text with decimal commas as points, where they surely part no thousands.

    `pandas.read_csv` takes decimal="," but leaves it to the user to find out whether it is so.
    """
    commas = cells.str.fullmatch(DECIMAL_COMMA)
    points = cells.str.contains(".", regex=False) & ~cells.isin(MISSING)
    if points.any() or cells[commas].str.fullmatch(THOUSANDS).all():
        return cells
    return cells.mask(commas, cells.str.replace(",", "."))
