"""New values of a series from a file or a frame, which may repeat earlier values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core.formatting import counted, printable_errors
from bayeskern.series.columns import INDEX_COLUMN, NIXTLA_ID, choose_columns
from bayeskern.series.files.tables import Table
from bayeskern.series.read_options import INFERRED, ReadOptions
from bayeskern.series.reading import table_of
from bayeskern.series.resample import resample
from bayeskern.series.series import Series, read_rows


class LaterValues(NamedTuple):
    """Values after the end of a series.

    Attributes:
        times: Their times, (m,); None for the next times of the calendar.
        values: The values, (m,), NaN where missing.
        remarks: Decisions made while reading.
    """

    times: np.ndarray | None
    values: Any
    remarks: tuple[str, ...] = ()


class NoNewValuesError(ValueError):
    """A source has no value after the end of the series."""


@printable_errors()
def new_values(source: Any, series: Series, options: ReadOptions = INFERRED) -> LaterValues:
    """Values of a source after the end of a series.

    Args:
        source: Path of a file, a frame, or a pandas series with times as its index. Plain values,
            and results of this function, are returned unchanged.
        series: The series that the values continue.
        options: How the source is read; None for the names and the notation of the series.

    Raises:
        ValueError: A column is missing, or a cell cannot be read.
    """
    if isinstance(source, LaterValues):
        return source
    if isinstance(source, str | Path) or hasattr(source, "columns"):
        return values_after(series, table_of(source, options), options)
    index = getattr(source, "index", None)
    if index is None or callable(index) or index.dtype.kind not in "MO":
        return LaterValues(None, source)
    table = Table({INDEX_COLUMN: index, series.value_name: list(source)})
    return values_after(series, table, options)


def values_after(series: Series, table: Table, options: ReadOptions) -> LaterValues:
    """Values of a table after the end of a series.

    Args:
        series: The series.
        table: The table.
        options: Names and notation of the columns; None for the names of the series.

    Raises:
        ValueError: As in `new_values`.
    """
    cells = {name: cells for name, cells in table.columns.items() if name != NIXTLA_ID}
    time, value, tz = options.time, options.value, series.calendar.tz
    if time is None and series.time_name in cells:
        time = series.time_name
    if value is None and series.value_name in cells:
        value = series.value_name
    # Local times are in the zone of the series.
    options = replace(options, time=time, value=value, timezone=options.timezone or tz)
    columns = choose_columns(replace(table, columns=cells), options)
    times, values, _, remarks = read_rows(columns, options)
    if times.dtype.kind != series.times.dtype.kind:
        kind = "dates" if series.times.dtype.kind == "M" else "numbers"
        raise ValueError(
            f"{columns.time_name}: the times of the series are {kind}; got {times.dtype}."
        )
    if options.every is not None:
        times, values, notes = resample(times, values, options, tz)
        remarks += notes
    later = times > series.times[-1]
    if not np.any(later & np.isfinite(values)):
        last = series.calendar.labels(series.times[-1:])[0]
        raise NoNewValuesError(f"there is no value of {series.value_name} after {last}.")
    if options.every is None:
        remarks += _revised(series, times[~later], values[~later])
    return LaterValues(times[later], values[later], tuple(remarks))


def _revised(series: Series, times: np.ndarray, values: np.ndarray) -> tuple[str, ...]:
    """Remark if values at earlier times differ from the values of the series."""
    # The fitted series may start later, or lack values.
    known = dict(zip(series.times.tolist(), series.values.tolist(), strict=True))
    pairs = zip(times.astype(series.times.dtype).tolist(), values.tolist(), strict=True)
    pairs = [(known[time], value) for time, value in pairs if time in known]
    old, new = np.array(pairs).reshape(-1, 2).T
    changed = int(np.sum(~np.isclose(old, new, rtol=1e-9, atol=0.0, equal_nan=True)))
    if not changed:
        return ()
    return (
        f"{counted(changed, 'earlier value differs', 'earlier values differ')} from the fitted "
        "values: forecast the longer series to use them",
    )
