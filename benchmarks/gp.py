"""Dense log marginal likelihood with its gradient, beside LAPACK's floor and other libraries.

    uv run --group bench python -m benchmarks.gp

RBF with a lengthscale for each of four dimensions, a variance and a noise variance: six
hyperparameters, float64. The floor is potrf + potri on the same matrix. All in one process; the
ratios are what lasts.
"""

import jax
import jax.numpy as jnp
import numpy as np
import tinygp
from scipy.linalg import lapack
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk_kernels

import bayeskern as bk
from bayeskern.kernels import RBF
from benchmarks.timing import best

SIZES = (500, 1000, 2000, 4000)
THETA = np.array([0.0, 0.1, 0.2, 0.0, 0.3, -2.0])  # log of lengthscales, variance, noise


def ours(theta, X, y):
    kernel = RBF(jnp.exp(theta[:4]), jnp.exp(theta[4]))
    return bk.GaussianProcess(kernel, X, jnp.exp(theta[5])).log_prob(y)


def with_tinygp(theta, X, y):
    scaled = tinygp.transforms.Linear(jnp.exp(-theta[:4]), tinygp.kernels.ExpSquared())
    gp = tinygp.GaussianProcess(jnp.exp(theta[4]) * scaled, X, diag=jnp.exp(theta[5]))
    return gp.log_probability(y)


def through_cholesky(theta, X, y):
    K = RBF(jnp.exp(theta[:4]), jnp.exp(theta[4])).evaluate(X)
    L = jnp.linalg.cholesky(K + jnp.exp(theta[5]) * jnp.eye(len(y)))
    z = jax.scipy.linalg.solve_triangular(L, y, lower=True)
    return -0.5 * (z @ z) - jnp.sum(jnp.log(jnp.diagonal(L))) - 0.5 * len(y) * jnp.log(2 * jnp.pi)


def main():
    print(
        f"{'N':>5} {'floor':>9} {'bayeskern':>20} {'tinygp':>20} {'autodiff':>20} {'sklearn':>20}"
    )
    for n in SIZES:
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n, 4)), rng.normal(size=n)
        K = np.asfortranarray(RBF(np.exp(THETA[:4]))(X)) + np.exp(THETA[5]) * np.eye(n)

        def floor(K=K):
            L, _ = lapack.dpotrf(K, lower=1, clean=0)
            return lapack.dpotri(L, lower=1, overwrite_c=1)[0]

        kernel = sk_kernels.ConstantKernel() * sk_kernels.RBF(np.ones(4)) + sk_kernels.WhiteKernel()
        sk = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X[:5], y[:5])
        sk.X_train_, sk.y_train_ = X, y
        theta_sk = np.array([THETA[4], *THETA[:4], THETA[5]])

        repeats = 15 if n <= 1000 else 7
        arguments = (jnp.asarray(THETA), jnp.asarray(X), jnp.asarray(y))
        base = best(floor, repeats=repeats)
        values, cells = [], []
        for function in (ours, with_tinygp, through_cholesky):
            compiled = jax.jit(jax.value_and_grad(function))
            seconds = best(compiled, *arguments, repeats=repeats)
            values.append(float(compiled(*arguments)[0]))
            cells.append(f"{seconds:9.4f} s {seconds / base:6.2f} x")
        seconds = best(
            lambda sk=sk, theta=theta_sk: sk.log_marginal_likelihood(theta, eval_gradient=True),
            repeats=3,
        )
        values.append(sk.log_marginal_likelihood(theta_sk))
        cells.append(f"{seconds:9.4f} s {seconds / base:6.2f} x")
        assert np.ptp(values) < 1e-6 * n, f"the libraries disagree: {values}"
        print(f"{n:>5} {base:9.4f} {' '.join(f'{c:>20}' for c in cells)}")


if __name__ == "__main__":
    main()
