"""Libraries that need an environment of their own, run as programs of benchmarks/peers.

Two variables of the environment name the Pythons that have them:

    GPYTORCH_PYTHON=.../bin/python GPJAX_PYTHON=.../bin/python python -m benchmarks
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PEERS = Path(__file__).parent / "peers"


def python_of(library: str) -> str | None:
    """The Python that has a library; None, with a line that says so, where none is named."""
    variable = f"{library.upper()}_PYTHON"
    found = os.environ.get(variable)
    if found is None:
        print(f"{library} is left out: {variable} names no Python that has it", file=sys.stderr)
    return found


def run(library: str, python: str, repeats: int, **data) -> tuple[float, float]:
    """Its result and the seconds of its fastest run, for arrays that are handed over in a file.

    Raises:
        RuntimeError: If the program fails, with what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        np.savez(file, **data)
        command = [python, str(PEERS / f"with_{library}.py"), str(file), str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{library} ended with {done.returncode}:\n{done.stderr}")
    value, seconds = map(float, done.stdout.split())
    return value, seconds
