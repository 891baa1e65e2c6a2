"""Forecasts of many series as a mapping from names to forecasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeskern.core import netcdf, validation
from bayeskern.core.cache import ResultCache
from bayeskern.core.files import atomic_write
from bayeskern.core.formatting import counted, message_of, printable_lines, short, suggestion
from bayeskern.core.plotting import legend_below, panels
from bayeskern.core.progress import Progress
from bayeskern.forecast import forecast_plot
from bayeskern.forecast.many.forecast_summary import ForecastSummary, record_of
from bayeskern.forecast.predicted_series import LEVELS
from bayeskern.forecast.result import Forecast, forecast_in
from bayeskern.forecast.saved.file import contents
from bayeskern.forecast.saved.folder import Entry, Folder
from bayeskern.forecast.show import html
from bayeskern.forecast.show.nixtla import renamed
from bayeskern.forecast.show.plot import short_name
from bayeskern.forecast.show.saving import spreadsheet_frame
from bayeskern.series.new_values import NoNewValuesError, values_after
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading_many import tables_by_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


# Largest number of rows of the table in notebooks.
MAX_PAGE_ROWS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Forecasts(Mapping[Any, Forecast]):
    """Forecasts of many series by name, as returned by `forecast_many`.

    `forecasts["store 12"]` is a `Forecast`. The order is that of the input. Series without a
    forecast are only in `failed`.

    Attributes:
        ids: Name of each series, also of series without a forecast.
        results: Summary of each forecast, or the reason why there is none.
        id_name: Column of the names.
        time_name: Column of the times.
        backend: Kind of the input frame, "pandas" or "polars".
        remarks: Decisions made while reading the file or the frame.
        sources: For each series its forecast, or the path or contents of the file of its forecast;
            a reason as text if the forecast cannot be kept; None if there is no forecast.
        update_remarks: Remarks on the latest `update`; they are not saved.
    """

    ids: tuple[Any, ...]
    results: tuple[ForecastSummary, ...]
    id_name: str
    time_name: str
    backend: Any = "pandas"
    remarks: tuple[str, ...] = ()
    sources: tuple[Forecast | Path | bytes | str | None, ...] = field(default=(), kw_only=True)
    update_remarks: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def of(
        cls,
        forecasts: Mapping[Any, Forecast],
        id_name: str = "id",
        levels: Sequence[float] = LEVELS,
    ) -> Forecasts:
        """Collect forecasts by name.

        Args:
            forecasts: The forecasts by name.
            id_name: Column of the names.
            levels: Probabilities of the central intervals in tables.
        """
        summaries = tuple(ForecastSummary.from_forecast(f, levels) for f in forecasts.values())
        names = {f.series.time_name for f in forecasts.values()}
        time_name = names.pop() if len(names) == 1 else "time"
        sources = tuple(forecasts.values())
        return cls(tuple(forecasts), summaries, id_name, time_name, sources=sources)

    # -- mapping ------------------------------------------------------------------------------

    def __getitem__(self, name: Any) -> Forecast:
        index = self._indices.get(name)
        if index is None:
            raise KeyError(f"there is no series {name!r}.{suggestion(name, self.ids)}")
        source, problem = self.sources[index], self.results[index].problem
        if problem is not None:
            raise KeyError(f"there is no forecast of {name!r}: {problem}")
        if isinstance(source, Forecast):
            return source
        if isinstance(source, Path | bytes):
            return self._latest.recall(index, lambda: _read(source, name))
        raise KeyError(f"the forecast of {name!r} was not kept: {source}")

    def __iter__(self) -> Iterator[Any]:
        return (name for name in self.ids if name not in self.failed)

    def __len__(self) -> int:
        return len(self.ids) - len(self.failed)

    def __contains__(self, name: object) -> bool:
        return name in self._indices and name not in self.failed

    # Equality by identity: comparing two mappings would read all their forecasts.
    __eq__ = object.__eq__
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    @cached_property
    def _latest(self) -> ResultCache:
        """Cache of the forecasts that were read last."""
        return ResultCache(8)

    @cached_property
    def _indices(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def _indices_of_text(self) -> dict[str, int]:
        """Index of each series by its name as text, for names read from a file."""
        return {str(name): i for i, name in enumerate(self.ids)}

    @property
    def levels(self) -> list[float]:
        """Probabilities of the central intervals in tables."""
        columns = next((result.columns for result in self.results if result.columns), {})
        names = [name for name in columns if name.startswith("lower_")]
        return [float(name.removeprefix("lower_").replace("_", ".")) / 100.0 for name in names]

    @cached_property
    def failed(self) -> dict[Any, str]:
        """Reason why there is no forecast, by name of the series."""
        pairs = zip(self.ids, self.results, strict=True)
        return {name: result.problem for name, result in pairs if result.problem is not None}

    def update(
        self, source: Any, *, id: str | None = None, progress: bool = True, **reading: Any
    ) -> Forecasts:
        """Continue the forecasts after new values, without fitting again.

        Series without new values keep their forecasts. Series without a forecast stay without one.
        A remark names new series, and series whose new values cannot be used.

        Args:
            source: A file or a frame with a row for each new value of each series; rows of earlier
                times are skipped.
            id: Column that names the series; None for the column of the input of `forecast_many`.
            progress: Show a progress bar.
            **reading: Options of `read_series`: time, value, every, by, date_format, ...

        Returns:
            The forecasts of the longer series.

        Raises:
            ValueError: If the source cannot be read, or a column is missing.
        """
        options = ReadOptions(**reading)
        tables, notes = tables_by_name(source, id or self.id_name, options)
        remarks = [*notes]
        summaries, sources = list(self.results), list(self.sources)
        with Progress("updates", len(tables), progress) as bar:
            for name, table in tables.items():
                index = self._indices_of_text.get(name)
                if index is not None and summaries[index].problem is None:
                    f, verdict = self[self.ids[index]], bool(summaries[index].verdict)
                    try:
                        f = f.update(values_after(f.series, table, options))
                        summaries[index] = ForecastSummary.from_forecast(f, self.levels, verdict)
                        sources[index] = contents_or_forecast(f)
                    except NoNewValuesError:
                        pass
                    except (ValueError, ArithmeticError) as error:
                        remarks.append(f"no update of {name}: {message_of(error)}")
                bar.advance()
        if unknown := [name for name in tables if name not in self._indices_of_text]:
            remarks.append(
                f"no forecast of {counted(len(unknown), 'new series')}, such as "
                f"{unknown[0]}: use forecast_many"
            )
        return replace(
            self, results=tuple(summaries), sources=tuple(sources), update_remarks=tuple(remarks)
        )

    # -- output -------------------------------------------------------------------------------

    @property
    def scores(self) -> pd.DataFrame:
        """Data frame with the verdict and the past scores of each forecast.

        The columns are verdict, past_values (the number of scored values), error_ratio and
        crps_ratio (below 1 if the forecast beats the seasonal-naive forecast), coverage_80 and
        coverage_95 (shares). They are missing if the verdict was not requested or the series is too
        short.
        """
        import pandas as pd  # slow to import

        pairs = zip(self.ids, self.results, strict=True)
        rows = {
            name: {"verdict": result.verdict or None, **result.metrics}
            for name, result in pairs
            if result.problem is None
        }
        columns = ["verdict", "past_values", "error_ratio", "crps_ratio"]
        columns += ["coverage_80", "coverage_95"]
        index = pd.Index(list(rows), name=self.id_name)
        return pd.DataFrame(list(rows.values()), index=index, columns=pd.Index(columns))

    def plot(
        self, ids: Sequence[Any] | None = None, columns: int = 3, level: float = 0.8
    ) -> Figure:
        """Plot several forecasts in a grid of panels.

        Args:
            ids: Names of the series; the first twelve by default.
            columns: Number of panels in a row.
            level: Probability of the central intervals.
        """
        names = list(self)[:12] if ids is None else list(ids)
        if not names:
            raise ValueError("there is no forecast to plot: ids is empty, or all series failed.")
        fig, axes = panels(len(names), validation.positive_integer(columns, "columns"))
        for ax, name in zip(axes, names, strict=True):
            forecast_plot.forecast(self[name], ax, level)
            if (legend := ax.get_legend()) is not None:
                legend.remove()
            for location in ("left", "right"):
                ax.set_title("", loc=location)
            ax.set_title(short_name(name), loc="left", fontsize=10, parse_math=False)
            ax.set_ylabel("")
            ax.tick_params(labelsize=8)
        legend_below(fig, axes[0])
        return fig

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
        numbers = next((list(result.columns) for result in self.results if result.columns), [])
        columns |= {name: [] for name in (*numbers, "verdict", "remarks", "problem")}
        dated = all(r.times.dtype.kind == "M" for r in self.results if r.problem is None)
        for name, result in zip(self.ids, self.results, strict=True):
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

    def to_dict(self, levels: float | Sequence[float] = LEVELS) -> dict[str, dict[str, Any]]:
        """Plain Python values of all series by name, ready for JSON.

        Args:
            levels: Probabilities of the central intervals.

        Returns:
            For each series `Forecast.to_dict`, or {"problem": reason} if it has no forecast.
        """
        return {str(name): self._record(name, levels) for name in self.ids}

    def _record(self, name: Any, levels: float | Sequence[float]) -> dict[str, Any]:
        problem = self.failed.get(name)
        return {"problem": problem} if problem is not None else self[name].to_dict(levels)

    def export(self, path: str | Path) -> Path:
        """Write the frame as CSV, or as Parquet for a name in .parquet; return its path."""
        import narwhals as nw  # slow to import

        path, frame = Path(path), nw.from_native(self.to_frame())
        with atomic_write(path) as file:
            if path.suffix == ".parquet":
                frame.write_parquet(file)
            else:
                spreadsheet_frame(frame).write_csv(file)
        return path

    def save(self, folder: str | Path) -> None:
        """Write a file for each forecast, and an index, to a folder for `bk.load`.

        If the process is killed, the folder keeps its earlier contents.

        Raises:
            OSError: If the folder is not writable, or holds other files.
            ValueError: If a forecast cannot be saved.
        """
        if Path(folder).suffix in (".csv", ".parquet"):
            raise ValueError(
                f"save writes a folder for bk.load; for a table, use export({str(folder)!r})."
            )
        records = (
            (record_of(name, result), None if result.problem else self._content(i))
            for i, (name, result) in enumerate(zip(self.ids, self.results, strict=True))
        )
        Folder(Path(folder)).replace(self.header, records)

    @property
    def header(self) -> dict[str, Any]:
        """Names of the columns, remarks and number of series, as JSON values."""
        return {
            "id_name": self.id_name,
            "time_name": self.time_name,
            "backend": self.backend,
            "remarks": list(self.remarks),
            "count": len(self.ids),
        }

    def _content(self, index: int) -> bytes:
        """Contents of the file of a forecast."""
        source = self.sources[index]
        if isinstance(source, str):
            raise ValueError(source)
        if isinstance(source, Path):
            return source.read_bytes()
        return source if isinstance(source, bytes) else contents(self[self.ids[index]])

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        import narwhals as nw  # slow to import

        frame = nw.from_native(self.to_frame())
        names, columns = frame.columns, frame.to_dict(as_series=False)
        ids = columns[names[0]]
        lower, upper = ([n for n in names if n.startswith(side)] for side in ("lower_", "upper_"))
        kept = [*names[:2], "median", *lower[-1:], *upper[-1:], "verdict"]
        kept += ["problem"] if self.failed else []
        kept = [name for name in kept if name in columns]
        firsts = [i for i in range(len(ids)) if i == 0 or ids[i] != ids[i - 1]]
        cells = [[_cell(columns[name][i]) for name in kept] for i in firsts[:MAX_PAGE_ROWS]]
        head = [name.replace("_", " ") for name in kept]
        left_out = len(firsts) - MAX_PAGE_ROWS
        table = html.table(head, cells, f"and {left_out} more" if left_out > 0 else "")
        title = f"Forecasts of {len(self)} of {counted(len(self.ids), 'series')}"
        remarks = [*self.remarks, *self.update_remarks]
        words = ["The first future value of each series; to_frame() has all."]
        return html.page(title, None, table, remarks, words)

    def __repr__(self) -> str:
        lines = [f"forecasts of {len(self)} of {counted(len(self.ids), 'series')}"]
        verdicts = Counter(result.verdict for result in self.results if result.verdict)
        shares = [f"{verdict} {count}" for verdict, count in sorted(verdicts.items())]
        lines += [f"  verdicts  {', '.join(shares)}"] if shares else []
        remarks = (*self.remarks, *self.update_remarks)
        lines += [f"  remark    {remark}" for remark in remarks]
        failures = [
            f"  no forecast of {short(str(name), 80)}: {why}" for name, why in self.failed.items()
        ]
        if len(failures) > 10:
            failures[10:] = [f"  no forecast of {len(failures) - 10} more series"]
        return printable_lines("\n".join([*lines, *failures]))


def contents_or_forecast(f: Forecast) -> bytes | Forecast:
    """Contents of the file of a forecast, or the forecast if it cannot be saved.

    The contents take less memory than the forecast.
    """
    try:
        return contents(f, with_tables=False)
    except ValueError:
        return f


def forecasts_in(folder: Folder, header: dict[str, Any], entries: Sequence[Entry]) -> Forecasts:
    """Forecasts of the entries of a folder; each file is read when it is needed."""
    summaries = tuple(ForecastSummary.from_record(entry.record["summary"]) for entry in entries)
    files = [None if entry.file is None else folder.path / entry.file for entry in entries]
    ids = tuple(entry.record["name"] for entry in entries)
    remarks = tuple(header["remarks"])
    if len(entries) < header["count"]:
        remarks += (
            f"the run was stopped with {len(entries)} of {header['count']} series: "
            "forecast_many(resume=True) (--resume) continues it",
        )
    names = header["id_name"], header["time_name"], header["backend"], remarks
    return Forecasts(ids, summaries, *names, sources=tuple(files))


def _read(source: Path | bytes, name: Any) -> Forecast:
    if isinstance(source, Path):
        return forecast_in(netcdf.read(source))
    return forecast_in(netcdf.from_bytes(source, f"the forecast of {name!r}"))


def _cell(value: Any) -> str:
    """Cell of a frame as text, empty if missing."""
    # NaN and NaT differ from themselves.
    if value is None or value != value:
        return ""
    return f"{value:,.4g}" if isinstance(value, float) else str(value).removesuffix(" 00:00:00")
