"""Forecasts of a series with honest uncertainty."""

from bayeskern.forecast.backtest import Backtest, backtest
from bayeskern.forecast.forecast import Forecast, forecast, summary

__all__ = ["Backtest", "Forecast", "backtest", "forecast", "summary"]
