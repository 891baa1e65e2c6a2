"""Libraries that `import bayeskern` imports late, and one that must come first."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = """
import sys
import bayeskern
print(*sorted({"sklearn", "pandas", "matplotlib", "arviz", "scipy.stats"} & sys.modules.keys()))
"""


@pytest.mark.slow
def test_slow_libraries_are_imported_late():
    run = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


@pytest.mark.slow
def test_report_of_a_forecast_imports_no_slow_statistics(tmp_path):
    report = "bayeskern.report(bayeskern.forecast('airline', 12), 'report.html')"
    script = SCRIPT.replace("import bayeskern\n", f"import bayeskern\n{report}\n")
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert not {"arviz", "scipy.stats"} & {*run.stdout.split()}
    assert "matplotlib" in run.stdout


@pytest.mark.slow
def test_numpyro_is_whole_after_arviz():
    """`numpyro.factor` reads numpyro.distributions.distribution."""
    script = "import arviz, bayeskern, numpyro; numpyro.distributions.distribution.Unit(0.0)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_at_most_twelve_direct_dependencies():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) <= 12
