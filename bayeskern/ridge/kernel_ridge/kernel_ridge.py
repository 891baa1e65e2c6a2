"""Kernel ridge regression in dual form, with leave-one-out in closed form."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.base import Exp, Kernel, Power, Product
from bayeskern.kernels.estimator import blocks, gram
from bayeskern.ridge.base import KernelExpansion
from bayeskern.ridge.kernel_ridge.dual_system import (
    EPS,
    Cholesky,
    Spectrum,
    System,
    without_constant,
)
from bayeskern.ridge.kernel_ridge.regularization_path import Path, default_alphas, forget_path
from bayeskern.ridge.kernel_ridge.tuning import Objective, tune
from bayeskern.ridge.validation import CRITERIA, read_alpha, read_alphas, read_weights

# A search for hyperparameters begins again, at most so often, where the path of alphas shows an
# optimum that is better by this part of its value.
ROUNDS = 5
GAIN = 1e-6


class KernelRidge(MultiOutputMixin, RegressorMixin, KernelExpansion):
    """f(x) = sum_i a_i k(x, x_i) + b, with sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2 least.

    In dual form a = (K + alpha W^-1)^-1 y, and b = 0 unless `fit_intercept`, which adds a constant
    that is not penalised. f is the posterior mean of a Gaussian process with kernel k and noise
    variance alpha / w_i, and `predict(X, return_std=True)` gives its standard deviation too.

    kernel: a kernel of numbers, None for RBF(). Multiquadric, which is not positive definite, is
    fitted with its sign turned and a constant b, for which it is.

    alpha: the penalty, in the squared units of y, 0 or more (0 interpolates), or an array of one
    for each column of y; or the criterion that chooses among `alphas`: "loo", the mean squared
    leave-one-out residual; "gcv", generalised cross-validation; "evidence", the log marginal
    likelihood of the Gaussian process. alphas: penalties to choose from, by default 50 from 1e-8 to
    10 n times the mean of diag(K), weighted and, with a constant, centred; a warning says when the
    best is the first or the last. alpha_per_target: choose for each column of y by itself.

    optimize: "loo", "gcv" or "evidence": find the `Free(start)` hyperparameters of the kernel by
    gradient, and alpha with them, within the range of `alphas`, where the same criterion is to
    choose it.

    solver: "cholesky", "eigen" (which serves many alphas), or "auto".

    After `fit`: `kernel_`, `alpha_`, `dual_coef_` (n,) or (n, k), `intercept_`, `effective_dof_`
    and `X_fit_`; where alpha was chosen `alphas_`, and `loo_path_`, `gcv_path_`, `evidence_path_`
    of shape (number of alphas,) or (number of alphas, k).

    Saunders, Gammerman and Vovk (1998); Rasmussen and Williams (2006), sections 2.2 and 5.4.2.
    """

    def __init__(
        self,
        kernel=None,
        alpha=1.0,
        *,
        alphas=None,
        alpha_per_target=False,
        fit_intercept=False,
        optimize=None,
        solver="auto",
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.alphas = alphas
        self.alpha_per_target = alpha_per_target
        self.fit_intercept = fit_intercept
        self.optimize = optimize
        self.solver = solver

    def fit(self, X, y, sample_weight=None) -> KernelRidge:
        """Fit points X: (n, d) or a data frame to y: (n,) or (n, k), with weights w: (n,).

        Raises ValueError on bad input, among it alpha = 0 with points that coincide, and TypeError
        for a kernel with distributions in it. Warns with scipy.linalg.LinAlgWarning where K + alpha
        is singular to rounding, and takes the shortest of several solutions.
        """
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, copy=True
        )
        kernel = self._concrete_kernel(positive_definite=False, free=self.optimize is not None)
        validation.one_of("solver", self.solver, ("auto", "cholesky", "eigen"))
        self._single = y.ndim == 1
        Y = y.reshape(len(y), -1).astype(float)
        alpha = read_alpha(self.alpha, Y.shape[1])
        alphas = read_alphas(self.alphas, alpha)
        forget_path(self)
        self._s = np.sqrt(read_weights(sample_weight, X))
        # Rows that weigh nothing take no part, but keep their place.
        self._used = self._s > 0.0
        self._T = (self._s[:, None] * Y)[self._used]
        self.X_fit_ = X

        self._sign = _sign(kernel)
        self._has_constant = self.fit_intercept or self._sign < 0
        if self._has_constant and len(self._T) < 2:
            raise ValueError(
                f"a constant and a function cannot be told apart with {len(self._T)} sample: give "
                "at least 2 points of positive weight."
            )
        if self.optimize is not None:
            kernel, alpha, alphas = self._tuned(kernel, alpha, alphas)
        self.kernel_ = kernel
        self._system = self._factored(alpha, alphas)
        self.alpha_ = self._system.alpha

        c, level = self._system.solve(self._T)
        dual = np.zeros_like(Y)
        dual[self._used] = self._sign * self._s[self._used, None] * c
        self.dual_coef_ = dual[:, 0] if self._single else dual
        self.intercept_ = float(level[0]) if self._single else level
        return self

    def predict(self, X, return_std=False):
        """f at points X: (m, d), as (m,) or (m, k); with `return_std` also standard deviations.

        They are those of a new observation under the equivalent Gaussian process, of noise variance
        alpha, and mean something if the variance of the kernel is in the squared units of y. (Mark
        it with Free and take `optimize="evidence"`, and it will be.)
        """
        X = self._points(X)
        mean = self._at(X)
        return (mean, self._sd(X)) if return_std else mean

    def loo_predict(self) -> np.ndarray:
        """Predictions of each training point from the others: (n,) or (n, k), without refitting.

        y_i - [C y]_i / C_ii, C = (K + alpha W^-1)^-1, which is y_i - r_i / (1 - A_ii) for residuals
        r = y - A y, and is sound as alpha goes to 0. A point of weight 0 has its plain prediction.
        """
        check_is_fitted(self)
        residuals = self._system.for_loo().loo_residuals(self._T)
        out = np.empty((len(self._s), self._T.shape[1]))
        out[self._used] = (self._T - residuals) / self._s[self._used, None]
        if not np.all(self._used):
            out[~self._used] = self._at(self.X_fit_[~self._used]).reshape(-1, out.shape[1])
        return out[:, 0] if self._single else out

    @property
    def effective_dof_(self):
        """The trace of A, which turns y into fitted values A y: a number, or (k,) for k alphas."""
        check_is_fitted(self)
        return self._system.effective_dof

    # -- the system ------------------------------------------------------------------------------

    def _factored(self, alpha, alphas) -> System:
        """The system with alpha, or with the best of alphas by the criterion alpha."""
        chosen = isinstance(alpha, str)
        if chosen or np.ndim(alpha) > 0:
            if self.solver == "cholesky":
                raise ValueError('solver="cholesky" takes one alpha only. Take "eigen", or "auto".')
        elif self.solver != "eigen":
            try:
                return Cholesky(*self._matrix(self.kernel_, alpha), alpha)
            except np.linalg.LinAlgError:
                if self.solver == "cholesky":
                    raise
        spectrum = Spectrum.of(*self._matrix(self.kernel_, alphas if chosen else alpha))
        if chosen:
            path = self._path(spectrum, alphas)
            alpha = path.best(alpha, self.alpha_per_target and not self._single)
            path.keep_in(self, self._single, alpha)
        system = spectrum.at(alpha)
        if system.rank < len(spectrum.values):
            warnings.warn(
                f"K + alpha I is singular to rounding (rank {system.rank} of "
                f"{len(spectrum.values)}), and the shortest of many solutions was taken. Take a "
                "larger alpha; if X lies far from 0 beside its spread, centre it first.",
                LinAlgWarning,
                stacklevel=3,
            )
        return system

    def _matrix(self, kernel, alpha):
        """(M, border) of the weighted Gram matrix, see system.py."""
        s = self._s[self._used]
        K = gram(kernel, self.X_fit_[self._used])
        if alpha is not None and np.any(np.asarray(alpha) == 0.0):
            _refuse_coinciding(K, np.flatnonzero(self._used))
        if self._sign < 0:
            np.negative(K, out=K)
        if np.any(s != 1.0):
            K *= s[:, None]
            K *= s
        return without_constant(K, s if self._has_constant else None)

    def _path(self, spectrum, alphas=None) -> Path:
        if alphas is None:
            n = len(self._T)
            alphas = default_alphas(np.sum(spectrum.values) / n, n)
        return Path.of(spectrum, self._T, alphas, self._s[self._used])

    def _tuned(self, kernel, alpha, alphas):
        """The kernel with its free values found, alpha, and the alphas with the one found."""
        criterion = validation.one_of("optimize", self.optimize, CRITERIA)
        chosen = isinstance(alpha, str)
        if np.ndim(alpha) > 0 or (chosen and alpha != criterion):
            raise ValueError(
                f"optimize={criterion!r} goes with one alpha, a number or {criterion!r} again; "
                f"got {alpha!r}."
            )
        data = self.X_fit_[self._used], self._T, self._s[self._used], self._sign, self._has_constant
        objective = Objective.of(criterion, kernel, None if chosen else alpha)
        if not chosen:
            return tune(objective, None, *data)[0], alpha, None
        if alphas is not None and not np.any(alphas > 0.0):
            raise ValueError(
                "alphas has no penalty above 0, but optimize goes by their logarithms."
            )
        alphas = None if alphas is None else alphas[alphas > 0.0]
        path = self._path(Spectrum.of(*self._matrix(objective.kernel, alphas)), alphas)
        grid, first = path.alphas, path.best(criterion)
        for _ in range(ROUNDS):
            kernel, found = tune(objective, (first, grid[0], grid[-1]), *data)
            alphas = np.union1d(grid, found)
            path = self._path(Spectrum.of(*self._matrix(kernel, alphas)), alphas)
            first = path.best(criterion)
            scores = path.scores(criterion).sum(axis=1)
            if np.max(scores) - scores[alphas == found][0] <= GAIN * np.abs(np.max(scores)):
                break
            # With this kernel another alpha is better: there is a better optimum beyond.
            objective = objective._replace(kernel=kernel)
        return kernel, criterion, alphas

    def _sd(self, X) -> np.ndarray:
        """Standard deviations of new observations at X, of the shape of their means."""
        s, points = self._s[self._used], self.X_fit_[self._used]
        out = np.empty((len(X), self._T.shape[1]))
        alphas = np.broadcast_to(self.alpha_, out.shape[1])
        for alpha in np.unique(alphas):
            system, columns = self._system.at(alpha), alphas == alpha
            for rows in blocks(len(X), len(points)):
                across = self._sign * s[:, None] * gram(self.kernel_, points, X[rows])
                solved, level = system.solve(across, total=1.0 if self._has_constant else 0.0)
                own = self._sign * np.asarray(self.kernel_.evaluate_diag(X[rows]))
                latent = own - np.sum(across * solved, axis=0) - level
                out[rows, columns] = (np.maximum(latent, 0.0) + alpha)[:, None]
        return np.sqrt(out[:, 0] if self._single else out)


def _sign(kernel: Kernel) -> float:
    """-1 for multiquadrics, whose negative is conditionally positive definite, otherwise 1.

    Raises ValueError where a kernel is neither: a multiquadric in a product, or beside others.
    """
    leaves = [node for node in kernel.nodes() if not node.children()]
    odd = [leaf for leaf in leaves if not leaf.positive_definite]
    if not odd:
        return 1.0
    if len(odd) < len(leaves) or any(isinstance(n, Product | Power | Exp) for n in kernel.nodes()):
        raise ValueError(
            f"{kernel!r} is not positive definite, because of {odd[0]!r}, nor is its negative "
            "conditionally so. Take a multiquadric alone, or InverseMultiquadric."
        )
    return -1.0


def _refuse_coinciding(K, rows):
    """Raise ValueError if two points are one to the kernel: nothing interpolates them."""
    diagonal = np.diagonal(K)
    for i in range(len(K) - 1):
        apart = diagonal[i] + diagonal[i + 1 :] - 2.0 * K[i, i + 1 :]
        close = np.abs(apart) <= 4.0 * EPS * (np.abs(diagonal[i]) + np.abs(diagonal[i + 1 :]))
        if np.any(close):
            j = i + 1 + int(np.argmax(close))
            raise ValueError(
                f"alpha = 0 interpolates, but rows {rows[i]} and {rows[j]} of X coincide (to the "
                "kernel). Take an alpha above 0, or merge the rows."
            )
