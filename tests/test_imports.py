"""Libraries that `import bayeskern` does not import, to save time."""

import subprocess
import sys

SCRIPT = """
import sys
import bayeskern
print(*sorted({"sklearn", "pandas", "matplotlib", "arviz", "scipy.stats"} & sys.modules.keys()))
"""


def test_slow_libraries_are_imported_late():
    run = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []
