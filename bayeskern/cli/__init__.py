"""The command line. The docstring of a command is its `--help`."""

from bayeskern.cli.app import app
from bayeskern.cli.run import main

__all__ = ["app", "main"]
