"""Coverage of the intervals of a deep kernel and of an RBF.

    uv run python -m benchmarks.deep_kernels

Three sets of 25 points of sin(2x) in (-2, 2) with noise of sd 0.3. The table of "Deep kernels" in
docs/api/kernels.md is what this prints.
"""

import equinox as eqx
import jax
import numpy as np
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF, Free

POINTS, NEW, SD, SETS = 25, 1000, 0.3, 3


def data(seed: int, n: int):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    return X, np.sin(2.0 * X[:, 0]) + SD * rng.standard_normal(n)


def kernels(seed: int):
    """name -> the kernel, and the method that it is fitted by."""
    key = jax.random.key(seed)
    network = eqx.nn.MLP(1, 2, 20, 2, activation=jax.nn.tanh, key=key)
    yield "RBF, lengthscale Free", RBF(Free(1.0)), "mle"
    yield "weights=Free", RBF().warp(network, weights=Free), "mle"
    yield "weights=Normal(0, 1)", RBF().warp(network, weights=dist.Normal(0.0, 1.0)), "map"


def main():
    print(f"{'':<24}{'in 95%':>8}{'rmse':>8}{'noise':>8}")
    for seed in range(SETS):
        X, y = data(seed, POINTS)
        X_new, y_new = data(100 + seed, NEW)
        for name, kernel, method in kernels(seed):
            model = bk.GPRegression(Free(1.0) * kernel, Free(0.1))
            posterior = bk.infer(model, X, y, method=method, seed=0, progress=False)
            new = posterior.predict(X_new)
            low, high = new.interval(0.95)
            inside = np.mean((low < y_new) & (y_new < high))
            error = np.sqrt(np.mean(np.square(new.mean - np.sin(2.0 * X_new[:, 0]))))
            noise = np.sqrt(np.mean(posterior.flat["noise"]))
            print(f"{name:<24}{inside:>8.0%}{error:>8.2f}{noise:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
