"""Regression on real tables: RMSE and negative log predictive density, mean of ten splits.

    uv run python -m benchmarks.uci [table ...] [--splits 10]

scikit-learn's diabetes, in ten folds, and five UCI tables, which lie in `../shared/uci` with their
published splits. Inputs and y are standardised by the
training rows; figures are in the units of y. All models have an RBF kernel with a lengthscale for
each column. Densities are Gaussian, with the mean and the standard deviation of a new observation.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.model_selection import GridSearchCV, KFold

import bayeskern as bk
from bayeskern.kernels import RBF, Free
from bayeskern.ridge import KernelRidge

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "uci"
TABLES = ("diabetes", "yacht", "autompg", "energy", "concrete", "airfoil")


def ridge_by(criterion):
    def fit(X, y, new):
        # Only the evidence says how large f is, and with it how wide predictions are.
        variance = Free(1.0) if criterion == "evidence" else 1.0
        kernel = RBF(Free(np.full(X.shape[1], 2.0)), variance)
        model = KernelRidge(kernel, criterion, optimize=criterion).fit(X, y)
        mean, sd = model.predict(new, return_std=True)
        return mean, sd if criterion == "evidence" else None

    return fit


def gp(X, y, new):
    kernel = RBF(
        dist.LogNormal(np.full(X.shape[1], 1.0), 1.0).to_event(1), bk.from_sd(dist.HalfNormal(3.0))
    )
    model = bk.GPRegression(kernel, noise=bk.from_sd(dist.HalfNormal(1.0)))
    found = bk.infer(model, X, y, method="map").predict(new)
    return found.mean, found.sd


def sklearn_ridge(X, y, new):
    grid = {"gamma": np.geomspace(1e-3, 3.0, 8), "alpha": np.geomspace(1e-4, 1.0, 9)}
    search = GridSearchCV(SklearnKernelRidge(kernel="rbf"), grid, cv=5).fit(X, y)
    return search.predict(new), None


def sklearn_gp(X, y, new):
    kernel = 1.0 * sk.RBF(np.full(X.shape[1], 2.0)) + sk.WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel).fit(X, y).predict(new, return_std=True)


MODELS = {
    "KernelRidge, loo": ridge_by("loo"),
    "KernelRidge, evidence": ridge_by("evidence"),
    "GPRegression, map": gp,
    "scikit-learn KernelRidge, 5 folds": sklearn_ridge,
    "scikit-learn GaussianProcessRegressor": sklearn_gp,
}


def splits(table, count):
    if table == "diabetes":
        rows = np.column_stack(load_diabetes(return_X_y=True, scaled=False))
        folds = KFold(10, shuffle=True, random_state=0).split(rows)
        masks = np.array([np.isin(np.arange(len(rows)), test) for _, test in folds]).T
    else:
        rows, masks = _read(table)
    for held_out in masks.T[:count]:
        train, test = rows[~held_out], rows[held_out]
        yield train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]


def _read(table):
    rows = np.loadtxt(FOLDER / table / "data.csv.gz", delimiter=",")
    return rows, np.loadtxt(FOLDER / table / "test_mask.csv.gz", delimiter=",") > 0


def scores(fit, X, y, X_new, y_new):
    """RMSE, negative log predictive density, and seconds."""
    center, spread = X.mean(axis=0), X.std(axis=0)
    start = time.perf_counter()
    mean, sd = fit((X - center) / spread, (y - y.mean()) / y.std(), (X_new - center) / spread)
    seconds = time.perf_counter() - start
    mean = y.mean() + y.std() * np.asarray(mean)
    density = np.nan
    if sd is not None:
        density = -np.mean(stats.norm(mean, y.std() * np.asarray(sd)).logpdf(y_new))
    return np.sqrt(np.mean((y_new - mean) ** 2)), density, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    for table in options.tables:
        every = list(splits(table, options.splits))
        n, d = every[0][0].shape
        print(f"\n{f'{table}, n = {n}, d = {d}':40}{'RMSE':>16}{'NLPD':>18}{'seconds':>10}")
        for name, fit in MODELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = np.array([scores(fit, *split) for split in every])
            mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
            density = "-" if np.isnan(mean[1]) else f"{mean[1]:.3f} ± {error[1]:.3f}"
            rmse = f"{mean[0]:.3f} ± {error[0]:.3f}"
            print(f"{name:40}{rmse:>16}{density:>18}{mean[2]:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
