"""A forecast from the contents of its file."""

from __future__ import annotations

from dataclasses import replace

from bayeskern.core import netcdf
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.saved.file import FORMAT
from bayeskern.forecast.saved.state import fields_of
from bayeskern.inference.posterior.load import restored


def forecast_in(stored: netcdf.Stored) -> Forecast:
    """The forecast in the contents of a file.

    Raises:
        ValueError: The file has another format, a newer version, or other structures.
    """
    state = stored.state(FORMAT)
    before = None
    if state["before"] is not None:
        before = Forecast(**fields_of(state["before"], None))
    forecast = Forecast(**fields_of(state["fitted"], before), before=before)
    if state["fit"] is None or forecast.leading is None:
        return forecast
    groups = stored.groups.children["fit"]
    fit = restored(state["fit"], groups, forecast.leading.target)
    return replace(forecast, fit=fit)
