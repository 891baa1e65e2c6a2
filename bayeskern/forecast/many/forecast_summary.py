"""The forecast of one of many series in numbers, for tables and for the index of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayeskern.forecast.predicted_series import LEVELS, PredictedSeries


class ForecastSummary(NamedTuple):
    """Forecast of one series in numbers, or the reason why there is none.

    Attributes:
        times: Future local times, (horizon,).
        columns: Columns of `Forecast.to_frame`.
        verdict: The verdict; "" if it was not requested.
        remarks: Remarks on the forecast.
        problem: Reason why there is no forecast; None if there is one.
        metrics: Scores at past origins by name; empty if there are none.
    """

    times: np.ndarray
    columns: dict[str, np.ndarray]
    verdict: str
    remarks: tuple[str, ...]
    problem: str | None
    metrics: dict[str, float]

    @classmethod
    def from_forecast(
        cls, f: PredictedSeries, levels: Sequence[float] = LEVELS, verdict: bool = True
    ) -> ForecastSummary:
        """Summary of a forecast with intervals at `levels` and, optionally, its verdict."""
        table = f.to_frame(levels)
        columns = {name: table[name].to_numpy() for name in table.columns}
        remarks = f.remarks
        if f.problem and not verdict:
            remarks = (*remarks, f.problem)
        times, past = f.series.calendar.wall(f.times), f.past_scores if verdict else None
        metrics = {} if past is None else past.metrics
        word = f.trust.verdict if verdict else ""
        return cls(times, columns, word, remarks, None, metrics)

    @classmethod
    def failed(cls, problem: str) -> ForecastSummary:
        """Summary of a series without a forecast."""
        return cls(np.empty(0), {}, "", (), problem, {})

    def record(self) -> dict[str, Any]:
        """Summary as JSON values."""
        dated = self.times.dtype.kind == "M"
        times = (self.times.astype(np.int64) if dated else self.times).tolist()
        columns = {name: values.tolist() for name, values in self.columns.items()}
        return self._asdict() | {"times": [self.times.dtype.str, times], "columns": columns}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ForecastSummary:
        """Summary from the result of `record`."""
        dtype, times = record["times"]
        columns = {name: np.array(values) for name, values in record["columns"].items()}
        remarks = tuple(record["remarks"])
        arrays = {"times": np.array(times).astype(dtype), "columns": columns, "remarks": remarks}
        return cls(**(record | arrays))


def record_of(name: Any, summary: ForecastSummary) -> dict[str, Any]:
    """Index entry of a forecast, as JSON values.

    A name that is not a number or text becomes text.
    """
    kept = name.item() if isinstance(name, np.generic) else name
    kept = kept if isinstance(kept, str | int | float) else str(kept)
    return {"name": kept, "summary": summary.record()}
