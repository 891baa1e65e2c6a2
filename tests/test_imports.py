"""Libraries that `import bayeskern` leaves for later: a first forecast would wait for them."""

import subprocess
import sys

SCRIPT = """
import sys
import bayeskern
print(*sorted({"sklearn", "pandas", "matplotlib", "arviz", "scipy.stats"} & sys.modules.keys()))
"""


def test_libraries_that_take_long_to_import_wait_until_they_are_needed():
    run = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []
