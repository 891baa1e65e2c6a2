"""Kernel ridge regression in dual form, with leave-one-out in closed form."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgWarning
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bayeskern.core import validation
from bayeskern.kernels.base import Exp, Kernel, Modulated, Power, Product
from bayeskern.kernels.estimator import KernelExpansion, read_weights
from bayeskern.kernels.gram_matrix import blocks, gram
from bayeskern.linalg import solver_of
from bayeskern.ridge.covariances import Covariances, as_noise
from bayeskern.ridge.penalties import (
    CRITERIA,
    RegularizationPath,
    default_alphas,
    forget_path,
    read_alpha,
    read_alphas,
)
from bayeskern.ridge.solvers import (
    SOLVER_NAMES,
    WITH_MATRIX,
    choose_solver,
    matrix_fits_in_memory,
    solve_iteratively,
)
from bayeskern.ridge.systems import (
    CholeskyFactor,
    Eigendecomposition,
    EigenFactor,
    RidgeSpectrum,
    RidgeSystem,
    UnpenalisedConstant,
    without_constant,
)
from bayeskern.ridge.tuning import Objective, WeightedRows, tune


@dataclass(eq=False, repr=False)
class KernelRidge(MultiOutputMixin, RegressorMixin, KernelExpansion):
    """Kernel ridge regression, which minimises sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2.

    The minimiser is f(x) = sum_i a_i k(x, x_i) + b with the dual coefficients
    a = (K + alpha W^-1)^-1 y, and b = 0 unless `fit_intercept` adds an unpenalised constant. f is
    the posterior mean of a Gaussian process with kernel k and noise variance alpha / w_i;
    `predict(X, return_std=True)` also returns its standard deviation.

    Args:
        kernel: A kernel whose hyperparameters are numbers; None means `RBF()`. Multiquadric, which
            is not positive definite, is fitted with its sign turned and a constant b, for which it
            is conditionally positive definite.
        alpha: The penalty, in the squared units of y: a number of 0 or more (0 interpolates), an
            array (k,) of one penalty for each column of y, or the criterion that chooses among
            `alphas`. "loo" is the mean squared leave-one-out residual, "gcv" generalized
            cross-validation, "evidence" the log marginal likelihood of the Gaussian process.
        alphas: Penalties to choose from. None takes 50 of them from 1e-8 to 10 n times the mean of
            diag(K), weighted and, with a constant, centered. A warning says when the best is the
            first or the last.
        alpha_per_target: Whether to choose an alpha for each column of y.
        fit_intercept: Whether to add an unpenalised constant b.
        optimize: "loo", "gcv" or "evidence" finds the `Free(start)` hyperparameters of the kernel
            by gradient descent. If `alpha` names the same criterion, alpha is optimised too,
            within the range of `alphas`. None leaves the kernel as it is.
        solver: How (K + alpha W^-1) a = y is solved. "dense" holds K, n x n numbers, and takes
            "cholesky" or, to serve many alphas, "eigen". "iterative", conjugate gradients, holds no
            matrix, for one alpha that is a number; there are no leave-one-out predictions,
            standard deviations and degrees of freedom then. The others are the exact solvers of
            `GaussianProcess`, such as "markov", for one column and kernels with a state, in time
            proportional to n. "auto" takes the fastest exact solver that fits in memory, or
            "iterative" if none does.
        tol: The relative residual |y - (K + alpha W^-1) a| / |y| at which "iterative" stops.
        seed: The seed of the preconditioner of "iterative", a whole number from 0 to 2**32 - 1.

    Attributes:
        kernel_: The kernel, with the hyperparameters that `optimize` found.
        alpha_: The penalty, a number or (k,).
        dual_coef_: The dual coefficients a, (n,) or (n, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        effective_dof_: The trace of the matrix that turns y into fitted values, a number or (k,).
        X_fit_: The training points, (n, d).
        solver_: The name of the solver used.
        n_iter_: The steps of "iterative"; None for other solvers.
        residual_: The relative residual that "iterative" reached; None for other solvers.
        alphas_: The penalties compared, if alpha was chosen.
        loo_path_: The mean squared leave-one-out residual of each, (alphas,) or (alphas, k).
        gcv_path_: Generalized cross-validation of each, likewise.
        evidence_path_: The log marginal likelihood of each, likewise.

    References:
        Saunders, Gammerman and Vovk (1998), "Ridge regression learning algorithm in dual
        variables". Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning",
        equations 2.25, 2.26, 2.30 and 5.12.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.kernels import RBF
        >>> from bayeskern.ridge import KernelRidge
        >>> X = np.linspace(0.0, 6.0, 50)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=50)
        >>> ridge = KernelRidge(RBF(lengthscale=1.5), alpha="loo").fit(X, y)
        >>> ridge.predict([[1.5], [4.7]]).round(1)
        array([ 0.9, -1. ])
        >>> bool(np.mean((y - ridge.loo_predict()) ** 2) < 0.02)
        True
    """

    kernel: Kernel | None = None
    alpha: float | str | ArrayLike = 1.0
    _: KW_ONLY
    alphas: ArrayLike | None = None
    alpha_per_target: bool = False
    fit_intercept: bool = False
    optimize: str | None = None
    solver: str = "auto"
    tol: float = 1e-6
    seed: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).
            sample_weight: Weights w of the squared errors, (n,) of 0 or more; None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: For bad input, which includes alpha = 0 with points that coincide, and for
                what the solver does not do.
            TypeError: For a kernel with distributions in it.
            numpy.linalg.LinAlgError: Where K + alpha I is singular to rounding, and the solver does
                not do without its inverse.

        Warns:
            scipy.linalg.LinAlgWarning: Where K + alpha I is singular to rounding, so that the
                shortest of several solutions is taken.
            sklearn.exceptions.ConvergenceWarning: Where solver="iterative" did not reach `tol`.
        """
        X, y = self._read_data(X, y, multi_output=True, y_numeric=True, copy=True)
        allow_free = self.optimize is not None
        kernel = self._concrete_kernel(positive_definite=False, allow_free=allow_free)
        validation.one_of("solver", self.solver, SOLVER_NAMES)
        tol, seed = validation.positive(self.tol, "tol"), validation.seed(self.seed)
        self._single = y.ndim == 1
        Y = y.reshape(len(y), -1).astype(float)
        alpha = read_alpha(self.alpha, Y.shape[1])
        alphas = read_alphas(self.alphas, alpha)
        forget_path(self)
        self.X_fit_ = X
        self._rows = self._weighted_rows(kernel, X, Y, sample_weight)
        self.solver_ = self._chosen_solver(kernel, alpha, alphas)
        if self.optimize is not None:
            kernel, alpha, alphas = self._tuned(kernel, alpha, alphas)
        self.kernel_ = kernel
        self.n_iter_ = self.residual_ = self._system = None
        if self.solver_ == "iterative":
            X, T, u, _, constant = self._rows
            assert isinstance(alpha, float)
            self.alpha_ = alpha
            c, intercept, solution = solve_iteratively(kernel, X, alpha, T, u, constant, tol, seed)
            self.n_iter_, self.residual_ = solution.iterations, solution.residual
        else:
            if self.solver_ not in WITH_MATRIX:
                self._system = self._without_matrix(alpha, alphas)
            self._system = self._system or self._from_matrix(alpha, alphas)
            self.alpha_ = self._system.alpha
            c, intercept = self._system.solve(self._rows.T)
        dual = np.zeros_like(Y)
        dual[self._used] = self._rows.sign * self._rows.u[:, None] * c
        self.dual_coef_ = dual[:, 0] if self._single else dual
        self.intercept_ = float(intercept[0]) if self._single else intercept
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict f, and with `return_std` the standard deviation of a new observation.

        The standard deviations are those of the equivalent Gaussian process with noise variance
        alpha. They mean something if the variance of the kernel is in the squared units of y, as it
        is after `optimize="evidence"` with a variance marked with Free.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.
            return_std: Whether to return standard deviations too.

        Returns:
            f(X), (m,) or (m, k); with `return_std` the pair of f(X) and standard deviations of the
            same shape.
        """
        points = self._read_points(X)
        mean = self._evaluate(points)
        return (mean, self._sd(points)) if return_std else mean

    def loo_predict(self) -> np.ndarray:
        """Predict each training point from all the others, without refitting.

        The predictions are y_i - [C y]_i / C_ii with C = (K + alpha W^-1)^-1. That equals
        y_i - r_i / (1 - A_ii) for residuals r = y - A y, and is sound as alpha goes to 0. A point
        of weight 0 has its plain prediction.

        Returns:
            Predictions, (n,) or (n, k).

        References:
            Rasmussen and Williams (2006), equation 5.12.
        """
        T, u = self._rows.T, self._rows.u
        residuals = self._system_for("loo_predict").for_loo().loo_residuals(T)
        predictions = np.empty((len(self._used), T.shape[1]))
        predictions[self._used] = (T - residuals) / u[:, None]
        if not np.all(self._used):
            unused = self._evaluate(self.X_fit_[~self._used])
            predictions[~self._used] = unused.reshape(-1, predictions.shape[1])
        return predictions[:, 0] if self._single else predictions

    @property
    def effective_dof_(self) -> float | np.ndarray:
        """The trace of A, which turns y into fitted values A y: a number, or (k,) for k alphas."""
        return self._system_for("effective_dof_").effective_dof

    # -- the system ------------------------------------------------------------------------------

    def _weighted_rows(self, kernel: Kernel, X, Y, sample_weight) -> WeightedRows:
        """The rows of positive weight; rows of weight 0 take no part, but keep their place."""
        u = np.sqrt(read_weights(sample_weight, X))
        self._used = used = u > 0.0
        sign = _sign(kernel)
        constant = bool(self.fit_intercept) or sign < 0
        if constant and np.sum(used) < 2:
            raise ValueError(
                f"a constant and a function cannot be told apart with {np.sum(used)} sample: give "
                "at least 2 points of positive weight."
            )
        return WeightedRows(X[used], u[used, None] * Y[used], u[used], sign, constant)

    def _chosen_solver(self, kernel, alpha, alphas) -> str:
        """The name of the solver; "dense" leaves open which of those with a matrix."""
        chosen, needs_matrix = isinstance(alpha, str), None
        if self._rows.sign < 0:
            needs_matrix = "multiquadrics"
        elif np.ndim(alpha) > 0 or (chosen and self.alpha_per_target and not self._single):
            needs_matrix = "an alpha for each column of y"
        elif self.optimize is not None:
            needs_matrix = f"optimize={self.optimize!r}"
        return choose_solver(
            self.solver,
            kernel,
            self._rows.X,
            as_noise(1.0, self._rows.u),
            needs_matrix=needs_matrix,
            needs_factor=f"alpha={alpha!r}" if chosen else None,
            may_be_singular=0.0 in np.atleast_1d(alphas if chosen else alpha),
        )

    def _system_for(self, wanted: str) -> RidgeSystem:
        """The system; AttributeError if the solver has no factor for what is wanted."""
        check_is_fitted(self)
        if self._system is None:
            raise AttributeError(
                f"{wanted} needs a factor of K + alpha I, and solver='iterative' has none. Take "
                "solver='dense' with fewer points, NystromRidge, or points held out."
            )
        return self._system

    def _without_matrix(self, alpha, alphas) -> RidgeSystem | None:
        """The system by a solver that holds no matrix, with alpha or the best of alphas.

        None if it is singular and solver="auto" may take the matrix instead.
        """
        X, _, u, _, constant = self._rows
        solver = solver_of(self.kernel_, X, self.solver_, as_noise(1.0, u))  # pyright: ignore[reportArgumentType]
        self._covariances = Covariances(self.kernel_, solver, X, u, constant)
        try:
            if isinstance(alpha, str):
                alpha = self._best_alpha(self._covariances, alpha, alphas)
            return self._covariances.at(float(alpha))
        except np.linalg.LinAlgError:
            if self.solver != "auto" or not matrix_fits_in_memory(self.kernel_, X):
                raise
            self.solver_ = "dense"
            return None

    def _from_matrix(self, alpha, alphas) -> RidgeSystem:
        """The system by the Gram matrix, with alpha or the best of alphas by the criterion."""
        chosen = isinstance(alpha, str)
        if chosen or np.ndim(alpha) > 0:
            if self.solver_ == "cholesky":
                raise ValueError('solver="cholesky" takes one alpha only. Take "eigen", or "auto".')
        elif self.solver_ != "eigen":
            try:
                M, constant = self._matrix(self.kernel_, alpha)
                system = RidgeSystem(CholeskyFactor(M, alpha), constant)
                self.solver_ = "cholesky"
                return system
            except np.linalg.LinAlgError:
                if self.solver_ == "cholesky":
                    raise
        self.solver_ = "eigen"
        spectrum = self._spectrum(self.kernel_, alphas if chosen else alpha)
        if chosen:
            alpha = self._best_alpha(spectrum, alpha, alphas)
        factor = EigenFactor(spectrum.eigen, alpha)
        size = len(spectrum.eigen.values)
        if factor.rank < size:
            warnings.warn(
                f"K + alpha I is singular to rounding (rank {factor.rank} of {size}), and "
                "the shortest of many solutions was taken. Take a larger alpha; if X lies far "
                "from 0 beside its spread, centre it first.",
                LinAlgWarning,
                stacklevel=3,
            )
        return RidgeSystem(factor, spectrum.constant)

    def _spectrum(self, kernel, alpha) -> RidgeSpectrum:
        M, constant = self._matrix(kernel, alpha)
        return RidgeSpectrum(Eigendecomposition.of(M), constant)

    def _matrix(self, kernel, alpha) -> tuple[np.ndarray, UnpenalisedConstant | None]:
        """The weighted Gram matrix, centered where there is a constant."""
        X, _, u, sign, constant = self._rows
        K = gram(kernel, X)
        if alpha is not None and np.any(np.asarray(alpha) == 0.0):
            _refuse_coinciding(K, np.flatnonzero(self._used))
        if sign < 0:
            np.negative(K, out=K)
        if np.any(u != 1.0):
            K *= u[:, None]
            K *= u
        return without_constant(K, u if constant else None)

    def _path(self, spectrum: RidgeSpectrum | Covariances, alphas) -> RegularizationPath:
        _, T, u, _, _ = self._rows
        if alphas is None:
            alphas = default_alphas(spectrum.trace / len(T), len(T))
        return RegularizationPath.of(spectrum.systems(alphas), T, alphas, u)

    def _best_alpha(self, spectrum: RidgeSpectrum | Covariances, criterion: str, alphas):
        """The best of alphas by the criterion; the path becomes attributes of the estimator."""
        return self._path(spectrum, alphas).choose(criterion, self, self._single)

    def _tuned(self, kernel, alpha, alphas):
        """The kernel with its free values found, alpha, and the alphas with the one found."""
        criterion = validation.one_of("optimize", str(self.optimize), CRITERIA)
        chosen = isinstance(alpha, str)
        if np.ndim(alpha) > 0 or (chosen and alpha != criterion):
            raise ValueError(
                f"optimize={criterion!r} goes with one alpha, a number or {criterion!r} again; "
                f"got {alpha!r}."
            )
        objective = Objective.of(criterion, kernel, None if chosen else alpha)
        if not chosen:
            return tune(objective, None, self._rows)[0], alpha, None
        if alphas is not None and not np.any(alphas > 0.0):
            raise ValueError(
                "alphas has no penalty above 0, but optimize goes by their logarithms."
            )
        alphas = None if alphas is None else alphas[alphas > 0.0]
        path = self._path(self._spectrum(objective.kernel, alphas), alphas)
        grid, first = path.alphas, path.best(criterion)
        # The search starts again, at most this often, from an alpha that is better on the path.
        max_starts = 5
        for _ in range(max_starts):
            kernel, tuned_alpha = tune(objective, (first, grid[0], grid[-1]), self._rows)
            alphas = np.union1d(grid, tuned_alpha)
            path = self._path(self._spectrum(kernel, alphas), alphas)
            first = path.best(criterion)
            scores = path.scores(criterion).sum(axis=1)
            best_score = np.max(scores)
            if best_score - scores[alphas == tuned_alpha][0] <= 1e-6 * np.abs(best_score):
                break
            # With this kernel another alpha is better, so a better optimum lies beyond.
            objective = objective._replace(kernel=kernel)
        return kernel, criterion, alphas

    # -- prediction ------------------------------------------------------------------------------

    def _evaluate(self, X):
        if self.solver_ in WITH_MATRIX or self.solver_ == "iterative":
            return super()._evaluate(X)
        return self._covariances.weighted(self.dual_coef_[self._used], X) + self.intercept_

    def _sd(self, X) -> np.ndarray:
        """Standard deviations of new observations at X, of the shape of their means."""
        system = self._system_for("return_std")
        points, T, u, sign, constant = self._rows
        variances = np.empty((len(X), T.shape[1]))
        alphas = np.broadcast_to(self.alpha_, variances.shape[1])
        for alpha in np.unique(alphas):
            if self.solver_ in WITH_MATRIX:
                latent, at_alpha = np.empty(len(X)), system.at(alpha)
                for rows in blocks(len(X), len(points)):
                    K = sign * u[:, None] * gram(self.kernel_, points, X[rows])
                    solution, level = at_alpha.solve(K, total=1.0 if constant else 0.0)
                    prior = sign * np.asarray(self.kernel_.evaluate_diag(X[rows]))
                    latent[rows] = prior - np.sum(K * solution, axis=0) - level
            else:
                latent = self._covariances.latent_variances(system, X)
            variances[:, alphas == alpha] = (np.maximum(latent, 0.0) + alpha)[:, None]
        return np.sqrt(variances[:, 0] if self._single else variances)


def _sign(kernel: Kernel) -> float:
    """-1 for multiquadrics, whose negative is conditionally positive definite, otherwise 1.

    Raises ValueError where a kernel is neither: a multiquadric in a product, or beside others.
    """
    leaves = [node for node in kernel.nodes() if not node.children()]
    multiquadrics = [
        leaf for leaf in leaves if isinstance(leaf, Kernel) and not leaf.positive_definite
    ]
    if not multiquadrics:
        return 1.0
    in_product = any(isinstance(k, Product | Power | Exp | Modulated) for k in kernel.nodes())
    if len(multiquadrics) < len(leaves) or in_product:
        raise ValueError(
            f"{kernel!r} is not positive definite, because of {multiquadrics[0]!r}, nor is its "
            "negative conditionally so. Take a multiquadric alone, or InverseMultiquadric."
        )
    return -1.0


def _refuse_coinciding(K: np.ndarray, rows: np.ndarray) -> None:
    """Raise ValueError if the kernel cannot tell two points apart: nothing interpolates them."""
    diagonal = np.diagonal(K)
    for i in range(len(K) - 1):
        squared_distances = diagonal[i] + diagonal[i + 1 :] - 2.0 * K[i, i + 1 :]
        sizes = np.abs(diagonal[i]) + np.abs(diagonal[i + 1 :])
        close = np.abs(squared_distances) <= 4.0 * np.finfo(float).eps * sizes
        if np.any(close):
            j = i + 1 + int(np.argmax(close))
            raise ValueError(
                f"alpha = 0 interpolates, but rows {rows[i]} and {rows[j]} of X coincide (to the "
                "kernel). Take an alpha above 0, or merge the rows."
            )
