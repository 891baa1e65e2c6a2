"""Ridge regression on explicit features of a kernel, in one pass over the points."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgWarning
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bayeskern.core import sharding, validation
from bayeskern.kernels.approximation import NystromFeatures, RandomFourierFeatures
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator, read_weights
from bayeskern.kernels.gram_matrix import blocks
from bayeskern.ridge.moments import Moments
from bayeskern.ridge.penalties import default_alphas, forget_path, read_alpha, read_alphas
from bayeskern.ridge.systems import CholeskyFactor, Eigendecomposition, RidgeFactor


class _FeatureRidge(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """f(x) = phi(x)'w + b, which minimises sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2."""

    alpha: float | str | ArrayLike
    alphas: ArrayLike | None
    alpha_per_target: bool
    fit_intercept: bool
    n_features_in_: int

    @abstractmethod
    def _features(self, n: int) -> NystromFeatures | RandomFourierFeatures:
        """The unfitted feature transformer for n points."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to data, with the features of one block of rows in memory.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).
            sample_weight: Non-negative weights w of the squared errors, (n,); None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: If X, y or an option is invalid.
        """
        points, Y, sqrt_weights = self._read(X, y, sample_weight, is_first=True)
        if self.fit_intercept and np.sum(sqrt_weights > 0.0) < 2:
            raise ValueError(
                "an unpenalised constant needs at least 2 samples of positive weight; got 1 sample."
                " Give more points, or use partial_fit."
            )
        self._begin(points, Y, sqrt_weights)
        return self._add(points, Y, sqrt_weights)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows; equals one `fit` to all rows with the features of the first call.

        Landmarks are chosen from the rows of the first call: pass many rows there, or pass the
        landmarks. Only alpha and alphas may change between calls; the first call fixes the other
        parameters.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).
            sample_weight: Non-negative weights w of the squared errors, (n,); None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: If X, y or an option is invalid, or if alpha="loo", which needs a second
                pass over rows that are not kept.
        """
        if isinstance(self.alpha, str) and self.alpha == "loo":
            raise ValueError(
                'alpha="loo" goes over the rows twice, and partial_fit does not keep them. Use '
                'alpha="gcv" or alpha="evidence", or call fit.'
            )
        is_first = not hasattr(self, "features_")
        points, Y, sqrt_weights = self._read(X, y, sample_weight, is_first)
        if is_first:
            self._begin(points, Y, sqrt_weights)
        return self._add(points, Y, sqrt_weights)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X), (m,) or (m, k).
        """
        points = self._read_points(X)
        predictions = np.empty((len(points), *np.shape(self.coef_)[1:]))
        for rows, phi in self._feature_blocks(points):
            predictions[rows] = phi @ self.coef_ + self.intercept_
        return predictions

    def loo_predict(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        """Leave-one-out predictions of fitted rows, with the features held fixed.

        The predictions are y_i - r_i / (1 - h_i) with the residual r_i and the leverage
        h_i = w_i phi_i'(Phi'W Phi + alpha I)^-1 phi_i. With a constant, the features are centered
        and w_i / sum w is added to h_i.

        Args:
            X: All or some of the fitted points, (n, d), which the estimator does not keep.
            y: The targets of these points, (n,) or (n, k).
            sample_weight: The weights of these points, (n,); None means 1.

        Returns:
            Predictions, (n,) or (n, k).

        Warns:
            scipy.linalg.LinAlgWarning: If a leverage is so close to 1 that digits are lost.
        """
        check_is_fitted(self)
        points, Y, sqrt_weights = self._read(X, y, sample_weight, is_first=False)
        predictions, smallest_margin = np.empty_like(Y), 1.0
        alphas = np.broadcast_to(self.alpha_, Y.shape[1])
        rounding = self._moments.features * np.finfo(float).eps
        for rows, phi in self._feature_blocks(points):
            fitted = (phi @ self.coef_ + self.intercept_).reshape(len(phi), -1)
            phi -= self._centered.mean
            for alpha in np.unique(alphas):
                columns = alphas == alpha
                leverage = np.sum(phi.T * self._system.at(alpha).solve(phi.T), axis=0)
                leverage += self._centered.constant_leverage
                margin = 1.0 - np.square(sqrt_weights[rows]) * leverage
                smallest_margin = min(smallest_margin, np.min(margin))
                divisor = np.where(margin > rounding, margin, np.nan)[:, None]
                residuals = Y[rows, columns] - fitted[:, columns]
                predictions[rows, columns] = Y[rows, columns] - residuals / divisor
        if smallest_margin < 1e-6:
            warnings.warn(
                f"a leverage is within {max(smallest_margin, 0.0):.1g} of 1, so the leave-one-out "
                "prediction of that row is inaccurate (NaN if no digit is left). Use a larger "
                "alpha, fewer features, or KernelRidge.",
                LinAlgWarning,
                stacklevel=2,
            )
        return predictions[:, 0] if self._single else predictions

    # -- the passes over the rows ------------------------------------------------------------------

    def _read(
        self, X, y, sample_weight, is_first: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points (n, d), targets (n, k) and the square roots of the weights, (n,)."""
        X, y = self._read_data(X, y, multi_output=True, y_numeric=True, reset=is_first)
        Y = y.reshape(len(y), -1).astype(float)
        sqrt_weights = np.sqrt(read_weights(sample_weight, X))
        # Validate alpha and alphas before any row is added.
        read_alphas(self.alphas, read_alpha(self.alpha, Y.shape[1]))
        if is_first:
            self._single = y.ndim == 1
        elif Y.shape[1] != self._moments.targets:
            raise ValueError(
                f"y has {Y.shape[1]} columns, but the earlier rows have {self._moments.targets}."
            )
        return X, Y, sqrt_weights

    def _begin(self, X, Y, sqrt_weights) -> None:
        """Fit the features to the first rows, and start the sums."""
        positive = sqrt_weights > 0.0
        X, Y = X[positive], Y[positive]
        self.features_ = self._features(len(X))
        self.features_.fit(X)
        first_phi = self.features_.transform(X[:1])[0]
        origin = (first_phi, Y[0].copy()) if self.fit_intercept else None
        self._moments = Moments(len(first_phi), Y.shape[1], origin)

    def _add(self, X, Y, sqrt_weights) -> Self:
        """Add rows to the sums, and solve."""
        # Rows of weight 0 are skipped.
        positive = sqrt_weights > 0.0
        X, Y, sqrt_weights = X[positive], Y[positive], sqrt_weights[positive]
        for rows, phi in self._feature_blocks(X, sharding.own):
            self._moments.add(phi, Y[rows], sqrt_weights[rows])
        return self._solve(X, Y, sqrt_weights)

    def _feature_blocks(self, X, select: Callable = iter) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield (rows, features) of each block of rows chosen by `select`."""
        for rows in select(blocks(len(X), self._moments.features)):
            yield rows, self.features_.transform(X[rows])

    def _solve(self, X, Y, sqrt_weights) -> Self:
        """Choose alpha, and solve for the coefficients. X, Y: rows for a second pass."""
        alpha = read_alpha(self.alpha, Y.shape[1])
        alphas = read_alphas(self.alphas, alpha)
        forget_path(self)
        self._centered = self._moments.centered()
        if isinstance(alpha, str):
            eigen = Eigendecomposition.of(self._centered.S.copy())
            alpha = self._choose(eigen, alpha, alphas, X, Y, sqrt_weights)
            self._system = eigen.at(alpha)
        else:
            self._system = self._factored(alpha)
        self.alpha_ = alpha
        coefficients = self._system.solve(self._centered.P)
        intercept = self._centered.mean_y - self._centered.mean @ coefficients
        self.coef_ = coefficients[:, 0] if self._single else coefficients
        self.intercept_ = float(intercept[0]) if self._single else intercept
        return self

    def _factored(self, alpha: float | np.ndarray) -> RidgeFactor:
        if isinstance(alpha, float):
            # If the matrix is singular, the eigendecomposition gives the shortest solution.
            with suppress(np.linalg.LinAlgError):
                return CholeskyFactor(self._centered.S.copy(), alpha)
        return Eigendecomposition.of(self._centered.S.copy()).at(alpha)

    def _choose(self, eigen: Eigendecomposition, criterion: str, alphas, X, Y, sqrt_weights):
        """Choose the best of alphas by the criterion, and set the path attributes."""
        if alphas is None:
            rows = self._centered.rows
            square = np.mean(self._centered.yy) / rows if criterion == "evidence" else None
            alphas = default_alphas(np.trace(self._centered.S) / rows, rows, square)
        path = self._centered.path(eigen, alphas)
        if criterion == "loo":
            path = path._replace(loo=self._loo_path(eigen, alphas, X, Y, sqrt_weights))
        return path.choose(criterion, self, self._single)

    def _loo_path(self, eigen: Eigendecomposition, alphas, X, Y, sqrt_weights) -> np.ndarray:
        """The mean squared leave-one-out residuals, in a second pass: (alphas, targets).

        The leverages are those of `loo_predict`: Phi'W Phi = V D V', so with Z = Phi V they are
        w_i sum_j Z_ij^2 / (D_j + alpha) for all alphas at once.
        """
        inverse_values = eigen.at(alphas).inverse_values
        P = eigen.V.T @ self._centered.P
        squares = np.zeros((len(alphas), Y.shape[1]))
        for rows, phi in self._feature_blocks(X, sharding.own):
            phi -= self._centered.mean
            Z, T = phi @ eigen.V, Y[rows] - self._centered.mean_y
            weights = np.square(sqrt_weights[rows])[:, None]
            leverage = np.square(Z) @ inverse_values + self._centered.constant_leverage
            margin = 1.0 - weights * leverage
            has_margin = margin > len(P) * np.finfo(float).eps
            for j, t in enumerate(T.T):
                residuals = t[:, None] - Z @ (inverse_values * P[:, [j]])
                infinite = np.full_like(margin, np.inf)
                residuals = np.divide(residuals, margin, out=infinite, where=has_margin)
                squares[:, j] += np.sum(weights * np.square(residuals), axis=0)
        return sharding.total(squares) / self._centered.weight


@dataclass(eq=False, repr=False)
class NystromRidge(_FeatureRidge):
    """Kernel ridge regression with f in the span of k(., z_j) for m landmarks z_j.

    f(x) = phi(x)'w + b, with the Nystrom features phi of the landmarks (`kernels.NystromFeatures`),
    minimises sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2, where |w| is the norm of f in the space of
    the kernel. With all points as landmarks it equals `KernelRidge`. Fitting takes O(n m^2) time.
    Memory holds m x m sums and one block of features, independent of n.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        landmarks: The number m of landmarks, at most n (None means 100, or n if that is less), or
            the landmarks themselves, (m, d).
        selection: The method to choose landmarks: "kmeans", "random", "leverage" or "greedy", as in
            `kernels.NystromFeatures`.
        alpha: The penalty, in the squared units of y: a non-negative number, an array (k,) with a
            penalty for each column of y, or a criterion to choose among `alphas`: "loo", "gcv" or
            "evidence", as in `KernelRidge`.
        alphas: Penalties to choose from; None takes 50, as in `KernelRidge`.
        alpha_per_target: Whether to choose an alpha for each column of y.
        fit_intercept: Whether to add an unpenalised constant b.
        seed: The random seed for choosing landmarks.

    Attributes:
        features_: The fitted `NystromFeatures`.
        landmarks_: The landmarks, (m, d).
        coef_: The coefficients w, (m,) or (m, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        alpha_: The penalty, a number or (k,).
        alphas_: The penalties compared, if `alpha` is a criterion.
        loo_path_: The mean squared leave-one-out residual at each of `alphas_`, (alphas,) or
            (alphas, k); only for alpha="loo".
        gcv_path_: The generalized cross-validation score at each of `alphas_`, of this shape.
        evidence_path_: The log marginal likelihood at each of `alphas_`, of this shape.

    References:
        Williams and Seeger (2001), "Using the Nystrom method to speed up kernel machines". Rudi,
        Camoriano and Rosasco (2015), "Less is more: Nystrom computational regularization".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.ridge import NystromRidge
        >>> X = np.linspace(0.0, 6.0, 500)[:, None]
        >>> ridge = NystromRidge(landmarks=20, alpha=0.01).fit(X, np.sin(X[:, 0]))
        >>> ridge.predict([[1.5], [4.7]]).round(2)
        array([ 1., -1.])
    """

    kernel: Kernel | None = None
    landmarks: int | ArrayLike | None = None
    selection: str = "kmeans"
    alpha: float | str | ArrayLike = 1.0
    _: KW_ONLY
    alphas: ArrayLike | None = None
    alpha_per_target: bool = False
    fit_intercept: bool = False
    seed: int = 0

    def _features(self, n: int) -> NystromFeatures | RandomFourierFeatures:
        landmarks: Any = min(100, n) if self.landmarks is None else self.landmarks
        if np.ndim(landmarks) > 0:
            landmarks, _ = validation.inputs(
                landmarks, "landmarks", getattr(self, "feature_names_in_", None)
            )
            if landmarks.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"landmarks have {landmarks.shape[1]} columns but X has "
                    f"{self.n_features_in_}; they must match."
                )
        elif validation.positive_integer(landmarks, "landmarks") > n:
            raise ValueError(
                f"landmarks={landmarks} is more than the {n} points of positive weight. Use at "
                f"most {n}, or KernelRidge, which uses all points."
            )
        return NystromFeatures(self._concrete_kernel(), landmarks, self.selection, self.seed)

    @property
    def landmarks_(self) -> np.ndarray:
        """The landmarks z, (m, d)."""
        check_is_fitted(self)
        assert isinstance(self.features_, NystromFeatures)
        return self.features_.landmarks_


@dataclass(eq=False, repr=False)
class FourierRidge(_FeatureRidge):
    """Kernel ridge regression with random Fourier features of a stationary kernel.

    f(x) = phi(x)'w + b, with phi(x)'phi(z) ~ k(x, z) (`kernels.RandomFourierFeatures`), minimises
    sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2. The difference from `KernelRidge` decreases as
    1 / sqrt(m). Fitting takes O(n m^2) time. Memory holds m x m sums and one block of features,
    independent of n.

    Args:
        kernel: RBF, Matern, RationalQuadratic or another kernel with a spectral density, or their
            sums and products; None means `RBF()`. For other kernels, a ValueError names the part
            without a spectral density.
        n_components: The number of features m.
        orthogonal: Whether to draw orthogonal frequencies, which lowers the error.
        alpha: The penalty, in the squared units of y: a non-negative number, an array (k,) with a
            penalty for each column of y, or a criterion to choose among `alphas`: "loo", "gcv" or
            "evidence", as in `KernelRidge`.
        alphas: Penalties to choose from; None takes 50, as in `KernelRidge`.
        alpha_per_target: Whether to choose an alpha for each column of y.
        fit_intercept: Whether to add an unpenalised constant b.
        seed: The random seed for the frequencies.

    Attributes:
        features_: The fitted `RandomFourierFeatures`.
        coef_: The coefficients w, (m,) or (m, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        alpha_: The penalty, a number or (k,).
        alphas_: The penalties compared, if `alpha` is a criterion.
        loo_path_: The mean squared leave-one-out residual at each of `alphas_`, (alphas,) or
            (alphas, k); only for alpha="loo".
        gcv_path_: The generalized cross-validation score at each of `alphas_`, of this shape.
        evidence_path_: The log marginal likelihood at each of `alphas_`, of this shape.

    References:
        Rahimi and Recht (2007), "Random features for large-scale kernel machines". Yu, Suresh,
        Choromanski, Holtmann-Rice and Kumar (2016), "Orthogonal random features".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.ridge import FourierRidge
        >>> X = np.linspace(0.0, 6.0, 500)[:, None]
        >>> ridge = FourierRidge(n_components=50, alpha=0.01).fit(X, np.sin(X[:, 0]))
        >>> ridge.predict([[1.5], [4.7]]).round(2)
        array([ 1., -1.])
    """

    kernel: Kernel | None = None
    n_components: int = 100
    orthogonal: bool = False
    alpha: float | str | ArrayLike = 1.0
    _: KW_ONLY
    alphas: ArrayLike | None = None
    alpha_per_target: bool = False
    fit_intercept: bool = False
    seed: int = 0

    def _features(self, n: int) -> NystromFeatures | RandomFourierFeatures:
        kernel = self._concrete_kernel(positive_definite=False)
        return RandomFourierFeatures(kernel, self.n_components, self.orthogonal, self.seed)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # scikit-learn checks the score in ten dimensions: a hundred random features are too few.
        tags.regressor_tags.poor_score = True
        return tags
