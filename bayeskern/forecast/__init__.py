"""Forecasts of a series with honest uncertainty."""

from bayeskern.forecast.anomalies import Anomalies, anomalies
from bayeskern.forecast.backtest import Backtest, backtest
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.forecast_text import summary
from bayeskern.forecast.gaps import FilledSeries, fill_gaps
from bayeskern.forecast.kernel_search import KernelSearch, search_kernel
from bayeskern.forecast.load import load
from bayeskern.forecast.many.collection import Forecasts
from bayeskern.forecast.many.forecast_many import forecast_many
from bayeskern.forecast.many.learned_priors import learn_priors
from bayeskern.forecast.mixed.forecast_mixed import forecast_mixed
from bayeskern.forecast.mixed.result import MixedForecast, Nowcast
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.reconcile.cross_section import reconcile
from bayeskern.forecast.reconcile.reconciled import CoherentForecast, CoherentForecasts, Reconciled
from bayeskern.forecast.reconcile.temporal import TemporallyReconciled, reconcile_temporal
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.scenarios import ScenarioComparison, compare_scenarios
from bayeskern.series.reading import read_series

__all__ = [
    "Anomalies",
    "Backtest",
    "CoherentForecast",
    "CoherentForecasts",
    "FilledSeries",
    "Forecast",
    "Forecasts",
    "KernelSearch",
    "MixedForecast",
    "Nowcast",
    "Priors",
    "Reconciled",
    "ScenarioComparison",
    "StructuralModel",
    "TemporallyReconciled",
    "anomalies",
    "backtest",
    "compare_scenarios",
    "fill_gaps",
    "forecast",
    "forecast_many",
    "forecast_mixed",
    "learn_priors",
    "load",
    "read_series",
    "reconcile",
    "reconcile_temporal",
    "search_kernel",
    "summary",
]
