"""Ridge regression on features of a kernel, for any number of points, in one pass over them."""

from __future__ import annotations

import warnings
from abc import abstractmethod

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import sharding, validation
from bayeskern.kernels.approximation import NystromFeatures, RandomFourierFeatures
from bayeskern.kernels.estimator import KernelEstimator, read_weights
from bayeskern.kernels.gram_matrix import blocks
from bayeskern.ridge.moments import Moments
from bayeskern.ridge.penalties import read_alpha, read_alphas
from bayeskern.ridge.regularization_path import default_alphas, forget_path
from bayeskern.ridge.regularized_system import EPS, CholeskySystem, Eigendecomposition

# The default number of landmarks, where there are as many points.
LANDMARKS = 100
# Leave-one-out has lost its digits where 1 - leverage is below this, and a warning says so.
LEVERAGE_MARGIN = 1e-6


class _FeatureRidge(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """f(x) = phi(x)'w + b, with sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2 least."""

    @abstractmethod
    def _features(self, n: int):
        """The transformer that makes the features, unfitted, for n points."""

    def fit(self, X, y, sample_weight=None):
        """Fit the function to data, holding the features of one block of rows at a time.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).
            sample_weight: Weights w of the squared errors, (n,) of 0 or more; None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: For bad input.
        """
        X, Y, sqrt_weights = self._read(X, y, sample_weight, first=True)
        if self.fit_intercept and np.sum(sqrt_weights > 0.0) < 2:
            raise ValueError(
                "a constant and a function cannot be told apart with 1 sample: give at least 2 "
                "points of positive weight, or partial_fit."
            )
        self._begin(X, Y, sqrt_weights)
        return self._add(X, Y, sqrt_weights)

    def partial_fit(self, X, y, sample_weight=None):
        """Add rows: the result is that of one `fit` to all rows with the features of the first.

        Landmarks are chosen among the first rows, so let these be many, or give the landmarks. Only
        alpha and alphas may change between calls; the other parameters count on the first one.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).
            sample_weight: Weights w of the squared errors, (n,) of 0 or more; None means 1.

        Returns:
            The estimator.

        Raises:
            ValueError: For bad input, and for alpha="loo", which goes over the rows twice while
                they are not kept.
        """
        if isinstance(self.alpha, str) and self.alpha == "loo":
            raise ValueError(
                'alpha="loo" goes over the rows twice, and partial_fit does not keep them. Take '
                '"gcv" or "evidence", or fit.'
            )
        first = not hasattr(self, "features_")
        X, Y, sqrt_weights = self._read(X, y, sample_weight, first)
        if first:
            self._begin(X, Y, sqrt_weights)
        return self._add(X, Y, sqrt_weights)

    def predict(self, X) -> np.ndarray:
        """Predict f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X), (m,) or (m, k).
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        predictions = np.empty((len(X), *np.shape(self.coef_)[1:]))
        for rows, phi in self._feature_blocks(X):
            predictions[rows] = phi @ self.coef_ + self.intercept_
        return predictions

    def loo_predict(self, X, y, sample_weight=None) -> np.ndarray:
        """Predict rows that were fitted to, each from all the others, with the same features.

        The predictions are y_i - r_i / (1 - h_i) with the residual r_i and the leverage
        h_i = w_i phi_i'(Phi'W Phi + alpha I)^-1 phi_i, to which a constant adds w_i / sum w.

        Args:
            X: All or some of the points that were fitted to, (n, d); the estimator does not keep
                them.
            y: Their targets, (n,) or (n, k).
            sample_weight: Their weights, (n,); None means 1.

        Returns:
            Predictions, (n,) or (n, k).

        Warns:
            scipy.linalg.LinAlgWarning: Where a leverage is so near to 1 that digits are lost.
        """
        check_is_fitted(self)
        X, Y, sqrt_weights = self._read(X, y, sample_weight, first=False)
        predictions, smallest_margin = np.empty_like(Y), 1.0
        alphas = np.broadcast_to(self.alpha_, Y.shape[1])
        for rows, phi in self._feature_blocks(X):
            fitted = (phi @ self.coef_ + self.intercept_).reshape(len(phi), -1)
            phi -= self._centered.mean
            for alpha in np.unique(alphas):
                columns = alphas == alpha
                leverage = np.sum(phi.T * self._system.at(alpha).solve(phi.T), axis=0)
                leverage += self._centered.constant_leverage
                margin = 1.0 - np.square(sqrt_weights[rows]) * leverage
                smallest_margin = min(smallest_margin, np.min(margin))
                divisor = np.where(margin > len(phi.T) * EPS, margin, np.nan)[:, None]
                residuals = Y[rows, columns] - fitted[:, columns]
                predictions[rows, columns] = Y[rows, columns] - residuals / divisor
        if smallest_margin < LEVERAGE_MARGIN:
            warnings.warn(
                f"a leverage is within {max(smallest_margin, 0.0):.1g} of 1, so that leaving that "
                "row out cannot be told from here with any digits to spare (NaN where there are "
                "none). Take a larger alpha, fewer features, or KernelRidge, which loses no "
                "digits.",
                LinAlgWarning,
                stacklevel=2,
            )
        return predictions[:, 0] if self._single else predictions

    # -- the passes over the rows ------------------------------------------------------------------

    def _read(self, X, y, sample_weight, first: bool):
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=first
        )
        Y = y.reshape(len(y), -1).astype(float)
        sqrt_weights = np.sqrt(read_weights(sample_weight, X))
        # Refused before any row is added.
        read_alphas(self.alphas, read_alpha(self.alpha, Y.shape[1]))
        if first:
            self._single = y.ndim == 1
        elif Y.shape[1] != self._moments.targets:
            raise ValueError(
                f"y has {Y.shape[1]} columns, but in the rows fitted before it had "
                f"{self._moments.targets}."
            )
        return X, Y, sqrt_weights

    def _begin(self, X, Y, sqrt_weights):
        used = sqrt_weights > 0.0
        X, Y = X[used], Y[used]
        self.features_ = self._features(len(X)).fit(X)
        first = self.features_.transform(X[:1])[0]
        origin = (first, Y[0].copy()) if self.fit_intercept else None
        self._moments = Moments(len(first), Y.shape[1], origin)

    def _add(self, X, Y, sqrt_weights):
        # Rows of weight 0 take no part.
        used = sqrt_weights > 0.0
        X, Y, sqrt_weights = X[used], Y[used], sqrt_weights[used]
        for rows, phi in self._feature_blocks(X, sharding.own):
            self._moments.add(phi, Y[rows], sqrt_weights[rows])
        return self._solve(X, Y, sqrt_weights)

    def _feature_blocks(self, X, which=iter):
        """(rows, their features), block by block, of which `which` takes some."""
        for rows in which(blocks(len(X), self._moments.features)):
            yield rows, self.features_.transform(X[rows])

    def _solve(self, X, Y, sqrt_weights):
        alpha = read_alpha(self.alpha, Y.shape[1])
        alphas = read_alphas(self.alphas, alpha)
        forget_path(self)
        self._centered = self._moments.centered()
        if isinstance(alpha, str):
            eigen = Eigendecomposition.of(self._centered.S.copy())
            alpha = self._choose(eigen, alpha, alphas, X, Y, sqrt_weights)
            self._system = eigen.at(alpha)
        elif np.ndim(alpha) > 0:
            self._system = Eigendecomposition.of(self._centered.S.copy()).at(alpha)
        else:
            self._system = self._factored(alpha)
        self.alpha_ = alpha
        coefficients = self._system.solve(self._centered.P)
        intercept = self._centered.mean_y - self._centered.mean @ coefficients
        self.coef_ = coefficients[:, 0] if self._single else coefficients
        self.intercept_ = float(intercept[0]) if self._single else intercept
        return self

    def _factored(self, alpha):
        try:
            return CholeskySystem(self._centered.S.copy(), alpha)
        except np.linalg.LinAlgError:
            # The shortest of several solutions.
            return Eigendecomposition.of(self._centered.S.copy()).at(alpha)

    def _choose(self, eigen, criterion, alphas, X, Y, sqrt_weights):
        """The best alpha; the path is kept."""
        if alphas is None:
            rows = self._centered.rows
            alphas = default_alphas(np.trace(self._centered.S) / rows, rows)
        path = self._centered.path(eigen, alphas)
        if criterion == "loo":
            path = path._replace(loo=self._loo_path(eigen, alphas, X, Y, sqrt_weights))
        alpha = path.best(criterion, self.alpha_per_target and not self._single)
        path.store_in(self, self._single, alpha)
        return alpha

    def _loo_path(self, eigen, alphas, X, Y, sqrt_weights):
        """The mean squared leave-one-out residual by alpha, in a second pass over the rows."""
        inverse_values = eigen.at(alphas).inverse_values
        P = eigen.V.T @ self._centered.P
        squares = np.zeros((len(alphas), Y.shape[1]))
        for rows, phi in self._feature_blocks(X, sharding.own):
            phi -= self._centered.mean
            Z, T = phi @ eigen.V, Y[rows] - self._centered.mean_y
            weights = np.square(sqrt_weights[rows])[:, None]
            leverage = np.square(Z) @ inverse_values + self._centered.constant_leverage
            margin = 1.0 - weights * leverage
            sound = margin > len(P) * EPS
            for j, t in enumerate(T.T):
                residuals = t[:, None] - Z @ (inverse_values * P[:, [j]])
                infinite = np.full_like(margin, np.inf)
                residuals = np.divide(residuals, margin, out=infinite, where=sound)
                squares[:, j] += np.sum(weights * np.square(residuals), axis=0)
        return sharding.total(squares) / self._centered.weight


class NystromRidge(_FeatureRidge):
    """Kernel ridge regression with f in the span of k(., z_j) for m landmarks z_j.

    f(x) = phi(x)'w + b with the Nystrom features phi of the landmarks (`kernels.NystromFeatures`),
    and sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2 is least, where |w| is the norm of f in the space
    of the kernel. With all points as landmarks the result is that of `KernelRidge`. Fitting takes
    O(n m^2) time, and room for m x m sums and one block of features, whatever n.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers; None means `RBF()`.
        landmarks: The number m of landmarks, at most n (None means 100, or n if that is less), or
            the landmarks themselves, (m, d).
        selection: How landmarks are chosen: "kmeans", "random", "leverage" or "greedy", as in
            `kernels.NystromFeatures`.
        alpha: The penalty, in the squared units of y: a number of 0 or more, an array (k,) of one
            penalty for each column of y, or the criterion that chooses among `alphas`: "loo",
            "gcv" or "evidence", as in `KernelRidge`.
        alphas: Penalties to choose from; None takes 50 of them, as in `KernelRidge`.
        alpha_per_target: Whether each column of y gets an alpha of its own.
        fit_intercept: Whether to add a constant b that is not penalized.
        seed: The seed of the choice of landmarks.

    Attributes:
        features_: The fitted `NystromFeatures`.
        landmarks_: The landmarks, (m, d).
        coef_: The coefficients w, (m,) or (m, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        alpha_: The penalty, a number or (k,).
        alphas_: The penalties that were compared, where alpha was chosen.
        loo_path_: The mean squared leave-one-out residual of each, (alphas,) or (alphas, k), where
            "loo" chose.
        gcv_path_: Generalized cross-validation of each, likewise.
        evidence_path_: The log marginal likelihood of each, likewise.

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

    def __init__(
        self,
        kernel=None,
        landmarks=None,
        selection="kmeans",
        alpha=1.0,
        *,
        alphas=None,
        alpha_per_target=False,
        fit_intercept=False,
        seed=0,
    ):
        self.kernel = kernel
        self.landmarks = landmarks
        self.selection = selection
        self.alpha = alpha
        self.alphas = alphas
        self.alpha_per_target = alpha_per_target
        self.fit_intercept = fit_intercept
        self.seed = seed

    def _features(self, n):
        landmarks = min(LANDMARKS, n) if self.landmarks is None else self.landmarks
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
                f"landmarks={landmarks} is more than the {n} points there are. Take at most {n}, "
                "or KernelRidge, which uses them all."
            )
        return NystromFeatures(self._concrete_kernel(), landmarks, self.selection, self.seed)

    @property
    def landmarks_(self) -> np.ndarray:
        """The landmarks z, (m, d)."""
        check_is_fitted(self)
        return self.features_.landmarks_


