"""CSV files as they come out of spreadsheets and programs."""

from __future__ import annotations

import re
from pathlib import Path

from bayeskern.forecast.cells import decimal_points
from bayeskern.forecast.series import FEWEST


def read_csv(path: Path):
    """(frame, delimiter): the cells of a CSV file in UTF-8 as text, below the names of its header.

    `pandas.read_csv` reads the cells, but not the header: pandas gives short rows missing values,
    takes the first column of long ones for an index and renames columns that share a name. All of
    this is refused here. Raises ValueError with the row.
    """
    import pandas as pd  # slow to import

    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = [line for line in file if line.strip()]
        delimiter = _delimiter(lines[0]) if lines else ","
        most_cells = max((line.count(delimiter) for line in lines), default=0) + 1
        cells = pd.read_csv(
            path, sep=delimiter, header=None, names=range(most_cells), dtype=str,
            keep_default_na=False, engine="python", encoding="utf-8-sig",
        )  # fmt: skip
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from None
    except pd.errors.ParserError as error:
        raise ValueError(
            f"{path} is not a CSV file: {str(error).rstrip('.')}. Is a quotation mark left open?"
        ) from None
    cells = cells.apply(lambda column: column.str.strip())
    cells = cells[(cells.fillna("") != "").any(axis=1)]
    if len(cells) < 2:
        raise ValueError(
            f"{path} has {'a header but no rows' if len(cells) else 'no rows'}; wanted a header "
            f"and at least {FEWEST} rows of a time and a value."
        )
    # The parser in Python leaves the cells that a row does not have missing, the one in C empty.
    header, *counts = cells.notna().sum(axis=1)
    for row, count in enumerate(counts, start=1):
        if count != header:
            raise ValueError(f"{path}, row {row}: {count} cells, but the header has {header}.")
    names = list(cells.iloc[0, :header])
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has two columns of the same name: {', '.join(names)}.")
    frame = cells.iloc[1:, :header].set_axis(names, axis=1)
    return (frame.apply(decimal_points) if delimiter == ";" else frame), delimiter


def _delimiter(header: str) -> str:
    """The one that the header has most of, outside quotes.

    Commas come last: where lines are split by another, they stand in names and decimals.
    """
    unquoted = re.sub(r'"[^"]*"', "", header)
    return max(";\t,", key=unquoted.count)
