"""The command line, as `python -m bayeskern`."""

from bayeskern.cli import main

if __name__ == "__main__":
    main()
