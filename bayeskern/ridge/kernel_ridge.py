"""Kernel ridge regression in dual form, with leave-one-out in closed form."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.base import Exp, Kernel, Modulated, Power, Product
from bayeskern.kernels.estimator import KernelExpansion, read_weights
from bayeskern.kernels.gram_matrix import blocks, gram
from bayeskern.linalg import solver_of
from bayeskern.ridge.criteria import CRITERIA
from bayeskern.ridge.dual_system import DualSpectrum, DualSystem, without_constant
from bayeskern.ridge.factored_system import (
    Covariances,
    FactoredSystem,
    as_noise,
    weighted_covariances,
)
from bayeskern.ridge.iterative_system import solve_iteratively
from bayeskern.ridge.penalties import read_alpha, read_alphas
from bayeskern.ridge.regularization_path import (
    RegularizationPath,
    default_alphas,
    forget_path,
)
from bayeskern.ridge.regularized_system import EPS, CholeskySystem, Eigendecomposition
from bayeskern.ridge.solver_choice import (
    ITERATIVE,
    NAMES,
    WITH_MATRIX,
    choose_solver,
    matrix_is_held,
)
from bayeskern.ridge.tuning import Objective, tune

# A search for hyperparameters starts again, at most this often, where the path of alphas shows an
# optimum that is better by this part of its value.
RESTARTS = 5
RELATIVE_GAIN = 1e-6


class KernelRidge(MultiOutputMixin, RegressorMixin, KernelExpansion):
    """Kernel ridge regression: sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2 is least.

    The minimizer is f(x) = sum_i a_i k(x, x_i) + b with the dual coefficients
    a = (K + alpha W^-1)^-1 y, and b = 0 unless `fit_intercept` adds a constant that is not
    penalized. f is the posterior mean of a Gaussian process with kernel k and noise variance
    alpha / w_i, and `predict(X, return_std=True)` gives its standard deviation too.

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
        alpha_per_target: Whether each column of y gets an alpha of its own.
        fit_intercept: Whether to add a constant b that is not penalized.
        optimize: "loo", "gcv" or "evidence" finds the `Free(start)` hyperparameters of the kernel
            by gradient. Where `alpha` names the same criterion, alpha is found with them, within
            the range of `alphas`. None leaves the kernel as it is.
        solver: How (K + alpha W^-1) a = y is solved. "dense" holds K, n x n numbers, and takes
            "cholesky" or, to serve many alphas, "eigen". "iterative", conjugate gradients, holds no
            matrix, for one alpha that is a number; there are no leave-one-out predictions,
            standard deviations and degrees of freedom then. The others are the exact solvers of
            `GaussianProcess`, such as "markov", for one column and kernels with a state, in time
            that grows like n. "auto" takes the fastest of the exact ones, or "iterative" where
            memory holds none of them.
        tol: The relative residual |y - (K + alpha W^-1) a| / |y| at which "iterative" stops.
        seed: A whole number from 0 to 2**32 - 1, from which the preconditioner of "iterative"
            follows.

    Attributes:
        kernel_: The kernel, with the hyperparameters that `optimize` found.
        alpha_: The penalty, a number or (k,).
        dual_coef_: The dual coefficients a, (n,) or (n, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        effective_dof_: The trace of the matrix that turns y into fitted values, a number or (k,).
        X_fit_: The training points, (n, d).
        solver_: The solver that was taken.
        n_iter_: The steps of "iterative"; None for other solvers.
        residual_: The relative residual that "iterative" reached; None for other solvers.
        alphas_: The penalties that were compared, where alpha was chosen.
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
        tol=1e-6,
        seed=0,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.alphas = alphas
        self.alpha_per_target = alpha_per_target
        self.fit_intercept = fit_intercept
        self.optimize = optimize
        self.solver = solver
        self.tol = tol
        self.seed = seed

    def fit(self, X, y, sample_weight=None) -> KernelRidge:
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
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, copy=True
        )
        kernel = self._concrete_kernel(positive_definite=False, free=self.optimize is not None)
        validation.one_of("solver", self.solver, NAMES)
        tol, seed = validation.positive(self.tol, "tol"), validation.seed(self.seed)
        self._single = y.ndim == 1
        Y = y.reshape(len(y), -1).astype(float)
        alpha = read_alpha(self.alpha, Y.shape[1])
        alphas = read_alphas(self.alphas, alpha)
        forget_path(self)
        self._sqrt_weights = np.sqrt(read_weights(sample_weight, X))
        # Rows of weight 0 take no part, but keep their place.
        self._used = self._sqrt_weights > 0.0
        self._T = (self._sqrt_weights[:, None] * Y)[self._used]
        self.X_fit_ = X

        self._sign = _sign(kernel)
        self._has_constant = bool(self.fit_intercept) or self._sign < 0
        if self._has_constant and len(self._T) < 2:
            raise ValueError(
                f"a constant and a function cannot be told apart with {len(self._T)} sample: give "
                "at least 2 points of positive weight."
            )
        self.solver_ = self._chosen_solver(kernel, alpha, alphas)
        if self.optimize is not None:
            kernel, alpha, alphas = self._tuned(kernel, alpha, alphas)
        self.kernel_ = kernel
        self.n_iter_ = self.residual_ = None
        if self.solver_ == ITERATIVE:
            self._system, self.alpha_ = None, alpha
            coefficients, intercept = self._iterated(alpha, tol, seed)
        else:
            system = None if self._has_matrix else self._without_matrix(alpha, alphas)
            self._system = system or self._from_matrix(alpha, alphas)
            self.alpha_ = self._system.alpha
            coefficients, intercept = self._system.solve(self._T)
        dual = np.zeros_like(Y)
        dual[self._used] = self._sign * self._sqrt_weights[self._used, None] * coefficients
        self.dual_coef_ = dual[:, 0] if self._single else dual
        self.intercept_ = float(intercept[0]) if self._single else intercept
        return self

    def predict(self, X, return_std=False):
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
        X = self._validated(X)
        mean = self._evaluate(X)
        return (mean, self._sd(X)) if return_std else mean

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
        residuals = self._factor_for("loo_predict").for_loo().loo_residuals(self._T)
        predictions = np.empty((len(self._used), self._T.shape[1]))
        predictions[self._used] = (self._T - residuals) / self._sqrt_weights[self._used, None]
        if not np.all(self._used):
            unused = self._evaluate(self.X_fit_[~self._used])
            predictions[~self._used] = unused.reshape(-1, predictions.shape[1])
        return predictions[:, 0] if self._single else predictions

    @property
    def effective_dof_(self):
        """The trace of A, which turns y into fitted values A y: a number, or (k,) for k alphas."""
        return self._factor_for("effective_dof_").effective_dof

    def _evaluate(self, X):
        if self._has_matrix or self.solver_ == ITERATIVE:
            return super()._evaluate(X)
        covariances, dual = self._system.covariances, self.dual_coef_[self._used]
        return weighted_covariances(covariances, dual, X) + self.intercept_

    # -- the system ------------------------------------------------------------------------------

    @property
    def _has_matrix(self) -> bool:
        return self.solver_ in WITH_MATRIX

    def _chosen_solver(self, kernel, alpha, alphas) -> str:
        """The name of the solver, which "dense" leaves open among those with a matrix."""
        chosen, asks_matrix = isinstance(alpha, str), None
        if self._sign < 0:
            asks_matrix = "multiquadrics"
        elif np.ndim(alpha) > 0 or (chosen and self.alpha_per_target and not self._single):
            asks_matrix = "an alpha for each column of y"
        elif self.optimize is not None:
            asks_matrix = f"optimize={self.optimize!r}"
        return choose_solver(
            self.solver,
            kernel,
            self.X_fit_[self._used],
            as_noise(1.0, self._sqrt_weights[self._used]),
            asks_matrix=asks_matrix,
            asks_factor=f"alpha={alpha!r}" if chosen else None,
            may_be_singular=0.0 in np.atleast_1d(alphas if chosen else alpha),
        )

    def _factor_for(self, wanted: str) -> DualSystem | FactoredSystem:
        """The system, for what needs a factor of it."""
        check_is_fitted(self)
        if self._system is None:
            raise AttributeError(
                f"{wanted} needs a factor of K + alpha I, and solver='iterative' has none. Take "
                "solver='dense' with fewer points, NystromRidge, or points held out."
            )
        return self._system

    def _iterated(self, alpha: float, tol: float, seed: int):
        """(c, b) by conjugate gradients."""
        used = self._used
        data = self.X_fit_[used], alpha, self._T, self._sqrt_weights[used], self._has_constant
        *found, solution = solve_iteratively(self.kernel_, *data, tol, seed)
        self.n_iter_, self.residual_ = solution.iterations, solution.residual
        return found

    def _without_matrix(self, alpha, alphas) -> FactoredSystem | None:
        """The system with alpha, or with the best of alphas, by a solver of covariance matrices.

        None where there is no factor, and "auto" may take the matrix, which does without.
        """
        points, sqrt_weights = self.X_fit_[self._used], self._sqrt_weights[self._used]
        noise = as_noise(1.0, sqrt_weights)
        solver = solver_of(self.kernel_, points, self.solver_, noise)
        covariances = Covariances(self.kernel_, solver, points, sqrt_weights, self._has_constant)
        try:
            if isinstance(alpha, str):
                path = self._path(covariances, alphas)
                alpha = path.best(alpha)
                path.store_in(self, self._single, alpha)
            return covariances.at(alpha)
        except np.linalg.LinAlgError:
            if self.solver != "auto" or not matrix_is_held(self.kernel_, points):
                raise
            self.solver_ = "dense"
            return None

    def _from_matrix(self, alpha, alphas) -> DualSystem:
        """The system with alpha, or with the best of alphas by the criterion alpha."""
        chosen = isinstance(alpha, str)
        if chosen or np.ndim(alpha) > 0:
            if self.solver_ == "cholesky":
                raise ValueError('solver="cholesky" takes one alpha only. Take "eigen", or "auto".')
        elif self.solver_ != "eigen":
            try:
                M, border = self._matrix(self.kernel_, alpha)
                system = DualSystem(CholeskySystem(M, alpha), border)
                self.solver_ = "cholesky"
                return system
            except np.linalg.LinAlgError:
                if self.solver_ == "cholesky":
                    raise
        self.solver_ = "eigen"
        spectrum = self._spectrum(self.kernel_, alphas if chosen else alpha)
        if chosen:
            path = self._path(spectrum, alphas)
            alpha = path.best(alpha, self.alpha_per_target and not self._single)
            path.store_in(self, self._single, alpha)
        eigen_system = spectrum.eigen.at(alpha)
        size = len(spectrum.eigen.values)
        if eigen_system.rank < size:
            warnings.warn(
                f"K + alpha I is singular to rounding (rank {eigen_system.rank} of {size}), and "
                "the shortest of many solutions was taken. Take a larger alpha; if X lies far "
                "from 0 beside its spread, centre it first.",
                LinAlgWarning,
                stacklevel=3,
            )
        return DualSystem(eigen_system, spectrum.border)

    def _spectrum(self, kernel, alpha) -> DualSpectrum:
        M, border = self._matrix(kernel, alpha)
        return DualSpectrum(Eigendecomposition.of(M), border)

    def _matrix(self, kernel, alpha):
        """(M, border) of the weighted Gram matrix, as `without_constant` returns them."""
        sqrt_weights = self._sqrt_weights[self._used]
        K = gram(kernel, self.X_fit_[self._used])
        if alpha is not None and np.any(np.asarray(alpha) == 0.0):
            _refuse_coinciding(K, np.flatnonzero(self._used))
        if self._sign < 0:
            np.negative(K, out=K)
        if np.any(sqrt_weights != 1.0):
            K *= sqrt_weights[:, None]
            K *= sqrt_weights
        return without_constant(K, sqrt_weights if self._has_constant else None)

    def _path(self, spectrum: DualSpectrum | Covariances, alphas=None) -> RegularizationPath:
        if alphas is None:
            n = len(self._T)
            alphas = default_alphas(spectrum.trace / n, n)
        return RegularizationPath.of(spectrum, self._T, alphas, self._sqrt_weights[self._used])

    def _tuned(self, kernel, alpha, alphas):
        """The kernel with its free values found, alpha, and the alphas with the one found."""
        criterion = validation.one_of("optimize", self.optimize, CRITERIA)
        chosen = isinstance(alpha, str)
        if np.ndim(alpha) > 0 or (chosen and alpha != criterion):
            raise ValueError(
                f"optimize={criterion!r} goes with one alpha, a number or {criterion!r} again; "
                f"got {alpha!r}."
            )
        used, sqrt_weights = self._used, self._sqrt_weights
        data = self.X_fit_[used], self._T, sqrt_weights[used], self._sign, self._has_constant
        objective = Objective.of(criterion, kernel, None if chosen else alpha)
        if not chosen:
            return tune(objective, None, *data)[0], alpha, None
        if alphas is not None and not np.any(alphas > 0.0):
            raise ValueError(
                "alphas has no penalty above 0, but optimize goes by their logarithms."
            )
        alphas = None if alphas is None else alphas[alphas > 0.0]
        path = self._path(self._spectrum(objective.kernel, alphas), alphas)
        grid, first = path.alphas, path.best(criterion)
        for _ in range(RESTARTS):
            kernel, tuned_alpha = tune(objective, (first, grid[0], grid[-1]), *data)
            alphas = np.union1d(grid, tuned_alpha)
            path = self._path(self._spectrum(kernel, alphas), alphas)
            first = path.best(criterion)
            scores = path.scores(criterion).sum(axis=1)
            best_score = np.max(scores)
            if best_score - scores[alphas == tuned_alpha][0] <= RELATIVE_GAIN * np.abs(best_score):
                break
            # With this kernel another alpha is better, so a better optimum lies beyond.
            objective = objective._replace(kernel=kernel)
        return kernel, criterion, alphas

    def _sd(self, X) -> np.ndarray:
        """Standard deviations of new observations at X, of the shape of their means."""
        system = self._factor_for("return_std")
        variances = np.empty((len(X), self._T.shape[1]))
        if not self._has_matrix:
            latent = np.maximum(system.latent_variances(X), 0.0)
            variances[:] = (latent + self.alpha_)[:, None]
            return np.sqrt(variances[:, 0] if self._single else variances)
        sqrt_weights, points = self._sqrt_weights[self._used], self.X_fit_[self._used]
        alphas = np.broadcast_to(self.alpha_, variances.shape[1])
        for alpha in np.unique(alphas):
            system, columns = self._system.at(alpha), alphas == alpha
            for rows in blocks(len(X), len(points)):
                K = self._sign * sqrt_weights[:, None] * gram(self.kernel_, points, X[rows])
                solution, level = system.solve(K, total=1.0 if self._has_constant else 0.0)
                prior = self._sign * np.asarray(self.kernel_.evaluate_diag(X[rows]))
                latent = prior - np.sum(K * solution, axis=0) - level
                variances[rows, columns] = (np.maximum(latent, 0.0) + alpha)[:, None]
        return np.sqrt(variances[:, 0] if self._single else variances)


