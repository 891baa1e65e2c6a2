"""Ridge regression on features of a kernel: any number of points, in one pass over them."""

from __future__ import annotations

import warnings
from abc import abstractmethod

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.estimator import KernelEstimator, blocks
from bayeskern.kernels.features import NystromFeatures, RandomFourierFeatures
from bayeskern.ridge.kernel_ridge.dual_system import EPS, Cholesky, Spectrum
from bayeskern.ridge.kernel_ridge.moments import Moments
from bayeskern.ridge.kernel_ridge.regularization_path import default_alphas, forget_path
from bayeskern.ridge.validation import read_alpha, read_alphas, read_weights

# Landmarks by default, where there are so many points.
LANDMARKS = 100
# Leave-one-out is told to have lost its digits where 1 - leverage is below this.
DIGITS = 1e-6


class _ReducedRidge(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """f(x) = phi(x)'w + b, with sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2 least."""

    @abstractmethod
    def _features(self, n: int):
        """The transformer that makes the features, unfitted, for n points."""

    def fit(self, X, y, sample_weight=None):
        """Fit points X: (n, d) or a data frame to y: (n,) or (n, k), with weights (n,).

        Only a block of features is held at a time. Raises ValueError on bad input.
        """
        X, Y, s = self._read(X, y, sample_weight, first=True)
        if self.fit_intercept and np.sum(s > 0.0) < 2:
            raise ValueError(
                "a constant and a function cannot be told apart with 1 sample: give at least 2 "
                "points of positive weight, or partial_fit."
            )
        self._begin(X[s > 0.0], Y.shape[1])
        return self._add(X, Y, s)

    def partial_fit(self, X, y, sample_weight=None):
        """Fit these rows too: the same as one `fit` to all rows, with the features of the first.

        Landmarks are chosen among the first rows, so let these be many, or give the landmarks.
        Other parameters than alpha and alphas count on the first call only. alpha="loo" is refused,
        since it goes over the rows twice, and they are not kept.
        """
        if isinstance(self.alpha, str) and self.alpha == "loo":
            raise ValueError(
                'alpha="loo" goes over the rows twice, and partial_fit does not keep them. Take '
                '"gcv" or "evidence", or fit.'
            )
        first = not hasattr(self, "features_")
        X, Y, s = self._read(X, y, sample_weight, first)
        if first:
            self._begin(X[s > 0.0], Y.shape[1])
        return self._add(X, Y, s)

    def predict(self, X) -> np.ndarray:
        """f at points X: (m, d), as (m,) or (m, k)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        out = np.empty((len(X), *np.shape(self.coef_)[1:]))
        for rows, phi in self._phi(X):
            out[rows] = phi @ self.coef_ + self.intercept_
        return out

    def loo_predict(self, X, y, sample_weight=None) -> np.ndarray:
        """Predictions of rows that were fitted to, each from all the others: (n,) or (n, k).

        X, y, sample_weight: all of those rows or some; they are not kept here. The features stay as
        they are. y_i - r_i / (1 - h_i), with the residual r_i and the leverage
        h_i = w_i phi_i'(Phi'W Phi + alpha I)^-1 phi_i, to which a constant adds w_i / sum w.
        """
        check_is_fitted(self)
        X, Y, s = self._read(X, y, sample_weight, first=False)
        out, least = np.empty_like(Y), 1.0
        alphas = np.broadcast_to(self.alpha_, Y.shape[1])
        for rows, phi in self._phi(X):
            fitted = (phi @ self.coef_ + self.intercept_).reshape(len(phi), -1)
            phi -= self._sums.mean
            for alpha in np.unique(alphas):
                columns = alphas == alpha
                solved = self._system.at(alpha).inner(phi.T)
                h = np.square(s[rows]) * (np.sum(phi.T * solved, axis=0) + self._sums.share)
                left = np.where(1.0 - h > len(phi.T) * EPS, 1.0 - h, np.nan)[:, None]
                least = min(least, np.min(1.0 - h))
                residuals = Y[rows, columns] - fitted[:, columns]
                out[rows, columns] = Y[rows, columns] - residuals / left
        if least < DIGITS:
            warnings.warn(
                f"a leverage is within {max(least, 0.0):.1g} of 1, so that leaving that row out "
                "cannot be told from here with any digits to spare (NaN where there are none). "
                "Take a larger alpha, fewer features, or KernelRidge, which loses no digits.",
                LinAlgWarning,
                stacklevel=2,
            )
        return out[:, 0] if self._single else out

    # -- the passes over the rows ------------------------------------------------------------------

    def _read(self, X, y, sample_weight, first: bool):
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=first
        )
        Y, s = y.reshape(len(y), -1).astype(float), np.sqrt(read_weights(sample_weight, X))
        # Before any row is added.
        read_alphas(self.alphas, read_alpha(self.alpha, Y.shape[1]))
        if first:
            self._single = y.ndim == 1
        elif Y.shape[1] != self._moments.targets:
            raise ValueError(
                f"y has {Y.shape[1]} columns, but in the rows fitted before it had "
                f"{self._moments.targets}."
            )
        return X, Y, s

    def _begin(self, X, targets: int):
        self.features_ = self._features(len(X)).fit(X)
        size = len(self.features_.get_feature_names_out())
        self._moments = Moments(size, targets, self.fit_intercept)

    def _add(self, X, Y, s):
        # Rows that weigh nothing take no part.
        used = s > 0.0
        X, Y, s = X[used], Y[used], s[used]
        for rows, phi in self._phi(X):
            self._moments.add(phi, Y[rows], s[rows])
        return self._solve(X, Y, s)

    def _phi(self, X):
        """(rows, their features), block by block."""
        for rows in blocks(len(X), len(self._moments.total)):
            yield rows, self.features_.transform(X[rows])

    def _solve(self, X, Y, s):
        alpha = read_alpha(self.alpha, Y.shape[1])
        alphas = read_alphas(self.alphas, alpha)
        forget_path(self)
        self._sums = self._moments.around_means()
        if isinstance(alpha, str):
            spectrum = Spectrum.of(self._sums.S.copy(), None)
            alpha = self._choose(spectrum, alpha, alphas, X, Y, s)
            self._system = spectrum.at(alpha)
        elif np.ndim(alpha) > 0:
            self._system = Spectrum.of(self._sums.S.copy(), None).at(alpha)
        else:
            self._system = self._factored(alpha)
        self.alpha_ = alpha
        w = self._system.inner(self._sums.P)
        level = self._sums.mean_y - self._sums.mean @ w
        self.coef_ = w[:, 0] if self._single else w
        self.intercept_ = float(level[0]) if self._single else level
        return self

    def _factored(self, alpha):
        try:
            return Cholesky(self._sums.S.copy(), None, alpha)
        except np.linalg.LinAlgError:
            # Of several solutions the shortest.
            return Spectrum.of(self._sums.S.copy(), None).at(alpha)

    def _choose(self, spectrum, criterion, alphas, X, Y, s):
        """The best alpha; the path is kept."""
        if alphas is None:
            rows = self._sums.rows
            alphas = default_alphas(np.trace(self._sums.S) / rows, rows)
        path = self._sums.path(spectrum, alphas)
        if criterion == "loo":
            path = path._replace(loo=self._loo_path(spectrum, alphas, X, Y, s))
        alpha = path.best(criterion, self.alpha_per_target and not self._single)
        path.keep_in(self, self._single, alpha)
        return alpha

    def _loo_path(self, spectrum, alphas, X, Y, s):
        """The mean squared leave-one-out residual by alpha, in a second pass over the rows."""
        weights = spectrum.at(alphas).weights
        P = spectrum.V.T @ self._sums.P
        total = np.zeros((len(alphas), Y.shape[1]))
        for rows, phi in self._phi(X):
            phi -= self._sums.mean
            Z, T = phi @ spectrum.V, Y[rows] - self._sums.mean_y
            w = np.square(s[rows])[:, None]
            left = 1.0 - w * (np.square(Z) @ weights + self._sums.share)
            sound = left > len(P) * EPS
            for j, t in enumerate(T.T):
                residuals = t[:, None] - Z @ (weights * P[:, [j]])
                residuals = np.divide(residuals, left, out=np.full_like(left, np.inf), where=sound)
                total[:, j] += np.sum(w * np.square(residuals), axis=0)
        return total / self._sums.weight


class NystromRidge(_ReducedRidge):
    """Kernel ridge regression with f in the span of k(., z_j) for m landmarks z.

    f(x) = phi(x)'w + b with the Nystrom features phi of the landmarks (`kernels.NystromFeatures`),
    and sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2 least, where |w| is the norm of f in the space of
    the kernel. With all points as landmarks it is `KernelRidge`. It takes O(n m^2) time, and room
    for m x m sums and one block of features, whatever n.

    kernel: a positive definite kernel of numbers, None for RBF(). landmarks: their number m, at
    most n, by default 100 or n if that is less; or the landmarks themselves, (m, d). selection:
    "kmeans", "random", "leverage" or "greedy", as in NystromFeatures. alpha, alphas,
    alpha_per_target, fit_intercept: as in `KernelRidge`.

    After `fit`: `features_`, `coef_` (m,) or (m, k), `intercept_`, `alpha_`; where alpha was chosen
    `alphas_`, `gcv_path_`, `evidence_path_`, and `loo_path_` if "loo" chose it.

    Williams and Seeger (2001); Rudi, Camoriano and Rosasco (2015).
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


class FourierRidge(_ReducedRidge):
    """Kernel ridge regression with random Fourier features of a stationary kernel.

    f(x) = phi(x)'w + b, phi(x)'phi(z) ~ k(x, z) (`kernels.RandomFourierFeatures`), and
    sum_i w_i (y_i - f(x_i))^2 + alpha |w|^2 least. It nears `KernelRidge` as 1 / sqrt(m), and takes
    O(n m^2) time, and room for m x m sums and one block of features, whatever n.

    kernel: RBF, Matern, RationalQuadratic and others with a spectral density, their sums and
    products, None for RBF(); ValueError says which part of a kernel has none. n_components: the
    number of features m. orthogonal: draw frequencies at right angles, which lowers the error.
    alpha, alphas, alpha_per_target, fit_intercept: as in `KernelRidge`.

    After `fit`: as `NystromRidge`.

    Rahimi and Recht (2007); Yu et al. (2016) for orthogonal frequencies.
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
