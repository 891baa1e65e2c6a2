"""NetCDF files of forecasts, with the series, the forecast and the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayeskern.core import netcdf
from bayeskern.forecast.predicted_series import PredictedSeries
from bayeskern.forecast.saved.state import STORED_CLASSES, state_of
from bayeskern.inference.posterior.netcdf import state_of as state_of_posterior

if TYPE_CHECKING:
    import xarray as xr

FORMAT = netcdf.Format("bayeskern forecast", version=1, classes=STORED_CLASSES)


def contents(f: PredictedSeries, with_tables: bool = True) -> bytes:
    """Contents of the file of a forecast.

    Args:
        f: The forecast.
        with_tables: Add the groups "series" and "forecast", which other programs can read.

    Raises:
        ValueError: A kernel of the user cannot be saved.
    """
    import xarray as xr

    groups = _tables(f) if with_tables else {}
    state: dict[str, Any] = {
        "fitted": state_of(f),
        "before": None if f.before is None else state_of(f.before),
        "fit": None,
    }
    tree = xr.DataTree.from_dict(groups)
    if f.method_posterior is not None:
        tree["fit"] = f.method_posterior.to_arviz()
        state["fit"] = state_of_posterior(f.method_posterior)
    return netcdf.to_bytes(tree, state, FORMAT)


def _tables(f: PredictedSeries) -> dict[str, xr.Dataset]:
    """Groups of the series and of the forecast in numbers."""
    import xarray as xr

    series = f.series
    names = {"time": series.time_name, "value": series.value_name, "name": series.name}
    observed = {"value": ("time", series.values), "time": series.calendar.wall(series.times)}
    table = {name: ("time", column) for name, column in f.to_frame().items()}
    future = {**table, "time": series.calendar.wall(f.times)}
    return {
        "series": xr.Dataset(observed, attrs=names),
        "forecast": xr.Dataset(future, attrs={"verdict": f.trust.verdict}),
    }