def _sign(kernel: Kernel) -> float:
    """-1 for multiquadrics, whose negative is conditionally positive definite, otherwise 1.

    Raises ValueError where a kernel is neither: a multiquadric in a product, or beside others.
    """
    leaves = [node for node in kernel.nodes() if not node.children()]
    multiquadrics = [leaf for leaf in leaves if not leaf.positive_definite]
    if not multiquadrics:
        return 1.0
    in_product = any(isinstance(k, Product | Power | Exp | Modulated) for k in kernel.nodes())
    if len(multiquadrics) < len(leaves) or in_product:
        raise ValueError(
            f"{kernel!r} is not positive definite, because of {multiquadrics[0]!r}, nor is its "
            "negative conditionally so. Take a multiquadric alone, or InverseMultiquadric."
        )
    return -1.0


def _refuse_coinciding(K, rows):
    """Raise ValueError if the kernel cannot tell two points apart: nothing interpolates them."""
    diagonal = np.diagonal(K)
    for i in range(len(K) - 1):
        squared_distances = diagonal[i] + diagonal[i + 1 :] - 2.0 * K[i, i + 1 :]
        sizes = np.abs(diagonal[i]) + np.abs(diagonal[i + 1 :])
        close = np.abs(squared_distances) <= 4.0 * EPS * sizes
        if np.any(close):
            j = i + 1 + int(np.argmax(close))
            raise ValueError(
                f"alpha = 0 interpolates, but rows {rows[i]} and {rows[j]} of X coincide (to the "
                "kernel). Take an alpha above 0, or merge the rows."
            )
