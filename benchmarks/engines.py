"""The log density of a structure and its gradient, by JAX, by NumPy and by a filter.

    uv run python -m benchmarks.engines

Each row is a fresh process. "First" is the time of the first evaluation with all that it takes:
the target is made, compiled or not. "Later" is the median of further evaluations. "A forecast" is
the first evaluation of each trend, and a later one for each evaluation that a forecast of the
airline data makes, whose number is printed first. The last rows ask the reverse: NumPy called back
from a compiled step, as NUTS on a `GPRegression` would have to.
"""

import subprocess
import sys
import tempfile
from os import environ

import bayeskern as bk
from bayeskern.core.formatting import aligned
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.forecast.model.trends import TRENDS

SCRIPT = """
import statistics, sys, time
import jax, jax.numpy as jnp, numpy as np
import bayeskern as bk
from bayeskern.forecast.model.target import bound
from bayeskern.forecast.model.kernels import default_noise
from bayeskern.forecast.model.trends import default_kernel
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.prior import NumpyPrior
from bayeskern.engine.steady.log_marginal import SteadyLogMarginal
from bayeskern.forecast.model.processes.state_prior import StatePrior

n, engine = int(sys.argv[1]), sys.argv[2]
x = np.arange(n) / 12.0
y = np.sin(2.0 * np.pi * x) + 0.1 * np.random.default_rng(0).normal(size=n).cumsum()
model = bk.GPRegression(default_kernel("slope", {"season": 1.0}), default_noise())
in_numpy = DenseLogMarginal(NumpyPrior(model.kernel, model.noise), x, y)

def called_back(z):
    shapes = jax.ShapeDtypeStruct((), z.dtype), jax.ShapeDtypeStruct(z.shape, z.dtype)
    return jax.pure_callback(lambda z: in_numpy.value_and_gradient(np.asarray(z)), shapes, z)

def evaluation():
    if engine == "numpy":
        return in_numpy.value_and_gradient
    if engine == "filter":
        states = StatePrior.for_trend(in_numpy.prior, "slope", {"season": 1.0}, 1.0 / 12.0)
        return SteadyLogMarginal(states, x, y).value_and_gradient
    if engine == "callback":
        return jax.jit(called_back)
    density = jax.value_and_grad(bound(model, x, y).log_density)
    return density if engine == "eager" else jax.jit(density)

z = np.array(in_numpy.middle)
start = time.perf_counter()
evaluate = evaluation()
jax.block_until_ready(evaluate(z))
first, later = time.perf_counter() - start, []
with in_numpy.threads():
    for i in range(20):
        start = time.perf_counter()
        jax.block_until_ready(evaluate(z + 0.01 * i))
        later.append(time.perf_counter() - start)
print(first, statistics.median(later))
"""
ENGINES = {
    "NumPy, formulas": "numpy",
    "NumPy, filter": "filter",
    "JAX, compiled": "compiled",
    "JAX, compiled before and kept on disk": "compiled",
    "JAX, operation by operation": "eager",
    "NumPy called back from JAX": "callback",
}
SIZES = (120, 468)


def seconds(n: int, engine: str, cache: str) -> tuple[float, float]:
    """Seconds of the first evaluation and of a later one, in a fresh process."""
    environment = {
        **environ,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, "-c", SCRIPT, str(n), engine]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    first, later = map(float, run.stdout.split())
    return first, later


def evaluations() -> int:
    """Evaluations of densities with their gradients in a forecast of the airline data."""
    evaluate, calls = DenseLogMarginal.value_and_gradient, []

    def counted(evidence, z):
        calls.append(z)
        return evaluate(evidence, z)

    DenseLogMarginal.value_and_gradient = counted
    bk.forecast("airline", 12)
    DenseLogMarginal.value_and_gradient = evaluate
    return len(calls)


def main():
    count = evaluations()
    print(f"{count} evaluations in a forecast of the airline data")
    rows = [("engine", "n", "first, s", "later, ms", "a forecast, s")]
    for n in SIZES:
        with tempfile.TemporaryDirectory() as kept:
            for label, engine in ENGINES.items():
                with tempfile.TemporaryDirectory() as empty:
                    cache = kept if engine == "compiled" else empty
                    first, later = seconds(n, engine, cache)
                total = len(TRENDS) * first + count * later
                rows.append((label, str(n), f"{first:.2f}", f"{1e3 * later:.2f}", f"{total:.2f}"))
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    main()
