"""The report on a posterior: one HTML file that says first how far to trust it, and then why."""

from bayeskern.core import extras

with extras.needed_for("A report", package="jinja2", extra="report"):
    from bayeskern.diagnostics.report.document import report

__all__ = ["report"]
