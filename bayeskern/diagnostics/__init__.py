"""What posteriors are worth, and how they differ."""

from bayeskern.diagnostics.calibration.simulation_based import Calibration, calibrate
from bayeskern.diagnostics.comparison.comparison import Comparison, compare

__all__ = ["Calibration", "Comparison", "calibrate", "compare"]
