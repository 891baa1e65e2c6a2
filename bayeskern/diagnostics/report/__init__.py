"""The report on a posterior: one HTML file that says first how far to trust it, and then why."""

from bayeskern.diagnostics.report.document import report

__all__ = ["report"]
