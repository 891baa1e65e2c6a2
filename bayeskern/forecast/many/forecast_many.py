"""Forecasts of many series: a frame with a column of names, a mapping or a list."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.many.collection import Forecasts
from bayeskern.forecast.many.forecast_summary import ForecastSummary, record_of
from bayeskern.forecast.many.workers import run_all
from bayeskern.forecast.saved.file import contents
from bayeskern.forecast.saved.folder import Entry, Folder
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading_many import SeriesReaders, read_many
from bayeskern.series.series import Series


class Outcome(NamedTuple):
    """Forecast of one series, from a worker.

    Attributes:
        summary: The forecast in numbers.
        content: Contents or path of its file, or the reason why it cannot be saved.
        fingerprint: Digest of the series.
    """

    summary: ForecastSummary
    content: bytes | Path | str
    fingerprint: str


def summarise(
    series: Series,
    horizon: int | str,
    levels: Sequence[float],
    verdict: bool,
    options: dict[str, Any],
) -> Outcome:
    """Forecast one series. Arguments as in `forecast_many`."""
    f = forecast(series, horizon, **options)
    summary = ForecastSummary.from_forecast(f, levels, verdict)
    try:
        content = contents(f, with_tables=False)
    except ValueError as reason:
        # A kernel with a function cannot be saved; the summary is still useful.
        content = str(reason)
    return Outcome(summary, content, _fingerprint(series))


def _fingerprint(series: Series) -> str:
    """Digest of the times, the values and the regressors of a series."""
    digest, regressors = hashlib.sha256(), series.regressors
    arrays = [series.times, series.values]
    if regressors is not None:
        arrays += [regressors.times, *regressors.columns.values()]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _run_into(
    folder: Folder,
    header: dict[str, Any],
    resume: bool,
    work: Callable[[Series], Outcome],
    readers: SeriesReaders,
    **processes: Any,
) -> list[Outcome | str]:
    """Outcome for each series, in order, with each forecast written when finished.

    Args:
        folder: The folder.
        header: Header of its index.
        resume: Reuse forecasts in the folder whose series are unchanged.
        work: Function of a series.
        readers: The series.
        **processes: Arguments of `run_all`.

    Raises:
        ValueError: The folder holds forecasts, and `resume` is False or they have other options;
            or the forecasts cannot be saved.
    """
    known = _known_entries(folder, header, resume)
    entries: dict[int, Entry] = {}
    outcomes: dict[int, Outcome | str] = {}
    for i, (name, read) in enumerate(zip(readers.ids, readers.functions, strict=True)):
        entry = known.get(str(name))
        if entry is not None and entry.file is not None and _is_of(entry, read):
            summary = ForecastSummary.from_record(entry.record["summary"])
            path = folder.path / entry.file
            entries[i], outcomes[i] = entry, Outcome(summary, path, entry.record["fingerprint"])
    missing = [i for i in range(len(readers.ids)) if i not in entries]

    def receive(number: int, outcome: Outcome | str) -> Outcome | str:
        i = missing[number]
        name = readers.ids[i]
        if isinstance(outcome, str):
            entries[i] = folder.append(record_of(name, ForecastSummary.failed(outcome)), None)
            return outcome
        if not isinstance(outcome.content, bytes):
            raise ValueError(outcome.content)
        record = record_of(name, outcome.summary) | {"fingerprint": outcome.fingerprint}
        entries[i] = entry = folder.append(record, outcome.content)
        # Keep the path instead of the contents, to free their memory.
        return outcome._replace(content=folder.path / str(entry.file))

    reads = [readers.functions[i] for i in missing]
    results = run_all(work, reads, receive=receive, **processes)
    outcomes |= dict(zip(missing, results, strict=True))
    order = range(len(readers.ids))
    folder.finish(header, [entries[i] for i in order if i in entries])
    return [outcomes[i] for i in order]


def _known_entries(folder: Folder, header: dict[str, Any], resume: bool) -> dict[str, Entry]:
    """Entries of an earlier run by name; prepares the folder for new entries."""
    if not folder.exists:
        folder.start(header)
        return {}
    earlier, entries = folder.read()
    if not resume:
        raise ValueError(
            f"{folder.path} holds forecasts already: resume=True (--resume) continues them; or "
            "give another folder."
        )
    if earlier.get("request") != header["request"]:
        raise ValueError(
            f"{folder.path} holds forecasts with another horizon, other levels or options, so they "
            "cannot be continued: give another folder."
        )
    folder.repair()
    return {str(entry.record["name"]): entry for entry in entries}


def _is_of(entry: Entry, read: Callable[[], Series]) -> bool:
    """True if an entry is the forecast of this series."""
    try:
        return entry.record["fingerprint"] == _fingerprint(read())
    except ValueError:
        return False


def forecast_many(
    series: Any,
    horizon: int | str,
    *,
    id: str | None = None,
    level: float | Sequence[float] = (0.8, 0.95),
    verdict: bool = True,
    workers: int | None = None,
    scheduler: str | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **options: Any,
) -> Forecasts:
    """Forecast many series on all cores, each as in `forecast`.

    A series that cannot be forecast has a row with the reason and does not affect the others.

    Args:
        series: A pandas or polars frame, or the path of a file, with a row for each value of each
            series, or with a column for each series; a mapping from names to sources that
            `forecast` takes; or a list of sources, named 0, 1, ...
        horizon: Number of steps; or "90 days", or "until 2025-12".
        id: Column that names the series, for frames and files. None for unique_id. Without this
            column and without `value`, each column besides the times is a series.
        level: Probabilities of the central intervals.
        verdict: Compute the verdict of each forecast.
        workers: Number of processes; None for one per core, 1 to run in this process.
        scheduler: Address of a Dask scheduler, "tcp://host:8786", whose machines share the series;
            or "local" to start one on this machine (`pip install bayeskern[dask]`).
        folder: Folder to which each forecast is written as soon as it is finished; `bk.load` reads
            it. None keeps the forecasts in memory, about 30 kB each.
        resume: Continue a run that was stopped: series whose forecast is in the folder, with the
            same values and options, are not fitted again.
        progress: Show a progress bar.
        **options: Options of `read_series`, such as time, value, regressors and every; and further
            arguments of `forecast`: season, trend, model, seed, ...

    Returns:
        The forecasts by name, in the order of the series.

    Raises:
        ValueError: If a column is missing, cells are ambiguous, no series can be forecast, or the
            folder holds forecasts and `resume` is false or they were made by other options.
        TypeError: For an option that `forecast` does not have.

    Examples:
        ```python
        forecasts = bk.forecast_many(sales, 28, id="store", time="day", value="units")
        forecasts["store 12"].plot()
        forecasts.scores.sort_values("error_ratio")
        forecasts.to_frame()
        forecasts.failed
        ```
    """
    import narwhals as nw  # slow to import

    levels = tuple(validation.level(p) for p in np.ravel(level))
    reading, options = ReadOptions.split(options)
    # A wrong argument raises TypeError here rather than in every worker.
    signature(forecast).bind(series, horizon, **options)
    readers = read_many(series, id, reading)
    work = partial(summarise, horizon=horizon, levels=levels, verdict=verdict, options=options)
    backend = nw.Implementation.from_backend(readers.backend).value
    names = readers.id_name, readers.time_name, backend, readers.remarks
    processes: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "progress": progress}
    if folder is None and resume:
        raise ValueError("resume=True continues the forecasts of a folder: give folder= too.")
    if folder is None:
        results = run_all(work, readers.functions, **processes)
    else:
        request = repr((horizon, levels, verdict, sorted(options.items())))
        counts = {"request": request, "count": len(readers.ids)}
        header = Forecasts((), (), *names).header | counts
        results = _run_into(Folder(Path(folder)), header, resume, work, readers, **processes)
    problems = Counter(result for result in results if isinstance(result, str))
    if problems.total() == len(results):
        # The most common problem may lie in the request rather than in the data.
        (problem, count), *_ = problems.most_common(1)
        raise ValueError(
            f"no series can be forecast; the most common reason ({count} of {len(results)} series) "
            f"is: {problem}"
        )
    summaries = [ForecastSummary.failed(r) if isinstance(r, str) else r.summary for r in results]
    sources = [None if isinstance(r, str) else r.content for r in results]
    return Forecasts(tuple(readers.ids), tuple(summaries), *names, sources=tuple(sources))
