"""Every solver beside its peers: one table, charts, and the numbers with their machine.

    uv run --group bench python -m benchmarks [FOLDER]

Twenty minutes or so. A peer that is not installed is left out, with a line that says so. FOLDER, by
default benchmarks/results, gets solvers.json and solvers.png. The other scripts of this folder
print tables of their own.
"""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from bayeskern.core.files import atomic_write
from benchmarks import chains, gp, iterative, markov, processes, space
from benchmarks.charts import chart
from benchmarks.table import printed

PARTS = (gp, markov, space, iterative, chains, processes)


def machine() -> str:
    """The processor, its cores, and the versions that count."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.name == "posix" else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "numpy", "scipy"))
    return f"{next(iter(names), platform.processor())}, {os.cpu_count()} cores; {packages}"


def main(folder="benchmarks/results"):
    print(machine())
    rows, folder = [], Path(folder)
    for part in PARTS:
        rows += printed(part.rows())
        # After each part, since the next may fail.
        with atomic_write(folder / "solvers.json") as file:
            found = {"machine": machine(), "rows": [row._asdict() for row in rows]}
            file.write_text(json.dumps(found, indent=1) + "\n")
        with atomic_write(folder / "solvers.png") as file:
            chart(rows, machine()).savefig(file, dpi=110)
    print()
    space.accuracy()


if __name__ == "__main__":
    main(*sys.argv[1:])
