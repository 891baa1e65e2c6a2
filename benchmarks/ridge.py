"""Kernel ridge regression beside scikit-learn: `python -m benchmarks.ridge [dense] [reduced]`.

Seconds, best of a few runs in one process, and ratios of ours to theirs. Peak memory is that of a
process of its own.
"""

import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bayeskern.kernels import RBF
from bayeskern.ridge import KernelRidge, NystromRidge
from benchmarks.timing import best

D = 10
LENGTHSCALE = 3.0


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    y = np.sin(X[:, 0] + X[:, 1]) + np.cos(X[:, 2] * X[:, 3]) + 0.2 * rng.normal(size=n)
    return X, y


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def once(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def line(name, ours, theirs=None, note=""):
    ratio = "" if theirs is None else f"{theirs:10.2f}{ours / theirs:8.2f}"
    print(f"{name:44}{ours:8.2f}{ratio}  {note}", flush=True)


def dense(n=5000):
    X, y = data(n)
    new, _ = data(n, seed=1)
    gamma = 0.5 / LENGTHSCALE**2
    alphas = np.geomspace(1e-4, 1e2, 50)
    ours = KernelRidge(RBF(LENGTHSCALE), 0.1)
    theirs = SklearnKernelRidge(kernel="rbf", gamma=gamma, alpha=0.1)
    fit = best(lambda: ours.fit(X, y), repeats=3)
    line(
        f"fit and predict, n = {n:,}",
        best(lambda: ours.fit(X, y).predict(new), repeats=3),
        best(lambda: theirs.fit(X, y).predict(new), repeats=3),
    )
    gap = np.max(np.abs(ours.predict(new) - theirs.predict(new)))
    path = KernelRidge(RBF(LENGTHSCALE), "loo", alphas=alphas)
    seconds = once(lambda: path.fit(X, y))
    line("leave-one-out path of 50 alphas", seconds, note=f"{seconds / fit:.1f} of our own fits")
    search = GridSearchCV(theirs, {"alpha": alphas}, cv=5)
    line(
        "the same beside GridSearchCV, 5 folds",
        seconds,
        once(lambda: search.fit(X, y)),
        f"alpha {path.alpha_:.3g}, theirs {search.best_params_['alpha']:.3g}",
    )
    print(f"largest difference of predictions: {gap:.1e}")


def reduced_of(which, n=200_000, m=2000):
    """Print the seconds of a fit, the RMSE of predictions and the peak memory in GB."""
    X, y = data(n)
    new, y_new = data(10_000, seed=1)
    if which == "ours":
        model = NystromRidge(RBF(LENGTHSCALE), m, "random", alpha=0.1)
        model.fit(X[: 4 * m], y[: 4 * m]).predict(new)
    else:
        features = Nystroem(gamma=0.5 / LENGTHSCALE**2, n_components=m, random_state=0)
        model = make_pipeline(features, Ridge(0.1, fit_intercept=False))
        model.fit(X[: 4 * m], y[: 4 * m]).predict(new)
    seconds = once(lambda: model.fit(X, y))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(seconds, rmse(model, new, y_new), peak)


def reduced():
    found = {}
    for which in ("ours", "theirs"):
        call = [sys.executable, "-m", "benchmarks.ridge", "reduced-of", which]
        out = subprocess.run(call, check=True, capture_output=True, text=True).stdout
        found[which] = [float(word) for word in out.split()[-3:]]
    (ours, our_rmse, our_peak), (theirs, their_rmse, their_peak) = found["ours"], found["theirs"]
    note = f"RMSE {our_rmse:.4f}, theirs {their_rmse:.4f}; peak {our_peak:.1f} GB, {their_peak:.1f}"
    line("Nystrom, m = 2,000, n = 200,000, d = 10", ours, theirs, note)


def main():
    wanted = sys.argv[1:] or ["dense", "reduced"]
    if wanted[0] == "reduced-of":
        return reduced_of(wanted[1])
    print(f"{'seconds':44}{'ours':>8}{'theirs':>10}{'ratio':>8}")
    for name in wanted:
        {"dense": dense, "reduced": reduced}[name]()
    return None


if __name__ == "__main__":
    main()
