"""Forecasts and posteriors from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bayeskern.core import netcdf
from bayeskern.forecast.many.collection import Forecasts, forecasts_in
from bayeskern.forecast.result import Forecast, forecast_in
from bayeskern.forecast.saved.file import FORMAT
from bayeskern.forecast.saved.folder import Folder
from bayeskern.inference import Posterior
from bayeskern.inference.posterior.load import posterior_in


def load(path: str | Path, model: Callable | None = None) -> Forecast | Forecasts | Posterior:
    """Read a forecast, a folder of forecasts or a posterior that its method `save` wrote.

    Args:
        path: Name of the file, or of the folder.
        model: The model of a posterior that was fitted. Everything but predictions works without.

    Returns:
        The forecast, the forecasts by name, or the posterior with its verdict.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, of a newer version, or not written by `save`; or if
            `model` is not the fitted model.
        TypeError: If the model cannot be called.

    Examples:
        ```python
        bk.forecast("co2", 12).save("co2.nc")
        forecast = bk.load("co2.nc")  # nothing is fitted again
        ```
    """
    if Path(path).is_dir():
        folder = Folder(Path(path))
        forecasts = forecasts_in(folder, *folder.read())
        _refuse_model(path, model)
        return forecasts
    stored = netcdf.read(path)
    if not stored.is_a(FORMAT):
        return posterior_in(stored, model)
    _refuse_model(path, model)
    return forecast_in(stored)


def _refuse_model(path: str | Path, model: Callable | None) -> None:
    if model is not None:
        raise ValueError(f"{path} holds forecasts, which need no model: remove model=.")
