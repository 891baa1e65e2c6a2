"""Log marginal likelihood of points in space and its gradient: full grids, nearest neighbours.

    uv run --group bench python -m benchmarks.space [grid] [neighbors] [accuracy]

`grid`: 300 x 300 points, an RBF with a lengthscale for each axis. `neighbors`: 100,000 points at
random in two and in five dimensions, Matern32, 30 neighbours each, beside GPBoost (C++) with as
many. GPBoost gives no gradient by itself: what is printed is what a further iteration of its
gradient descent takes, which has an evidence too. `accuracy`: 5,000 points, the mean log density of
1,000 others, beside the dense solver. Float64, compiled before; looking for neighbours is printed
by itself.
"""

import sys
import time

import gpboost
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32
from bayeskern.linalg import solver_of
from benchmarks.timing import best

N, M = 100_000, 30
SCALE, VARIANCE, NOISE = 0.3, 1.0, 0.09


def data(n, d):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, d))
    return X, np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1]) + 0.3 * rng.normal(size=n)


def of_density(solver, kernel_of, theta, X, y):
    """Seconds of the log density, and with its gradient."""

    def density(theta, solver, X, y):
        *values, noise = jnp.exp(theta)
        return bk.GaussianProcess(kernel_of(*values), X, noise, solver=solver).log_prob(y)

    given = (theta, solver, jnp.asarray(X), jnp.asarray(y))
    functions = density, jax.value_and_grad(density)
    return [best(jax.jit(f), *given, repeats=5) for f in functions]


def grid():
    axis = np.linspace(0.0, 10.0, 300)
    X = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    y = np.sin(X[:, 0]) * np.cos(X[:, 1])
    solver = solver_of(RBF([1.0, 2.0]), X, "kronecker")
    theta = jnp.log(jnp.array([1.0, 2.0, VARIANCE, NOISE]))
    value, both = of_density(solver, lambda a, b, v: RBF(jnp.stack([a, b]), v), theta, X, y)
    print(f"300 x 300 grid: evidence {value:.3f} s, with gradient {both:.3f} s")


def neighbors():
    print(" " * 15, "neighbours  evidence  ratio + gradient  ratio")
    for d in (2, 5):
        X, y = data(N, d)
        start = time.perf_counter()
        solver = solver_of(Matern32(SCALE), X, "neighbors")
        looked = time.perf_counter() - start
        theta = jnp.log(jnp.array([SCALE, VARIANCE, NOISE]))
        mine = of_density(solver, Matern32, theta, X, y)
        report("bayeskern", d, looked, mine, mine)
        report("GPBoost", d, *with_gpboost(X, y), mine)


def report(name, d, looked, seconds, mine):
    ratios = [theirs / ours for theirs, ours in zip(seconds, mine, strict=True)]
    print(
        f"{name:12} {d:2} {looked:10.2f} {seconds[0]:9.2f} {ratios[0]:6.2f} {seconds[1]:10.2f} "
        f"{ratios[1]:6.2f}",
        flush=True,
    )


def with_gpboost(X, y):
    start = time.perf_counter()
    process = gpboost.GPModel(
        gp_coords=X, cov_function="matern", cov_fct_shape=1.5, likelihood="gaussian",
        gp_approx="vecchia", num_neighbors=M, num_parallel_threads=2, seed=1,
    )  # fmt: skip
    looked, pars = time.perf_counter() - start, np.array([NOISE, VARIANCE, SCALE])
    value = best(lambda: process.neg_log_likelihood(cov_pars=pars, y=y), repeats=3)

    def descend(steps):
        options = {
            "optimizer_cov": "gradient_descent", "maxit": steps, "init_cov_pars": pars,
            "lr_cov": 1e-6, "use_nesterov_acc": False, "delta_rel_conv": 1e-30,
        }  # fmt: skip
        start = time.perf_counter()
        process.fit(y=y, params=options)
        return time.perf_counter() - start

    return looked, [value, descend(2) - descend(1)]


def accuracy():
    for d in (2, 5):
        X, y = data(6_000, d)
        found = []
        for solver in ("dense", "neighbors"):
            process = bk.GaussianProcess(Matern32(SCALE), X[:5000], NOISE, solver=solver)
            ahead = process.condition(y[:5000]).predict(X[5000:])
            found.append(np.mean(norm.logpdf(y[5000:], ahead.mean, ahead.sd)))
        print(f"d = {d}: log density of others, dense {found[0]:.4f}, neighbors {found[1]:.4f}")


def main():
    parts = {"grid": grid, "neighbors": neighbors, "accuracy": accuracy}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
