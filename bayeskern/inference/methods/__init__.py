"""The inference methods, one per file."""
