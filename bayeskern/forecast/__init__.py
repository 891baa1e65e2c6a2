"""Forecasts of a series with honest uncertainty."""

from bayeskern.forecast.forecast import Forecast, forecast

__all__ = ["Forecast", "forecast"]
