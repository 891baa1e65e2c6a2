"""One process and two, each on a core of its own: what is shared out, and what that saves.

    uv run python -m benchmarks.processes

The evidence with its gradient of 50,000 points in two dimensions by 30 neighbours, and a product
with the Gram matrix of 20,000 points in eight, whose tiles are computed anew for each product.
One process may take all cores too, which the tiles do by themselves.
"""

import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32
from bayeskern.linalg import solver_of
from bayeskern.linalg.iterative.tiled_gram import TiledGram
from benchmarks.table import OURS, Row, show
from benchmarks.timing import best

POINTS, TILED = 50_000, 20_000
TASKS = {"30 neighbours, d = 2: evidence and gradient": POINTS, "a product with k(X)": TILED}


def neighbors():
    X = np.random.default_rng(0).uniform(size=(POINTS, 2))
    solver = solver_of(Matern32(0.3), X, "neighbors")

    def density(scale, X, y, solver):
        return bk.GaussianProcess(Matern32(scale), X, 0.1, solver=solver).log_prob(y)

    given = jnp.asarray(0.3), jnp.asarray(X), jnp.sin(6.0 * X[:, 0]), solver
    return best(jax.jit(jax.value_and_grad(density)), *given, repeats=3)


def tiles():
    X = np.random.default_rng(0).normal(size=(TILED, 8))
    gram = TiledGram(RBF(3.0), X)
    return best(lambda: gram @ X[:, :1], repeats=3)


def measure(count, cores=None):
    """Seconds of both tasks by so many processes, each of them on the next of the cores."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "benchmarks.processes", address, str(count)]
    processes = [
        subprocess.Popen(
            [*command, str(place), str(cores[place]) if cores else "all"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in range(count)
    ]
    said = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, said, strict=True):
        if process.returncode:
            raise RuntimeError(f"a process ended with {process.returncode}:\n{errors}")
    first = said[0][0]
    # Gloo speaks on standard output too.
    return map(float, first.splitlines()[-1].split())


def run(address, count, place, core):
    if core != "all":
        os.sched_setaffinity(0, {int(core)})
    bk.distributed.initialize(address, int(count), int(place))
    print(neighbors(), tiles())


def rows():
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        print("one core only: two processes would wait for one another", file=sys.stderr)
        return
    runs = {
        f"{OURS}, one core": measure(1, cores),
        "all cores": measure(1),
        "two processes": measure(2, cores),
    }
    for (task, n), *seconds in zip(TASKS.items(), *runs.values(), strict=True):
        for name, value in zip(runs, seconds, strict=True):
            yield Row(f"processes, {task}", n, name, value)


if __name__ == "__main__":
    run(*sys.argv[1:]) if len(sys.argv) > 1 else show(rows())
