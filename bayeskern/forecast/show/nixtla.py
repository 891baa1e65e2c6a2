"""Names of columns as in the libraries of Nixtla, such as statsforecast."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayeskern.core import validation
from bayeskern.series.columns import NIXTLA_ID, NIXTLA_TIME

MODEL = "bayeskern"
SIDES = {"lower": "lo", "upper": "hi"}


def renamed(
    columns: Mapping[str, list[Any]], names: str, id_name: str, time_name: str
) -> dict[str, list[Any]]:
    """Columns of the forecasts of many series with the names of another library.

    Args:
        columns: Columns of `Forecasts.to_frame`.
        names: "nixtla".
        id_name: Column of the names of the series.
        time_name: Column of the times.

    Returns:
        unique_id, ds, bayeskern (the median) and, for each interval end such as upper_95,
        bayeskern-hi-95, as `utilsforecast.evaluation.evaluate` takes them. Rows of series without
        a forecast are left out.

    Raises:
        ValueError: If the names are unknown.
    """
    validation.one_of("names", names, ["nixtla"])
    kept = [row for row, problem in enumerate(columns["problem"]) if problem is None]
    new_names = {id_name: NIXTLA_ID, time_name: NIXTLA_TIME, "median": MODEL}
    for name in columns:
        if end := re.fullmatch(r"(lower|upper)_([\d_]+)", name):
            new_names[name] = f"{MODEL}-{SIDES[end[1]]}-{end[2].replace('_', '.')}"
    return {new: [columns[old][row] for row in kept] for old, new in new_names.items()}
