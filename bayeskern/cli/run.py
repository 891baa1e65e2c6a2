"""Run the command line and report errors in one line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from cyclopts import CycloptsError

from bayeskern.cli import models, regression, saved, series
from bayeskern.cli.app import app
from bayeskern.core.formatting import message_of

# Importing a module adds its commands to `app`.
COMMANDS = (series, saved, models, regression)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    An error in the input prints one line on the standard error; the exit status is 2.

    Args:
        arguments: The arguments; by default those of the process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, TextIOWrapper):
        # Letters that the terminal's encoding lacks are written as escapes.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            tokens = [argument for argument in arguments if argument != "--debug"]
            app(tokens, print_error=False, exit_on_error=False)
        finally:
            # Flushed here, so that a failure to write is reported below and not at exit.
            _flush()
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe; Python must not write to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (CycloptsError, ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        if "--debug" in arguments:
            raise
        reason = str(error) or "not enough memory; read fewer values"
        print(message_of(f"bayeskern: {reason}"), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("bayeskern: stopped", file=sys.stderr)
        sys.exit(130)


def _flush() -> None:
    # A process may have no standard output.
    if sys.stdout is not None:
        sys.stdout.flush()
