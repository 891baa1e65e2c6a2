"""Kernel ridge regression on more points than a matrix fits for, beside scikit-learn.

    python -m benchmarks.iterative [peer] [large] [line]

Eight inputs, an RBF, float64. `peer`: at a size where scikit-learn's matrix fits, ours by
conjugate gradients and by the matrix. `large`: 50,000 points, whose matrix would take 20 GB.
`line`: a million points with one input, by the Markov solver, with 50 penalties by leave-one-out.
Each fit has a process of its own, for the sake of its peak memory; compilation counts. Processor
seconds are those of all cores.
"""

import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge

from bayeskern.kernels import RBF, Matern32
from bayeskern.ridge import KernelRidge
from benchmarks.table import OURS, Row

PEER = "scikit-learn"
D = 8
LENGTHSCALE = 3.0
ALPHA = 0.01
#: the fits of each part, as (solver, number of points)
PARTS = {
    "peer": [(PEER, 10_000), ("cholesky", 10_000), ("iterative", 10_000)],
    "large": [("iterative", 50_000)],
    "line": [("markov", 1_000_000)],
}


def data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    truth = np.sin(X[:, 0] + X[:, -1]) + np.cos(X[:, d // 3] * X[:, d // 2])
    return X, truth + 0.1 * rng.normal(size=n), truth


def model(solver):
    if solver == PEER:
        return SklearnKernelRidge(kernel="rbf", gamma=0.5 / LENGTHSCALE**2, alpha=ALPHA)
    if solver == "markov":
        return KernelRidge(Matern32(0.5), "loo", solver=solver)
    return KernelRidge(RBF(LENGTHSCALE), ALPHA, solver=solver)


def fit(solver, n):
    """Print the seconds of a fit and of 1,000 predictions, their error, and what it took."""
    d = 1 if solver == "markov" else D
    X, y, _ = data(n, d)
    new, _, truth = data(1000, d, seed=1)
    start, used = time.perf_counter(), time.process_time()
    fitted = model(solver).fit(X, y)
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    start = time.perf_counter()
    error = np.sqrt(np.mean((fitted.predict(new) - truth) ** 2))
    predicting = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    steps = getattr(fitted, "n_iter_", None) or 0
    print(seconds, processor, predicting, error, peak, steps, getattr(fitted, "residual_", None))


def measured(part):
    """(solver, number of points, what `fit` printed) of each fit of a part."""
    for solver, n in PARTS[part]:
        call = [sys.executable, "-m", "benchmarks.iterative", "fit", solver, str(n)]
        out = subprocess.run(call, check=True, capture_output=True, text=True).stdout
        yield solver, n, out.split()[-7:]


def rows():
    """The seconds of each fit, its compilation included."""
    tasks = {"peer": f"kernel ridge, d = {D}", "large": f"kernel ridge, d = {D}, to 1e-6"}
    tasks["line"] = "kernel ridge on a line, 50 penalties by leave-one-out"
    for part, task in tasks.items():
        for solver, n, (seconds, *_) in sorted(measured(part), key=lambda m: m[0] == PEER):
            yield Row(task, n, PEER if solver == PEER else f"{OURS}, {solver}", float(seconds))


def main():
    wanted = sys.argv[1:] or list(PARTS)
    if wanted[0] == "fit":
        return fit(wanted[1], int(wanted[2]))
    print(
        f"{'N':>9} {'solver':13}{'fit':>8}{'processor':>10}{'predict':>9}{'RMSE':>8}{'GB':>6}"
        f"{'steps':>6} {'residual'}"
    )
    for part in wanted:
        for solver, n, (*numbers, steps, residual) in measured(part):
            seconds, processor, predicting, error, peak = map(float, numbers)
            print(
                f"{n:9,} {solver:13}{seconds:8.1f}{processor:10.1f}{predicting:9.2f}{error:8.4f}"
                f"{peak:6.1f}{steps:>6} {residual}",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
