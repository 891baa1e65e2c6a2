"""Dense log marginal likelihood with its gradient, beside LAPACK's floor and other libraries.

    uv run --group bench python -m benchmarks.gp

RBF with a lengthscale for each of four dimensions, a variance and a noise variance: six
hyperparameters, float64. LAPACK is potrf + potri on the same matrix. All in one process, but for
GPyTorch and GPJax, which have environments of their own (benchmarks/elsewhere.py); the ratios are
what lasts.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk_kernels

import bayeskern as bk
from bayeskern.kernels import RBF
from benchmarks import elsewhere
from benchmarks.table import OURS, Row, peer, show
from benchmarks.timing import best

tinygp = peer("tinygp")
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


def rows():
    task = "dense, RBF in four dimensions: evidence"
    pythons = {name: elsewhere.python_of(name.lower()) for name in ("GPyTorch", "GPJax")}
    others = {name: python for name, python in pythons.items() if python}
    for n in SIZES:
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n, 4)), rng.normal(size=n)
        arguments = (jnp.asarray(THETA), jnp.asarray(X), jnp.asarray(y))
        repeats = 15 if n <= 1000 else 7
        libraries = {OURS: ours, "tinygp": tinygp and with_tinygp, "autodiff": through_cholesky}
        values = []
        for name, function in libraries.items():
            if function:
                compiled = jax.jit(jax.value_and_grad(function))
                values.append(float(compiled(*arguments)[0]))
                yield Row(task, n, name, None, best(compiled, *arguments, repeats=repeats))
        evidence = sklearn_evidence(X, y)
        values.append(evidence()[0])
        yield Row(task, n, "scikit-learn", None, best(evidence, repeats=3))
        for name, python in others.items():
            value, seconds = elsewhere.run(name.lower(), python, repeats, X=X, y=y, theta=THETA)
            values.append(value)
            yield Row(task, n, name, None, seconds)
        yield Row(task, n, "LAPACK", None, best(floor(X), repeats=repeats))
        assert np.ptp(values) < 1e-6 * n, f"the libraries disagree: {values}"


def sklearn_evidence(X, y):
    kernel = sk_kernels.ConstantKernel() * sk_kernels.RBF(np.ones(4)) + sk_kernels.WhiteKernel()
    process = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X[:5], y[:5])
    process.X_train_, process.y_train_ = X, y
    theta = np.array([THETA[4], *THETA[:4], THETA[5]])
    return lambda: process.log_marginal_likelihood(theta, eval_gradient=True)


def floor(X):
    """A Cholesky factor and an inverse, potrf + potri: what no dense gradient does without."""
    K = np.asfortranarray(RBF(np.exp(THETA[:4]))(X)) + np.exp(THETA[5]) * np.eye(len(X))

    def factor_and_invert():
        L, _ = lapack.dpotrf(K, lower=1, clean=0)
        return lapack.dpotri(L, lower=1, overwrite_c=1)[0]

    return factor_and_invert


if __name__ == "__main__":
    show(rows())
