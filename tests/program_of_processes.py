"""Computations of the processes of `test_distributed`, each of which runs this file.

python -m tests.program_of_processes WHAT FILE [ADDRESS COUNT PLACE]
"""

import os
import sys

import jax
import numpy as np
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern import MAP, NUTS, Laplace
from bayeskern.inference.search import lbfgs
from bayeskern.kernels import RBF, Matern32
from bayeskern.linalg import conjugate_gradients, solver_of

N = 900


def rows(n=N, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X).sum(axis=1) + 3.0 + 0.1 * rng.normal(size=n)


def evidence() -> dict:
    """A distributed log density, its gradient for each kind of argument, and its Hessian."""
    X, y = rows()
    noise, observed = np.linspace(0.1, 0.2, N), np.arange(N) % 7 > 0
    solver = solver_of(Matern32(), X, "neighbors")

    def density(lengthscale, noise, y):
        kernel = Matern32(lengthscale)
        return bk.GaussianProcess(kernel, X, noise, mask=observed, solver=solver).log_prob(y)

    where = (0.8, noise, y)
    results = jax.jit(jax.value_and_grad(density, (0, 1, 2)))(*where)
    value, (by_lengthscale, by_noise, by_y) = jax.device_get(results)
    curvature = jax.jit(jax.hessian(density))(*where)
    return {
        "value": value,
        "by_lengthscale": by_lengthscale,
        "by_noise": by_noise,
        "by_y": by_y,
        "curvature": curvature,
    }


def sums() -> dict:
    """Conjugate gradients, and the sums over rows of features and of columns."""
    X, y = rows()
    solution = conjugate_gradients(Matern32(0.8), X, 0.1, y, tol=1e-12)
    many, values = rows(6000)
    nystrom = bk.NystromRidge(RBF(), landmarks=30, alpha="loo", fit_intercept=True)
    nystrom.fit(many, values)
    fourier = bk.FourierRidge(RBF(), n_components=40, alpha=0.1).fit(many, values)
    line = bk.BayesianLinearRegression().update(many[:7], values[:7]).update(many[7:], values[7:])
    rows_of_line = line.seen.about_zero()
    return {
        "solution": solution.x,
        "nystrom": nystrom.coef_,
        "loo": nystrom.loo_path_,
        "fourier": fourier.coef_,
        "products": rows_of_line.T @ rows_of_line,
    }


KERNEL = Matern32(dist.LogNormal(0.0, 1.0), variance=dist.HalfNormal(2.0))
MODEL = bk.GPRegression(KERNEL, dist.HalfNormal(0.5), mean=3.0, solver="neighbors")


def fit() -> dict:
    """A Gaussian process with inferred hyperparameters."""
    posterior = bk.infer(MODEL, *rows(), method=Laplace(starts=2), progress=False)
    prediction = posterior.predict(np.linspace(-1.0, 1.0, 5)[:, None] * np.ones(2), latent=True)
    draws = {name: x for name, x in posterior.draws.items() if name != "f"}
    return draws | {"mean": prediction.mean, "sd": prediction.sd}


def chains() -> dict:
    """Chains of the same model, which take each step together."""
    method = NUTS(chains=2, warmup=30, draws=20)
    return bk.infer(MODEL, *rows(60), method=method, progress=False).draws


def search() -> dict:
    """Its mode; the first process saves a checkpoint after each step."""
    lbfgs.STEPS_PER_UPDATE = 1
    path = os.environ["CHECKPOINT"]
    mode = bk.infer(MODEL, *rows(), method=MAP(starts=2, checkpoint=path), progress=False)
    return {"z": mode.z}


if __name__ == "__main__":
    what, file, *where = sys.argv[1:]
    if where:
        address, count, place = where
        bk.distributed.initialize(address, int(count), int(place))
    elif jax.device_count() > 1:
        bk.distributed.initialize(num_processes=1)
    np.savez(file, **globals()[what]())
