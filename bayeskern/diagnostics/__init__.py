"""What posteriors are worth, and how they differ."""

from bayeskern.diagnostics.calibration import Calibration, calibrate
from bayeskern.diagnostics.compare import Comparison, compare

__all__ = ["Calibration", "Comparison", "calibrate", "compare"]
