"""Forecasts of many series: a frame with a column of names, a mapping or a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.core.formatting import counted
from bayeskern.forecast.data.columns import ReadOptions
from bayeskern.forecast.data.reading_many import read_many
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.show import html
from bayeskern.forecast.show.nixtla import renamed
from bayeskern.forecast.show.saving import spreadsheet_frame
from bayeskern.forecast.workers import run_all


class ForecastSummary(NamedTuple):
    """Forecast of one series in numbers, or the reason why there is none.

    Attributes:
        times: Future local times, (horizon,).
        columns: Columns of `Forecast.to_frame`.
        verdict: The verdict; "" if it was not requested.
        remarks: Remarks on the forecast.
        problem: Reason why there is no forecast; None if there is one.
    """

    times: np.ndarray
    columns: dict[str, np.ndarray]
    verdict: str
    remarks: tuple[str, ...]
    problem: str | None


def summarise(
    series: Series,
    horizon: int | str,
    levels: Sequence[float],
    verdict: bool,
    options: dict[str, Any],
) -> ForecastSummary:
    """Forecast one series. Arguments as in `forecast_many`."""
    f = forecast(series, horizon, **options)
    table = f.to_frame(levels)
    columns = {name: table[name].to_numpy() for name in table.columns}
    remarks = f.remarks
    if f.problem and not verdict:
        remarks = (*remarks, f.problem)
    times = f.series.calendar.wall(f.times)
    return ForecastSummary(times, columns, f.trust.verdict if verdict else "", remarks, None)


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Forecasts of many series, in the order of the input. Returned by `forecast_many`.

    Attributes:
        ids: Name of each series.
        found: Forecast of each series, or the reason why there is none.
        id_name: Column of the names.
        time_name: Column of the times.
        backend: Kind of the input frame, "pandas" or "polars".
        remarks: Decisions made while reading the file or the frame.
    """

    ids: tuple[Any, ...]
    found: tuple[ForecastSummary, ...]
    id_name: str
    time_name: str
    backend: Any = "pandas"
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def failed(self) -> dict[Any, str]:
        """Reason why there is no forecast, by name of the series."""
        pairs = zip(self.ids, self.found, strict=True)
        return {name: result.problem for name, result in pairs if result.problem is not None}

    def to_frame(self, names: str | None = None) -> Any:
        """All forecasts as one frame of the same kind as the input.

        Args:
            names: "nixtla" for the names that statsforecast and utilsforecast use: unique_id, ds,
                bayeskern (the median), bayeskern-lo-95, bayeskern-hi-95; without a row for series
                without a forecast. None for the names below.

        Returns:
            A row for each future time of each series, with columns for the name, the time, median,
            mean, sd, interval ends such as lower_95, verdict, remarks and problem. A series without
            a forecast has one row with its name and its problem.
        """
        import narwhals as nw  # slow to import

        columns: dict[str, list[Any]] = {self.id_name: [], self.time_name: []}
        numbers = next((list(result.columns) for result in self.found if result.columns), [])
        columns |= {name: [] for name in (*numbers, "verdict", "remarks", "problem")}
        dated = all(r.times.dtype.kind == "M" for r in self.found if r.problem is None)
        for name, result in zip(self.ids, self.found, strict=True):
            n = max(1, len(result.times))
            times = result.times
            times = times.astype("M8[us]").tolist() if dated else list(map(str, times))
            columns[self.id_name] += [name] * n
            columns[self.time_name] += times or [None]
            for key in numbers:
                columns[key] += result.columns[key].tolist() if result.columns else [None]
            columns["verdict"] += [result.verdict or None] * n
            columns["remarks"] += ["; ".join(result.remarks) or None] * n
            columns["problem"] += [result.problem] * n
        if names is not None:
            columns = renamed(columns, names, self.id_name, self.time_name)
        return nw.from_dict(columns, backend=self.backend).to_native()

    def export(self, path: str | Path) -> Path:
        """Write the frame as CSV, or as Parquet if the name ends in .parquet; return its path."""
        import narwhals as nw  # slow to import

        path, frame = Path(path), nw.from_native(self.to_frame())
        with atomic_write(path) as file:
            if path.suffix == ".parquet":
                frame.write_parquet(file)
            else:
                spreadsheet_frame(frame).write_csv(file)
        return path

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        return html.of_forecasts(self)

    def __repr__(self) -> str:
        good = len(self) - len(self.failed)
        lines = [f"forecasts of {good} of {counted(len(self), 'series', 'series')}"]
        verdicts = Counter(result.verdict for result in self.found if result.verdict)
        shares = [f"{verdict} {count}" for verdict, count in sorted(verdicts.items())]
        lines += [f"  verdicts  {', '.join(shares)}"] if shares else []
        lines += [f"  remark    {remark}" for remark in self.remarks]
        failures = [f"  no forecast of {name}: {why}" for name, why in self.failed.items()]
        if len(failures) > 10:
            failures[10:] = [f"  no forecast of {len(failures) - 10} more series"]
        return "\n".join([*lines, *failures])


