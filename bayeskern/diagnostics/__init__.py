"""Diagnostics of posteriors: comparison, leave-one-out, simulation-based calibration."""

from bayeskern.diagnostics.calibration.calibration import Calibration
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.diagnostics.comparison.comparison import Comparison, compare
from bayeskern.diagnostics.comparison.forecasts import ForecastComparison
from bayeskern.diagnostics.leave_one_out.loo import loo
from bayeskern.diagnostics.leave_one_out.result import CrossValidation

__all__ = [
    "Calibration",
    "Comparison",
    "CrossValidation",
    "ForecastComparison",
    "calibrate",
    "compare",
    "loo",
]
