"""Contents of files, unpacked within a limit on their size in memory."""

from __future__ import annotations

import gzip
import io
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from bayeskern.core.formatting import counted
from bayeskern.core.validation import machine_memory

if TYPE_CHECKING:
    import pandas as pd

LIMIT_VARIABLE = "BAYESKERN_MAX_FILE_MB"


class UnreadableError(ValueError):
    """A file that is too large, or whose table cannot be read."""


@dataclass(frozen=True)
class SizeLimit:
    """Largest size of a file in memory, unpacked and as a table.

    Attributes:
        megabytes: The limit; the environment variable BAYESKERN_MAX_FILE_MB overrides it.
        bytes_per_cell: Memory of a cell as a Python object, such as a short text.
        bytes_per_step: Memory of a step of a regular grid, its time and its value.
        bytes_per_tag_byte: Memory of parsed XML for each of its bytes.
    """

    megabytes: float = 512.0
    bytes_per_cell: int = 64
    bytes_per_step: int = 16
    bytes_per_tag_byte: int = 25

    @classmethod
    def of_environment(cls) -> SizeLimit:
        """Limit set in the environment, or the default.

        Raises:
            ValueError: If the variable is not a positive number.
        """
        text = os.environ.get(LIMIT_VARIABLE)
        if not text:
            return cls()
        try:
            megabytes = float(text)
        except ValueError:
            megabytes = math.nan
        if not 0.0 < megabytes < math.inf:
            raise ValueError(
                f"{LIMIT_VARIABLE} must be a positive number of megabytes, such as "
                f"{cls.megabytes:g}; got {text!r}."
            )
        return cls(megabytes)

    @property
    def bytes(self) -> int:
        """The limit in bytes."""
        return int(1e6 * self.megabytes)

    def require(self, path: Path, size: float, cells: float = 0, part: str = "") -> None:
        """Raise ValueError if bytes and cells exceed the limit.

        Args:
            path: The file.
            size: Bytes of its content.
            cells: Number of its cells.
            part: Description of the part of the file that holds the cells.
        """
        total = size + self.bytes_per_cell * cells
        if total > self.bytes:
            rows = f"; {part}" if part else ""
            raise self.exceeded(path, f"about {total / 1e6:,.0f} MB{rows}", total / 1e6)

    def require_steps(self, steps: float, values: int, grid: str) -> None:
        """Raise ValueError if a regular grid of times has too many steps for its values.

        Args:
            steps: Number of steps.
            values: Number of values.
            grid: The grid in words.
        """
        if self.bytes_per_step * steps > self.bytes:
            raise ValueError(
                f"{grid} has {steps:,.0f} steps for {counted(values, 'value')}, which take more "
                f"memory than the limit of {self.megabytes:,.0f} MB ({LIMIT_VARIABLE}). Is the "
                "first or the last time far from the others by mistake?"
            )

    def exceeded(self, path: Path, size: str, megabytes: float) -> UnreadableError:
        """Error that names the size of a file and the limit that would accept it."""
        new_limit = max(2.0 * self.megabytes, math.ceil(1.1 * megabytes))
        advice = (
            f"If you trust the file, set the environment variable {LIMIT_VARIABLE}={new_limit:.0f}"
            if 1e6 * new_limit < machine_memory()
            else "Leave out rows and columns that are not needed"
        )
        return UnreadableError(
            f"{path} takes more memory than the limit of {self.megabytes:,.0f} MB ({size}). "
            f"{advice}."
        )


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Turn any error of a parser into UnreadableError.

    Broken files raise errors of many types.
    """
    try:
        yield
    except (ImportError, MemoryError, UnreadableError):
        raise
    except Exception as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise UnreadableError(f"{path} is {kind}: {reason}.") from None


def read_content(path: Path, limit: SizeLimit) -> bytes:
    """Bytes of a file, unpacked if it is gzipped.

    Raises:
        ValueError: If the content exceeds the limit or cannot be unpacked.
    """
    with path.open("rb") as file:
        content = file.read(limit.bytes + 1)
    limit.require(path, max(len(content), path.stat().st_size))
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as packed:
            content = packed.read(limit.bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is a gzip file that cannot be unpacked: {error}.") from None
    if len(content) > limit.bytes:
        raise limit.exceeded(path, "unpacked", limit.megabytes)
    return content


def require_cells(path: Path, content: bytes, marks: bytes, limit: SizeLimit) -> None:
    """Raise ValueError if the cells of text exceed the limit.

    marks: Characters between cells.
    """
    separators = [bytes([mark]) for mark in b"\r\n" + marks]
    limit.require(path, len(content), sum(map(content.count, separators)))


# -- Parquet ---------------------------------------------------------------------------------------


def read_parquet(path: Path, content: bytes, limit: SizeLimit) -> dict[str, list[Any]]:
    """Cells of each column of a Parquet file, after checks of its metadata.

    Raises:
        ValueError: If the table exceeds the limit, has no columns, or its columns hold lists or
            have the same name.
        ImportError: If pyarrow is missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _reading(path, "Parquet that cannot be read"):
        file = pq.ParquetFile(io.BytesIO(content))
        meta = file.metadata
        size = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        part = f"{meta.num_rows:,} rows and {meta.num_columns:,} columns"
        limit.require(path, size, meta.num_rows * meta.num_columns, part)
        fields = [*file.schema_arrow]
        names = [field.name for field in fields]
        nested = [field.name for field in fields if pa.types.is_nested(field.type)]
        if nested:
            raise UnreadableError(
                f"{path}: column {nested[0]} holds lists or records; write one value to each cell."
            )
        if len(set(names)) < len(names):
            raise UnreadableError(f"{path} has two columns of the same name: {', '.join(names)}.")
        # Repeated text stays one object in memory.
        texts = [f.name for f in fields if pa.types.is_string(f.type)]
        options = {"read_dictionary": texts, "page_checksum_verification": True}
        table = pq.ParquetFile(io.BytesIO(content), **options).read()
        for i, field in enumerate(fields):
            # A few programs write text as bytes.
            if pa.types.is_binary(field.type):
                table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
        frame = table.to_pandas()
        # An unnamed index of integers holds row numbers, left from a selection or a join.
        if frame.index.name is not None or frame.index.dtype.kind not in "iu":
            frame = frame.reset_index()
        if not len(frame.columns):
            raise UnreadableError(f"{path} has no columns; it must have times and values.")
        return {str(name): _cells(frame[name]) for name in frame.columns}


