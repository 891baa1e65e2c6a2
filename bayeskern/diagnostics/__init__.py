"""How far posteriors can be trusted, and how they differ."""

from bayeskern.diagnostics.calibration.calibration import Calibration
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.diagnostics.comparison.comparison import Comparison, compare

__all__ = ["Calibration", "Comparison", "calibrate", "compare"]
