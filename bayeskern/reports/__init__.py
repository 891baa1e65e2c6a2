"""Reports: one HTML file with the verdict first, then the evidence for it."""

from bayeskern.core import extras

with extras.needed_for("A report", package="jinja2", extra="report"):
    from bayeskern.reports.document import report

__all__ = ["report"]
