"""The command line, as `bayeskern` and as `python -m bayeskern`."""

import ctypes
import gc
import sys
from contextlib import suppress

from bayeskern.core import extras

# Parameter of glibc's mallopt, and memory that is kept for new matrices, in bytes.
M_TOP_PAD, KEPT_BYTES = -2, 64 * 2**20


def main() -> None:
    """Run the command line, or say how to install the package that it needs."""
    _keep_freed_memory()
    try:
        with extras.needed_for("The command line", package="cyclopts", extra="cli"):
            from bayeskern import cli
    except ImportError as error:
        sys.exit(f"bayeskern: {error}")
    try:
        cli.main()
    finally:
        # At exit, Python would look for garbage among all objects, most of them modules.
        gc.freeze()


def _keep_freed_memory() -> None:
    """Keep freed memory for new matrices: the system would hand it out again page by page."""
    # Only glibc has mallopt.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_TOP_PAD, KEPT_BYTES)


if __name__ == "__main__":
    main()
