"""Files that hold tables: what kind a file is, told by its first bytes, and its columns."""

from bayeskern.forecast.data.files.table import Table, read_table

__all__ = ["Table", "read_table"]