class FourierRidge(_FeatureRidge):
    """Kernel ridge regression with random Fourier features of a stationary kernel.

    f(x) = phi(x)'w + b with phi(x)'phi(z) ~ k(x, z) (`kernels.RandomFourierFeatures`), and
    sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2 is least. The result nears that of `KernelRidge` as
    1 / sqrt(m). Fitting takes O(n m^2) time, and room for m x m sums and one block of features,
    whatever n.

    Args:
        kernel: RBF, Matern, RationalQuadratic or another kernel with a spectral density, or their
            sums and products; None means `RBF()`. ValueError says which part of a kernel has no
            spectral density.
        n_components: The number of features m.
        orthogonal: Whether frequencies are drawn at right angles, which lowers the error.
        alpha: The penalty, in the squared units of y: a number of 0 or more, an array (k,) of one
            penalty for each column of y, or the criterion that chooses among `alphas`: "loo",
            "gcv" or "evidence", as in `KernelRidge`.
        alphas: Penalties to choose from; None takes 50 of them, as in `KernelRidge`.
        alpha_per_target: Whether each column of y gets an alpha of its own.
        fit_intercept: Whether to add a constant b that is not penalized.
        seed: The seed of the frequencies.

    Attributes:
        features_: The fitted `RandomFourierFeatures`.
        coef_: The coefficients w, (m,) or (m, k).
        intercept_: The constant b, a number or (k,); 0 without a constant.
        alpha_: The penalty, a number or (k,).
        alphas_: The penalties that were compared, where alpha was chosen.
        loo_path_: The mean squared leave-one-out residual of each, (alphas,) or (alphas, k), where
            "loo" chose.
        gcv_path_: Generalized cross-validation of each, likewise.
        evidence_path_: The log marginal likelihood of each, likewise.

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

    def __init__(
        self,
        kernel=None,
        n_components=100,
        orthogonal=False,
        alpha=1.0,
        *,
        alphas=None,
        alpha_per_target=False,
        fit_intercept=False,
        seed=0,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.orthogonal = orthogonal
        self.alpha = alpha
        self.alphas = alphas
        self.alpha_per_target = alpha_per_target
        self.fit_intercept = fit_intercept
        self.seed = seed

    def _features(self, n):
        kernel = self._concrete_kernel(positive_definite=False)
        return RandomFourierFeatures(kernel, self.n_components, self.orthogonal, self.seed)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # In the ten dimensions of scikit-learn's check a hundred random features are too few.
        tags.regressor_tags.poor_score = True
        return tags
