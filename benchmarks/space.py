"""Log marginal likelihood of points in space and its gradient: full grids, nearest neighbours.

    uv run --group bench python -m benchmarks.space

- A grid of 300 x 300 points, an RBF with a lengthscale for each axis.
- Points at random in two and in five dimensions, Matern32, 30 neighbours each, beside GPBoost
  (C++) with as many. GPBoost gives no gradient by itself: what is printed is what a further
  iteration of its gradient descent takes, which has an evidence too. Finding the neighbours is
  printed by itself.
- 5,000 points, the mean log density of 1,000 others, beside the dense solver, and beside inducing
  points.

Float64, compiled before.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import norm

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32
from bayeskern.linalg import solver_of
from benchmarks.table import OURS, Row, peer, show
from benchmarks.timing import best

gpboost = peer("gpboost")
SIZES, M = (10_000, 100_000), 30
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
    seconds = of_density(solver, lambda a, b, v: RBF(jnp.stack([a, b]), v), theta, X, y)
    yield Row("a grid of 300 x 300: evidence", len(X), OURS, *seconds)


def neighbors():
    for d in (2, 5):
        looking, task = (f"{M} neighbours, d = {d}: {what}" for what in ("finding", "evidence"))
        found, evidence = [], []
        for n in SIZES:
            X, y = data(n, d)
            start = time.perf_counter()
            solver = solver_of(Matern32(SCALE), X, "neighbors")
            found.append(Row(looking, n, OURS, time.perf_counter() - start))
            theta = jnp.log(jnp.array([SCALE, VARIANCE, NOISE]))
            evidence.append(Row(task, n, OURS, *of_density(solver, Matern32, theta, X, y)))
            if gpboost:
                looked, seconds = with_gpboost(X, y)
                found.append(Row(looking, n, "GPBoost", looked))
                evidence.append(Row(task, n, "GPBoost", *seconds))
        yield from found + evidence


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
    """Print the mean log density of new values, and the seconds that fixed hyperparameters take."""
    n, inducing = 5_000, 500
    for d in (2, 5):
        X, y = data(n + 1_000, d)
        for name in ("dense", "neighbors"):
            process = bk.GaussianProcess(Matern32(SCALE), X[:n], NOISE, solver=name)

            def predict(process=process, y=y[:n], X_new=X[n:]):
                ahead = process.condition(y).predict(X_new)
                return ahead.mean, ahead.sd

            report_density(name, d, y[n:], predict)
        Z = X[np.random.default_rng(1).choice(n, inducing, replace=False)]
        points = f"{inducing} inducing"
        report_density(points, d, y[n:], lambda X=X, y=y, Z=Z: titsias(X[:n], y[:n], Z, X[n:]))


def report_density(name, d, y, predict):
    seconds = best(predict, repeats=1)
    print(f"d = {d}, {name:12} {np.mean(norm.logpdf(y, *predict())):8.4f} {seconds:7.2f} s")


def titsias(X, y, Z, X_new):
    """Mean and sd of new values where the bound of Titsias (2009) has its maximum: `SparseGP`."""
    kernel = Matern32(SCALE, VARIANCE)
    L = np.linalg.cholesky(kernel(Z) + 1e-8 * np.eye(len(Z)))
    A, B = (solve_triangular(L, np.asarray(kernel(Z, x)), lower=True) for x in (X, X_new))
    R = np.linalg.cholesky(np.eye(len(Z)) + A @ A.T / NOISE)
    weights = solve_triangular(R, A @ y / NOISE, lower=True)
    C = solve_triangular(R, B, lower=True)
    variance = VARIANCE - np.sum(B**2, axis=0) + np.sum(C**2, axis=0) + NOISE
    return weights @ C, np.sqrt(variance)


def rows():
    yield from grid()
    yield from neighbors()


if __name__ == "__main__":
    show(rows())
    accuracy()
