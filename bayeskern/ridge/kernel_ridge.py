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
from bayeskern.kernels import Exp, Kernel, Modulated, Power, Product
from bayeskern.kernels.estimator import KernelExpansion, read_weights
from bayeskern.kernels.gram_matrix import blocks, gram
from bayeskern.kernels.starting_values import starting_values
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
from bayeskern.ridge.tuning import Objective, Starts, WeightedRows, tune


@dataclass(eq=False, repr=False)
class KernelRidge(MultiOutputMixin, RegressorMixin, KernelExpansion):
    """Kernel ridge regression: minimise sum_i w_i (y_i - f(x_i))^2 + alpha |f - b|^2.

    The norm is that of the kernel's function space, and b is an unpenalised constant, 0 unless
    `fit_intercept`. The minimiser is f(x) = sum_i a_i k(x, x_i) + b with the dual coefficients
    a = (K + alpha W^-1)^-1 (y - b) and W = diag(w). Without a constant, f is the posterior mean
    of a Gaussian process with kernel k and noise variance alpha / w_i;
    `predict(X, return_std=True)` also returns its standard deviation.

    Args:
        kernel: A kernel whose hyperparameters are numbers; None means `RBF()`. Multiquadric is not
            positive definite: its negative is fitted with a constant b, for which it is
            conditionally positive definite.
        alpha: The penalty, in the squared units of y: a non-negative number (0 interpolates), an
            array (k,) with a penalty for each column of y, or a criterion to choose among `alphas`:
            "loo", the mean squared leave-one-out residual; "gcv", generalized cross-validation; or
            "evidence", the log marginal likelihood of the Gaussian process.
        alphas: Penalties to choose from. None takes 50, from 1e-8 to 10 n times the mean diagonal
            of K, weighted and, with a constant, centered; for "evidence" more, if y is larger or
            much smaller than functions of the kernel. A warning is issued if the best is the first
            or the last.
        alpha_per_target: Whether to choose an alpha for each column of y.
        fit_intercept: Whether to add an unpenalised constant b.
        optimize: The criterion, "loo", "gcv" or "evidence", by which gradient descent optimises the
            hyperparameters marked `Free(start)`. If `alpha` names the same criterion, alpha is
            optimised too, within the range of `alphas`. None leaves the kernel unchanged. The
            search starts at `start` and in the units of the data: lengthscales at the median
            distance of X, variances at the mean square of y. Positive hyperparameters stay within a
            factor of 1e6 of these.
        restarts: Number of random starts of `optimize` around the units of the data, taken if the
            first two searches disagree or end on a plateau.
        solver: The method to solve for a. "dense" stores K, n x n numbers, and takes "cholesky" or,
            for several alphas or a singular K, "eigen". "iterative", conjugate gradients, stores no
            matrix; alpha must be one number, and there are no leave-one-out predictions, standard
            deviations or degrees of freedom. Other names are the exact solvers of
            `GaussianProcess`, such as "markov", which takes time proportional to n for one column
            and a kernel with a state. "auto" takes the fastest exact solver that fits in memory, or
            "iterative" if none does.
        tol: The relative residual |y - (K + alpha W^-1) a| / |y| at which "iterative" stops.
        seed: The seed of `restarts` and of the preconditioner of "iterative", a whole number from 0
            to 2**32 - 1.

    Attributes:
        kernel_: The kernel, with the hyperparameters that `optimize` found.
        alpha_: The penalty, a number or (k,).
        dual_coef_: The dual coefficients a, (n,) or (n, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        effective_dof_: The trace of the matrix that maps y to fitted values, a number or (k,).
        X_fit_: The training points, (n, d).
        solver_: The name of the solver used.
        n_iter_: The steps of "iterative"; None for other solvers.
        residual_: The relative residual that "iterative" reached; None for other solvers.
        alphas_: The penalties compared, if `alpha` is a criterion.
        loo_path_: The mean squared leave-one-out residual at each of `alphas_`, (alphas,) or
            (alphas, k).
        gcv_path_: The generalized cross-validation score at each of `alphas_`, of this shape.
        evidence_path_: The log marginal likelihood at each of `alphas_`, of this shape.

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
    restarts: int = 2
    solver: str = "auto"
    tol: float = 1e-6
    seed: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).
            sample_weight: Non-negative weights w of the squared errors, (n,); None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: If X, y or an option is invalid, if points coincide and alpha = 0, or if the
                solver does not support an option.
            TypeError: If a hyperparameter of the kernel is neither a number nor, with `optimize`,
                `Free`.
            numpy.linalg.LinAlgError: If K + alpha I is singular to rounding, and the solver needs
                its inverse.

        Warns:
            scipy.linalg.LinAlgWarning: If K + alpha I is singular to rounding, so that the shortest
                of several solutions is taken.
            sklearn.exceptions.ConvergenceWarning: If solver="iterative" does not reach `tol`, or
                `optimize` stops at a gradient that is not small, on a plateau, or at a bound.
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
        self.solver_ = self._solver_name(kernel, alpha, alphas)
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

        The standard deviations belong to the equivalent Gaussian process with noise variance alpha.
        They are meaningful if the variance of the kernel is in the squared units of y, as after
        `optimize="evidence"` with a variance marked `Free(start)`.

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

        The predictions are y_i - [C y]_i / C_ii with C = (K + alpha W^-1)^-1. They equal
        y_i - r_i / (1 - A_ii) for fitted values A y and residuals r = y - A y, but stay accurate as
        alpha goes to 0. A point of weight 0 gets its ordinary prediction.

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
        """The trace of A, for fitted values A y: a number, or (k,) for k alphas."""
        return self._system_for("effective_dof_").effective_dof

    # -- the system ------------------------------------------------------------------------------

    def _weighted_rows(self, kernel: Kernel, X, Y, sample_weight) -> WeightedRows:
        """The rows of positive weight, which `_used` marks among all rows."""
        u = np.sqrt(read_weights(sample_weight, X))
        self._used = used = u > 0.0
        sign = _sign(kernel)
        constant = bool(self.fit_intercept) or sign < 0
        if constant and np.sum(used) < 2:
            raise ValueError(
                "an unpenalised constant needs at least 2 samples of positive weight; got "
                f"{np.sum(used)} sample."
            )
        return WeightedRows(X[used], u[used, None] * Y[used], u[used], sign, constant)

    def _solver_name(self, kernel, alpha, alphas) -> str:
        """The name of the solver; "dense" stands for "cholesky" or "eigen"."""
        is_criterion, needs_matrix = isinstance(alpha, str), None
        if self._rows.sign < 0:
            needs_matrix = "multiquadrics"
        elif np.ndim(alpha) > 0 or (is_criterion and self.alpha_per_target and not self._single):
            needs_matrix = "an alpha for each column of y"
        elif self.optimize is not None:
            needs_matrix = f"optimize={self.optimize!r}"
        return choose_solver(
            self.solver,
            kernel,
            self._rows.X,
            as_noise(1.0, self._rows.u),
            needs_matrix=needs_matrix,
            needs_factor=f"alpha={alpha!r}" if is_criterion else None,
            may_be_singular=0.0 in np.atleast_1d(alphas if is_criterion else alpha),
        )

    def _system_for(self, feature: str) -> RidgeSystem:
        """The system, for a named feature; AttributeError if the solver has no factor."""
        check_is_fitted(self)
        if self._system is None:
            raise AttributeError(
                f"{feature} needs a factor of K + alpha I, and solver='iterative' has none. Use "
                "solver='dense' with fewer points, NystromRidge, or held-out points."
            )
        return self._system

    def _without_matrix(self, alpha, alphas) -> RidgeSystem | None:
        """The system by a solver without a matrix, with alpha or the best of alphas.

        None if it is singular and solver="auto" can take the matrix instead.
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
        """The system by the Gram matrix, with alpha or the best of alphas."""
        is_criterion = isinstance(alpha, str)
        if is_criterion or np.ndim(alpha) > 0:
            if self.solver_ == "cholesky":
                raise ValueError('solver="cholesky" takes one alpha only. Use "eigen" or "auto".')
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
        spectrum = self._spectrum(self.kernel_, alphas if is_criterion else alpha)
        if is_criterion:
            alpha = self._best_alpha(spectrum, alpha, alphas)
        factor = EigenFactor(spectrum.eigen, alpha)
        size = len(spectrum.eigen.values)
        if factor.rank < size:
            warnings.warn(
                f"K + alpha I is singular to rounding (rank {factor.rank} of {size}), so "
                "the shortest of many solutions was taken. Use a larger alpha; if the mean of X is "
                "large compared to its spread, center X first.",
                LinAlgWarning,
                stacklevel=3,
            )
        return RidgeSystem(factor, spectrum.constant)

    def _spectrum(self, kernel, alpha) -> RidgeSpectrum:
        M, constant = self._matrix(kernel, alpha)
        return RidgeSpectrum(Eigendecomposition.of(M), constant)

    def _matrix(self, kernel, alpha) -> tuple[np.ndarray, UnpenalisedConstant | None]:
        """The weighted Gram matrix, centered if there is a constant."""
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

    def _path(
        self, spectrum: RidgeSpectrum | Covariances, alphas, criterion: str
    ) -> RegularizationPath:
        _, T, u, _, _ = self._rows
        if alphas is None:
            square = self._rows.mean_square() if criterion == "evidence" else None
            alphas = default_alphas(spectrum.trace / len(T), len(T), square)
        return RegularizationPath.of(spectrum.systems(alphas), T, alphas, u)

    def _best_alpha(self, spectrum: RidgeSpectrum | Covariances, criterion: str, alphas):
        """Choose the best of alphas by the criterion, and set the path attributes."""
        return self._path(spectrum, alphas, criterion).choose(criterion, self, self._single)

    def _tuned(self, kernel, alpha, alphas):
        """The optimised kernel, alpha, and alphas with the optimised alpha added."""
        criterion = validation.one_of("optimize", str(self.optimize), CRITERIA)
        is_criterion = isinstance(alpha, str)
        if np.ndim(alpha) > 0 or (is_criterion and alpha != criterion):
            raise ValueError(
                f"optimize={criterion!r} needs one alpha, a number or {criterion!r}; got {alpha!r}."
            )
        restarts = validation.positive_integer(self.restarts, "restarts", 0)
        objective = Objective.of(criterion, kernel, None if is_criterion else alpha)
        X, _, u, _, _ = self._rows
        scale = self._rows.mean_square() / np.mean(np.square(u))
        centred = objective.with_values(starting_values(kernel, X, scale))
        if not is_criterion:
            starts = Starts(objective.start(), centred.start(), None, restarts, self.seed)
            return tune(objective, starts, self._rows)[0], alpha, None
        if alphas is not None and not np.any(alphas > 0.0):
            raise ValueError(
                "alphas has no penalty above 0, but optimize needs the logarithms of alphas."
            )
        alphas = None if alphas is None else alphas[alphas > 0.0]
        path = self._path(self._spectrum(centred.kernel, alphas), alphas, criterion)
        grid = path.alphas
        own_path = self._path(self._spectrum(objective.kernel, grid), grid, criterion)
        positions = [
            np.append(o.start(), np.log(p.best(criterion)))
            for o, p in ((objective, own_path), (centred, path))
        ]
        own, centre = positions
        starts = Starts(own, centre, (grid[0], grid[-1]), restarts, self.seed)
        # The search restarts from the best alpha of the path until it finds an alpha as good.
        max_starts = 5
        for _ in range(max_starts):
            kernel, tuned_alpha = tune(objective, starts, self._rows)
            alphas = np.union1d(grid, tuned_alpha)
            path = self._path(self._spectrum(kernel, alphas), alphas, criterion)
            scores = path.scores(criterion).sum(axis=1)
            best_score = np.max(scores)
            if best_score - scores[alphas == tuned_alpha][0] <= 1e-6 * np.abs(best_score):
                break
            # With this kernel another alpha is better: a better optimum exists.
            objective = objective._replace(kernel=kernel)
            own = np.append(objective.start(), np.log(path.best(criterion)))
            starts = starts._replace(own=own)
        return kernel, criterion, alphas

    # -- prediction ------------------------------------------------------------------------------

    def _evaluate(self, X):
        if self.solver_ in WITH_MATRIX or self.solver_ == "iterative":
            return super()._evaluate(X)
        return self._covariances.expansion(self.dual_coef_[self._used], X) + self.intercept_

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
                    # Kriging variance: k(x, x) - k'c - b, with u'c = 1 if there is a constant.
                    c, b = at_alpha.solve(K, total=1.0 if constant else 0.0)
                    prior = sign * np.asarray(self.kernel_.evaluate_diag(X[rows]))
                    latent[rows] = prior - np.sum(K * c, axis=0) - b
            else:
                latent = self._covariances.latent_variances(system, X)
            variances[:, alphas == alpha] = (np.maximum(latent, 0.0) + alpha)[:, None]
        return np.sqrt(variances[:, 0] if self._single else variances)


def _sign(kernel: Kernel) -> float:
    """-1 for a multiquadric, whose negative is conditionally positive definite; else 1.

    Raises ValueError for a multiquadric in a product, or together with other kernels.
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
            "negative conditionally positive definite. Use a multiquadric alone, or "
            "InverseMultiquadric."
        )
    return -1.0


def _refuse_coinciding(K: np.ndarray, rows: np.ndarray) -> None:
    """Raise ValueError if two points coincide for the kernel, so that alpha cannot be 0."""
    diagonal = np.diagonal(K)
    for i in range(len(K) - 1):
        squared_distances = diagonal[i] + diagonal[i + 1 :] - 2.0 * K[i, i + 1 :]
        sizes = np.abs(diagonal[i]) + np.abs(diagonal[i + 1 :])
        close = np.abs(squared_distances) <= 4.0 * np.finfo(float).eps * sizes
        if np.any(close):
            j = i + 1 + int(np.argmax(close))
            raise ValueError(
                f"alpha = 0 interpolates, but rows {rows[i]} and {rows[j]} of X coincide (for "
                "the kernel). Use an alpha above 0, or merge the rows."
            )
