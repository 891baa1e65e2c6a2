"""Data frames of any library as numbers, with the levels of their columns of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class TextColumn(str):
    """Name of a column of text, whose values are read as the numbers of its levels.

    Attributes:
        levels: The values of the column; the level i is read as the number i.
    """

    levels: tuple = ()

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        # Compiled functions keep the names of columns, and the levels must be those of the data.
        return str(self) == other and getattr(other, "levels", self.levels) == self.levels

    def __ne__(self, other: object) -> bool:
        return not self == other

    @classmethod
    def of(cls, name: str, levels: Iterable) -> TextColumn:
        """Name with levels."""
        column = cls(name)
        column.levels = tuple(levels)
        return column


def numbers_of(
    X: Any, name: str, required: Sequence[str] | None, text: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers of a data frame (n, d), and the names of its columns.

    Args:
        X: The data frame.
        name: Name of the argument.
        required: Columns to take, in this order; all by default. The values of a `TextColumn` must
            be among its levels.
        text: True to read columns of text or categories as the numbers of their levels.

    Raises:
        ValueError: A column is missing or not numeric, or a value is none of the known levels.
    """
    # narwhals is slow to import, and only data frames need it.
    import narwhals as nw

    if required is not None:
        frame = nw.from_native(X, eager_only=True)
        X = frame[has_columns(name, frame.columns, required)]
    known = (None if text else ()) if required is None else required
    frame, columns = with_numbered_levels(X, name, known)
    frame = nw.from_native(frame, eager_only=True)
    for column, dtype in frame.schema.items():
        if not dtype.is_numeric():
            raise ValueError(
                f"column {column!r} of {name} is {dtype}, not numeric. Encode it as numbers, or "
                "leave it out; GaussianProcess, GPRegression and KernelRidge read text for the "
                "kernels Categorical and Coregion."
            )
    return frame.to_numpy().astype(float), columns


def with_numbered_levels(
    X: Any, name: str, known: Sequence[str] | None
) -> tuple[Any, tuple[str, ...]]:
    """Replace text and categories in a data frame by the numbers of their levels.

    The levels of text are its distinct values, sorted; categories are in their own order.

    Args:
        X: The data frame.
        name: Name of the argument.
        known: Columns of earlier data: only a `TextColumn` among them is text, with these levels.
            None to read every column of text.

    Returns:
        The data frame, and the names of its columns, `TextColumn` for those of text.

    Raises:
        ValueError: A value is missing, or is none of the known levels.
    """
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    earlier = {str(c): c for c in (() if known is None else known) if isinstance(c, TextColumn)}
    columns, numbered = [], []
    for column, dtype in frame.schema.items():
        is_text = known is None and isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
        columns.append(earlier.get(str(column), str(column)))
        if not is_text and str(column) not in earlier:
            continue
        values = frame[column].to_list()
        if is_text:
            # pandas and polars have different names for the categories that a column may hold.
            declared = getattr(getattr(frame[column].to_native(), "cat", None), "categories", None)
            declared = dtype.categories if isinstance(dtype, nw.Enum) else declared
            distinct = {v for v in values if isinstance(v, str)} if declared is None else declared
            levels = sorted(distinct) if declared is None else list(distinct)
            columns[-1] = TextColumn.of(str(column), levels)
        codes = _level_numbers(values, columns[-1], name)
        numbered.append(nw.new_series(column, codes, nw.Float64, backend=frame.implementation))
    return frame.with_columns(*numbered).to_native(), tuple(columns)


def _level_numbers(values: Iterable, column: TextColumn, name: str) -> list[float]:
    numbers = {level: float(i) for i, level in enumerate(column.levels)}
    for row, value in enumerate(values):
        if value not in numbers:
            is_missing = value is None or value != value
            content = "no value" if is_missing else f"the level {value!r}"
            raise ValueError(
                f"column {column!r} of {name} has {content} in row {row}, but the known levels are "
                f"{', '.join(map(repr, column.levels))}. Drop these rows; or fit again to data "
                "with this level, or with a column of categories that include it."
            )
    return [numbers[value] for value in values]


def has_columns(name: str, columns: Iterable, required: Sequence[str]) -> list[str]:
    """Return the required columns; raise ValueError with the first one missing."""
    columns = list(map(str, columns))
    for column in required:
        if column not in columns:
            raise ValueError(
                f"{name} has no column {column!r}, which the model was fitted to; it has "
                f"{', '.join(map(repr, columns))}. Pass all of {', '.join(required)}."
            )
    return list(required)