def _cells(column: pd.Series) -> list[Any]:
    if column.dtype.name != "category":
        return list(column)
    # The code of a missing cell is -1.
    categories = [*column.cat.categories, None]
    return [categories[code] for code in column.cat.codes]


# -- workbooks -------------------------------------------------------------------------------------


def read_sheets(path: Path, content: bytes, limit: SizeLimit) -> dict[str, list[list[Any]]]:
    """Rows of each sheet of an Excel workbook that has cells; None for empty cells.

    Raises:
        ValueError: If the workbook, or the rectangle of a sheet, exceeds the limit.
        ImportError: If openpyxl is missing.
    """
    import openpyxl

    with _reading(path, "an Excel workbook, or another zip file, that cannot be read"):
        with ZipFile(io.BytesIO(content)) as archive:
            limit.require(path, sum(_memory_of_part(part, limit) for part in archive.infolist()))
        options = {"read_only": True, "data_only": True, "keep_links": False}
        book = openpyxl.load_workbook(io.BytesIO(content), **options)
        sheets, size = {}, 0
        for sheet in book.worksheets:
            # The declared size of a sheet is often wrong.
            sheet.reset_dimensions()
            rows, width, last = [], 0, 0
            for count, row in enumerate(_rows(sheet), start=1):
                rows.append(row)
                if row:
                    width, last = max(width, len(row)), count
                    part = f"sheet {sheet.title} reaches row {count:,} and column {width:,}"
                    limit.require(path, len(content), size + count * width, part)
            if last:
                size += last * width
                sheets[sheet.title] = [row + [None] * (width - len(row)) for row in rows[:last]]
        return sheets


def _memory_of_part(part: Any, limit: SizeLimit) -> float:
    """Declared size of a part of a workbook, in bytes of memory."""
    # openpyxl reads rows and texts one by one, and other XML as a whole.
    is_read_by_rows = part.filename.startswith(("xl/worksheets/", "xl/sharedStrings"))
    is_tree = part.filename.endswith((".xml", ".rels")) and not is_read_by_rows
    return part.file_size * (limit.bytes_per_tag_byte if is_tree else 1)


def _rows(sheet: Any) -> Iterator[list[Any]]:
    """Cells of each row, without empty cells at its end."""
    for row in sheet.rows:
        cells = [_value(cell) for cell in row]
        while cells and cells[-1] is None:
            cells.pop()
        yield cells


def _value(cell: Any) -> Any:
    """Cell value, or None; whole numbers as int, because Excel stores 2020 as 2020.0."""
    value = cell.value
    # Formulas with errors, type "e", have no value.
    if cell.data_type == "e" or value == "" or value != value:
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value
