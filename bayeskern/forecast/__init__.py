"""Forecasts of a series with honest uncertainty."""

from bayeskern.forecast.backtest import Backtest, backtest
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.result import Forecast, summary

__all__ = ["Backtest", "Forecast", "backtest", "forecast", "summary"]
