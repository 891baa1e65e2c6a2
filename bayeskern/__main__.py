"""The command line, as `bayeskern` and as `python -m bayeskern`."""

import sys

from bayeskern.core import extras


def main() -> None:
    """Run the command line, or say how to install the package that it needs."""
    try:
        with extras.needed_for("The command line", package="cyclopts", extra="cli"):
            from bayeskern import cli
    except ImportError as error:
        sys.exit(f"bayeskern: {error}")
    cli.main()


if __name__ == "__main__":
    main()
