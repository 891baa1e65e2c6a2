"""Results as HTML for notebooks, as a picture and a table without scripts."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core.formatting import counted, printable
from bayeskern.forecast.show.explain import explain
from bayeskern.forecast.show.printing import rounded, value_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayeskern.forecast.anomalies import Anomalies
    from bayeskern.forecast.backtest import Backtest
    from bayeskern.forecast.gaps import FilledSeries
    from bayeskern.forecast.many.collection import Forecasts
    from bayeskern.forecast.result import Forecast


def of_forecast(f: Forecast, rows: int = 12) -> str:
    """Forecast as words, verdict, picture and table of the next values."""
    head, cells, left_out = value_table(f, rows)
    note = f"{counted(left_out, 'step')} left out before the last one" if left_out else ""
    return _page(
        f"{f.series.name}: {counted(f.horizon, 'step')} ahead",
        [explain(f), f"Verdict: {f.trust.verdict}. {f.trust.advice}", *_remarks(f.remarks)],
        f.plot(),
        _table(head, cells, note),
    )


def of_backtest(result: Backtest) -> str:
    """Backtest as picture and table of scores."""
    head = ["", *(name.replace("_", " ") for name in next(iter(result.scores.values())))]
    cells = [
        [model, *(f"{value:.3g}" for value in scores.values())]
        for model, scores in result.scores.items()
    ]
    title = f"{result.series.name}: forecasts from {counted(len(result.folds), 'past date')}"
    return _page(title, _remarks(result.remarks), result.plot(), _table(head, cells))


def of_anomalies(result: Anomalies, rows: int = 12) -> str:
    """Anomalies as picture and table of the values outside."""
    f, outside = result.forecast, np.flatnonzero(result.outside)
    lower, upper = result.interval
    columns = {"value": result.values, "median": result.median, "lower": lower, "upper": upper}
    title = f"{f.series.name}: {len(outside)} of {len(result.values)} values stand out"
    table = _table_of_values(result, columns, outside, rows)
    return _page(title, _remarks(f.series.remarks), result.plot(), table)


def of_filled(result: FilledSeries, rows: int = 12) -> str:
    """Filled series as picture and table of the predictions."""
    f, missing = result.forecast, np.flatnonzero(result.missing)
    lower, upper = result.interval
    columns = {"median": result.values, "lower": lower, "upper": upper}
    title = f"{f.series.name}: {counted(len(missing), 'missing value')} filled"
    table = _table_of_values(result, columns, missing, rows)
    return _page(title, _remarks(f.series.remarks), result.plot(), table)


def _table_of_values(
    result: Anomalies | FilledSeries,
    columns: Mapping[str, np.ndarray],
    selection: np.ndarray,
    rows: int,
) -> str:
    """Table of the first `rows` times of a selection; "" if the selection is empty.

    Args:
        result: The result.
        columns: Name -> numbers at all times.
        selection: Indices of the selected times.
        rows: Largest number of rows.
    """
    if not len(selection):
        return ""
    f = result.forecast
    digits = int(2 - np.floor(np.log10(float(np.std(result.values)) or 1.0)))
    labels = f.time_labels(result.times[selection[:rows]])
    rows_of_numbers = np.column_stack([*columns.values()])[selection[:rows]].tolist()
    cells = [
        [label, *(rounded(value, digits) for value in numbers)]
        for label, numbers in zip(labels, rows_of_numbers, strict=True)
    ]
    note = f"and {len(selection) - rows} more" if len(selection) > rows else ""
    return _table([f.series.time_name, *columns], cells, note)


def of_forecasts(result: Forecasts, rows: int = 20) -> str:
    """Forecasts of many series as a table of the next value of each."""
    import narwhals as nw  # slow to import

    frame = nw.from_native(result.to_frame())
    names, columns = frame.columns, frame.to_dict(as_series=False)
    ids = columns[names[0]]
    lower, upper = ([n for n in names if n.startswith(side)] for side in ("lower_", "upper_"))
    kept = [*names[:2], "median", *lower[-1:], *upper[-1:], "verdict"]
    kept += ["problem"] if result.failed else []
    firsts = [i for i in range(len(ids)) if i == 0 or ids[i] != ids[i - 1]]
    cells = [[_cell(columns[name][i]) for name in kept if name in columns] for i in firsts[:rows]]
    head = [name.replace("_", " ") for name in kept if name in columns]
    note = f"and {len(firsts) - rows} more" if len(firsts) > rows else ""
    failed = len(result.failed)
    title = f"Forecasts of {len(firsts) - failed} of {counted(len(firsts), 'series')}"
    words = ["The first future value of each series; to_frame() has all."]
    remarks = _remarks([*result.remarks, *result.update_remarks])
    return _page(title, [*words, *remarks], None, _table(head, cells, note))


def _cell(value: Any) -> str:
    """Cell of a frame as text, empty if missing."""
    # NaN and NaT differ from themselves.
    if value is None or value != value:
        return ""
    return f"{value:,.4g}" if isinstance(value, float) else str(value).removesuffix(" 00:00:00")


def _remarks(remarks: Sequence[str]) -> list[str]:
    """Remarks as one paragraph; empty without remarks."""
    return [f"Remarks: {'; '.join(remarks)}."] if remarks else []


def _text(text: str) -> str:
    """Text without markup and without control characters."""
    return escape(printable(text))


def _page(title: str, words: Sequence[str], figure: Figure | None, table: str) -> str:
    """Block of HTML; title and words are escaped, the table is HTML already."""
    texts = "".join(f"<p>{_text(text)}</p>" for text in words)
    picture = "" if figure is None else _picture(figure, title)
    return (
        '<div style="max-width: 60em; font-variant-numeric: tabular-nums">'
        f"<p><strong>{_text(title)}</strong></p>{texts}{picture}{table}</div>"
    )


def _picture(figure: Figure, title: str) -> str:
    """A figure as a picture inside the page."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=90)
    data = base64.b64encode(png.getvalue()).decode("ascii")
    source = f"data:image/png;base64,{data}"
    return f'<img alt="{_text(title)}" style="width: 100%; background: white" src="{source}">'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table with right-aligned cells, and a note below it."""
    style = ' style="text-align: right; padding: 0.1em 0.8em"'
    cells = "".join(f"<th{style}>{_text(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    below = f"<p>{_text(note)}</p>" if note else ""
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{below}"
