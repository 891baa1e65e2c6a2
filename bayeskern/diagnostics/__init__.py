"""Diagnostics of posteriors: comparison, simulation-based calibration, reports."""

from bayeskern.diagnostics.calibration.calibration import Calibration
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.diagnostics.comparison.comparison import Comparison, compare
from bayeskern.diagnostics.comparison.forecasts import ForecastComparison

__all__ = ["Calibration", "Comparison", "ForecastComparison", "calibrate", "compare"]