def forecast_many(
    series: Any,
    horizon: int | str,
    *,
    id: str | None = None,
    time: str | None = None,
    value: str | None = None,
    regressors: Sequence[str] = (),
    level: float | Sequence[float] = (0.8, 0.95),
    verdict: bool = True,
    workers: int | None = None,
    scheduler: str | None = None,
    every: str | None = None,
    by: str | None = None,
    date_format: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
    timezone: str | None = None,
    skip_rows: int | None = None,
    progress: bool = True,
    **options: Any,
) -> Forecasts:
    """Forecast many series on all cores, each as in `forecast`.

    A series that cannot be forecast has a row with the reason and does not affect the others.

    Args:
        series: A pandas or polars frame, or the path of a file, with a row for each value of each
            series; a mapping from names to sources that `forecast` takes; or a list of sources,
            named 0, 1, ...
        horizon: Number of steps; or "90 days", or "until 2025-12".
        id: Column that names the series, for frames and files; None for unique_id.
        time: Time column; guessed if None.
        value: Value column; required if there are several, as in `read_series`.
        regressors: Columns of regressors. Their future values are in rows whose value is empty.
        level: Probabilities of the central intervals.
        verdict: Compute the verdict of each forecast.
        workers: Number of processes; None for one per core, 1 to run in this process.
        scheduler: Address of a Dask scheduler, "tcp://host:8786", whose machines share the series;
            or "local" to start one on this machine (`pip install bayeskern[dask]`).
        every: Period of aggregation, as in `read_series`.
        by: How values are aggregated, as in `read_series`.
        date_format: Format of the times, if they are ambiguous.
        decimal: Decimal mark, if the numbers are ambiguous.
        sheet: Sheet of a workbook.
        encoding: Encoding of a text file.
        timezone: Time zone of local times, or the column that holds it, as in `read_series`.
        skip_rows: Number of rows above the header.
        progress: Show a progress bar.
        **options: Further arguments of `forecast`: season, trend, model, seed, ...

    Returns:
        The forecasts, in the order of the series.

    Raises:
        ValueError: If a column is missing, cells are ambiguous, or no series can be forecast.
        TypeError: For an option that `forecast` does not have.

    Examples:
        ```python
        forecasts = bk.forecast_many(sales, 28, id="store", time="day", value="units")
        forecasts.to_frame()
        forecasts.failed
        ```
    """
    levels = tuple(validation.level(p) for p in np.ravel(level))
    # A wrong argument raises TypeError here rather than in every worker.
    signature(forecast).bind(series, horizon, **options)
    reading = (time, value, tuple(regressors), every, by, date_format, decimal, sheet, encoding)
    reading += (timezone, skip_rows)
    readers = read_many(series, id, ReadOptions(*reading))
    work = partial(summarise, horizon=horizon, levels=levels, verdict=verdict, options=options)
    results = run_all(work, readers.functions, workers, scheduler, progress)
    problems = Counter(result for result in results if isinstance(result, str))
    if problems.total() == len(results):
        # The most common problem may lie in the request rather than in the data.
        (problem, count), *_ = problems.most_common(1)
        raise ValueError(
            f"no series can be forecast; the most common reason ({count} of {len(results)} series) "
            f"is: {problem}"
        )
    summaries = [
        ForecastSummary(np.empty(0), {}, "", (), problem=r) if isinstance(r, str) else r
        for r in results
    ]
    names = readers.id_name, readers.time_name
    return Forecasts(tuple(readers.ids), tuple(summaries), *names, readers.backend, readers.remarks)
