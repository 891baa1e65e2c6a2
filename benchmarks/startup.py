"""Import time, the time of a first forecast in Python, and that of the main command.

    uv run python -m benchmarks.startup

Each import is timed in processes of its own, the two alternating, medians of several; the
forecasts are made with no compilation cache, the import included in the first; the command is run
in an empty folder with an empty one, and again. Python writes bytecode, as it does for users.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

# A forecast with its verdict, and then others in the same process.
FORECAST = """
import sys, time
start = time.perf_counter()
import bayeskern as bk
airline = bk.datasets.load("airline")

def forecast(*arguments, **options):
    global start
    print(bk.forecast(*arguments, **options))
    print(time.perf_counter() - start, file=sys.stderr)
    start = time.perf_counter()

forecast("airline", 12)
forecast(bk.read_series(airline.values[:-24], airline.times[:-24]), 12)
forecast("airline", 24)
forecast("airline", 12)
"""
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
LAPS = ("first", "another length", "another horizon", "the same again")


def seconds(*arguments, env=ENVIRONMENT, **options) -> float:
    start = time.perf_counter()
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env, **options)
    return time.perf_counter() - start


def main(repeats: int = 5):
    statements = ("import numpyro, arviz", "import bayeskern")
    times = {s: [] for s in statements}
    for _ in range(repeats):
        for s in statements:
            times[s].append(seconds("-c", s))
    peers, ours = (statistics.median(times[s]) for s in statements)
    print(f"import numpyro, arviz   {peers:6.2f} s")
    print(f"import bayeskern        {ours:6.2f} s   {ours / peers:.2f} x")
    uncached = {**ENVIRONMENT, "JAX_ENABLE_COMPILATION_CACHE": "0"}
    laps = []
    for _ in range(repeats):
        command = [sys.executable, "-c", FORECAST]
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=uncached)
        laps.append([float(line) for line in run.stderr.split()])
    for label, times in zip(LAPS, zip(*laps, strict=True), strict=True):
        print(f"bk.forecast, {label:<16}{statistics.median(times):6.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**ENVIRONMENT, "XDG_CACHE_HOME": folder}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        command = ("-m", "bayeskern", "forecast", "co2", "--horizon", "120")
        for label in ("first", "second"):
            print(
                f"forecast co2, {label:<10}{seconds(*command, cwd=folder, env=environment):6.1f} s"
            )


if __name__ == "__main__":
    main()
