"""Forecasts of a series with honest uncertainty."""

from bayeskern.forecast.backtest import Backtest, backtest
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.reading import read_series
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.summary import summary

__all__ = ["Backtest", "Forecast", "backtest", "forecast", "read_series", "summary"]
