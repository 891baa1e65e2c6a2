"""Forecasts of many series: of a frame with a column that names them, a dict or a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.files import atomic_write
from bayeskern.core.formatting import counted
from bayeskern.core.progress import hidden_progress
from bayeskern.forecast.data.reading_many import read_many
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.workers import MOST_DEATHS, run_all

# The most failures that are shown.
ROWS = 10


class One(NamedTuple):
    """The forecast of one series, or why there is none.

    times: (horizon,) by the clocks of their zone; columns: as in `Forecast.to_frame`; verdict: ""
    if not asked for; problem: None if there is none.
    """

    times: np.ndarray
    columns: dict[str, np.ndarray]
    verdict: str
    remarks: tuple[str, ...]
    problem: str | None


class Job(NamedTuple):
    """What a process needs to forecast one series: how it is read, and the options."""

    read: Callable
    horizon: int | str
    levels: tuple[float, ...]
    verdict: bool
    options: dict

    def run(self) -> One:
        """Forecast; a mistake in the data is a result too."""
        try:
            with hidden_progress():
                return self._forecast()
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            return failed(" ".join(str(error).split()))

    def _forecast(self) -> One:
        f = forecast(self.read(), self.horizon, **self.options)
        table = f.to_frame(self.levels)
        columns = {name: table[name].to_numpy() for name in table.columns}
        verdict, remarks = f.trust.verdict if self.verdict else "", f.remarks
        if f.problem and not self.verdict:
            remarks = (*remarks, f.problem)
        return One(f.series.calendar.wall(f.times), columns, verdict, remarks, None)


def failed(problem: str) -> One:
    """No forecast, and why."""
    return One(np.empty(0), {}, "", (), problem)


# What there is of a series on which several workers died.
DIED = failed(f"{MOST_DEATHS} workers died on the way, of memory it may be; take fewer.")


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Forecasts of many series, in the order in which they came. Returned by `forecast_many`.

    Attributes:
        ids: What names each series.
        found: The forecast of each, or why there is none.
        id_name: The column of the names.
        time_name: The column of the times.
        backend: The kind of frame that came, "pandas" or "polars".
        remarks: What was done to read the file or the frame.
    """

    ids: tuple
    found: tuple[One, ...]
    id_name: str
    time_name: str
    backend: Any = "pandas"
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def failed(self) -> dict[Any, str]:
        """Name -> why there is no forecast of that series."""
        pairs = zip(self.ids, self.found, strict=True)
        return {name: one.problem for name, one in pairs if one.problem is not None}

    def to_frame(self):
        """One frame of the kind that came: a row for each future time of each series.

        Columns: the name, the time, median, mean, sd, lower_95 and so on, verdict, remarks and
        problem. A series without a forecast has one row, empty but for its problem.
        """
        import narwhals as nw  # slow to import

        columns: dict[str, list] = {self.id_name: [], self.time_name: []}
        names = next((list(one.columns) for one in self.found if one.columns), [])
        columns |= {name: [] for name in (*names, "verdict", "remarks", "problem")}
        dated = all(one.times.dtype.kind == "M" for one in self.found if one.problem is None)
        for name, one in zip(self.ids, self.found, strict=True):
            n = max(1, len(one.times))
            times = one.times.astype("M8[us]").tolist() if dated else list(map(str, one.times))
            columns[self.id_name] += [name] * n
            columns[self.time_name] += times or [None]
            for key in names:
                columns[key] += one.columns[key].tolist() if one.columns else [None]
            columns["verdict"] += [one.verdict or None] * n
            columns["remarks"] += ["; ".join(one.remarks) or None] * n
            columns["problem"] += [one.problem] * n
        return nw.from_dict(columns, backend=self.backend).to_native()

    def save(self, path) -> Path:
        """Write the frame as Parquet, if that is how the name ends, or as CSV; returns its path."""
        import narwhals as nw  # slow to import

        path, frame = Path(path), nw.from_native(self.to_frame())
        with atomic_write(path) as file:
            if path.suffix == ".parquet":
                frame.write_parquet(file)
            else:
                frame.write_csv(file)
        return path

    def __repr__(self) -> str:
        good = len(self) - len(self.failed)
        lines = [f"forecasts of {good} of {counted(len(self), 'series', 'series')}"]
        verdicts = [one.verdict for one in self.found if one.verdict]
        shares = [f"{v} {verdicts.count(v)}" for v in dict.fromkeys(sorted(verdicts))]
        lines += [f"  verdicts  {', '.join(shares)}"] if shares else []
        lines += [f"  remark    {remark}" for remark in self.remarks]
        for name, problem in list(self.failed.items())[:ROWS]:
            lines.append(f"  no forecast of {name}: {problem}")
        if len(self.failed) > ROWS:
            lines.append(f"  and of {len(self.failed) - ROWS} more")
        return "\n".join(lines)


def forecast_many(
    series,
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
    progress: bool = True,
    **options,
) -> Forecasts:
    """Forecast many series on all cores; each is the forecast that `forecast` makes of it alone.

    A series that cannot be forecast has a row that says why, and stops none.

    Args:
        series: A pandas or polars frame, or the path of a file, with a row for each value of each
            series; a dict, name -> what `forecast` takes; or a list of these, named 0, 1, ...
        horizon: How many steps each; or "90 days", or "until 2025-12".
        id: The column that names the series, for frames and files.
        time: The column of times; guessed if None.
        value: The column of values; needed if there are several.
        regressors: Columns of the frame that are known for the future too, in rows whose value is
            missing.
        level: The probabilities of the central intervals.
        verdict: Whether to compute the verdict of each forecast.
        workers: How many processes; one for each core if None, none at all if 1.
        scheduler: The address of a scheduler of Dask, "tcp://host:8786", whose machines share the
            series; or "local" to start one here (`pip install bayeskern[dask]`).
        every: The period of which each value shall be one, as in `read_series`.
        by: How values of shorter periods make one.
        date_format: How times are written, where they do not tell.
        decimal: The mark before decimals, where numbers do not tell.
        sheet: The sheet of a workbook.
        encoding: The encoding of a file of text.
        progress: Whether to show a progress bar.
        **options: Further arguments of `forecast`: season, trend, model, seed, ...

    Returns:
        The forecasts, in the order in which the series came.

    Raises:
        ValueError: If the frame cannot be read at all: no such column, or cells that may be two
            things; or if no series can be forecast.
        TypeError: For an option that `forecast` has not.

    Examples:
        ```python
        found = bk.forecast_many(sales, 28, id="store", time="day", value="units")
        found.to_frame()
        found.failed
        ```
    """
    levels = tuple(validation.level(p) for p in np.ravel(level))
    # Python says here which argument is none, and not a worker.
    signature(forecast).bind(series, horizon, **options)
    notation = {"date_format": date_format, "decimal": decimal, "every": every, "by": by}
    many = read_many(series, id, time, value, regressors, sheet, encoding, notation)
    jobs = [Job(read, horizon, levels, verdict, options) for read in many.reads]
    found = run_all(jobs, DIED, workers, scheduler, progress)
    problems = Counter(one.problem for one in found)
    if None not in problems:
        # Nothing to give back; and what is wrong with most may be wrong with what was asked for.
        (problem, count), *_ = problems.most_common(1)
        raise ValueError(f"no series can be forecast; {count} of {len(jobs)}: {problem}")
    names = many.id_name, many.time_name
    return Forecasts(tuple(many.ids), tuple(found), *names, many.backend, many.remarks)
