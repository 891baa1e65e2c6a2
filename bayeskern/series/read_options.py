"""Options of reading a series, declared once.

The arguments of `read_series`, `forecast_many`, `learn_priors` and `Forecasts.update`, the flags of
the command line and the table in the documentation are the fields of `ReadOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

# Kinds of options: names of columns, which arrays lack, and what is asked of files only.
COLUMNS, FILES = {"kind": "columns"}, {"kind": "files"}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of `read_series`, all optional.

    Attributes:
        time: Time column. By default it is guessed, and separate columns such as year and month,
            year and quarter, or date and time of day are joined.
        value: Value column; required if there are several, except that y is taken beside times in
            a column ds. A column unique_id names the series.
        regressors: Columns of variables with known future values, in rows without a value.
        every: Aggregate to one value per minute, hour, day, week, month, quarter or year.
        by: How values are aggregated: sum, mean or last; count counts the rows of an event log or,
            with a value column, the cells that are not empty.
        date_format: Format of the times, such as %d/%m/%Y, if they are ambiguous; number for
            numbers that look like dates.
        decimal: Decimal mark, a point or a comma, if the numbers are ambiguous.
        sheet: Sheet of a workbook; required if several hold data.
        encoding: Encoding of a text file; by default UTF-8 or, if that fails, Windows-1252.
        timezone: Time zone of local times, such as Europe/Berlin, or the column that holds it.
            Times with an offset are converted to this zone.
        skip_rows: Number of rows above the header of a text file or a sheet; by default titles and
            empty rows are recognised.
    """

    time: str | None = field(default=None, metadata=COLUMNS)
    value: str | None = field(default=None, metadata=COLUMNS)
    regressors: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    every: str | None = None
    by: str | None = None
    date_format: str | None = None
    decimal: str | None = None
    sheet: str | None = field(default=None, metadata=FILES)
    encoding: str | None = field(default=None, metadata=FILES)
    timezone: str | None = None
    skip_rows: int | None = field(default=None, metadata=FILES)

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[ReadOptions, dict[str, Any]]:
        """Options of reading among keyword arguments, and all others."""
        own = {f.name: options[f.name] for f in fields(cls) if f.name in options}
        own["regressors"] = tuple(own.get("regressors") or ())
        return cls(**own), {name: value for name, value in options.items() if name not in own}

    def given(self, *kinds: str) -> dict[str, Any]:
        """Options that differ from their defaults; of some kinds only, if there are any."""
        own = [f for f in fields(self) if not kinds or f.metadata.get("kind") in kinds]
        pairs = {f.name: (getattr(self, f.name), f.default) for f in own}
        return {name: value for name, (value, default) in pairs.items() if value != default}

    @property
    def counts_rows(self) -> bool:
        """True if each row is an event, without a value."""
        return self.by == "count" and self.value is None


INFERRED = ReadOptions()
