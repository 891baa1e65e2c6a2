"""The inference methods, one a file."""
