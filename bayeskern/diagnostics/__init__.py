"""What posteriors are worth, and how they differ."""

from bayeskern.diagnostics.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
