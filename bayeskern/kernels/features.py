"""Finite feature maps phi with phi(x)'phi(z) ~ k(x, z), as scikit-learn transformers."""

from __future__ import annotations

import jax
import numpy as np
from scipy.linalg.blas import dtrmm
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels import spectral_density
from bayeskern.kernels.approximation.landmarks import SELECTIONS, kmeans
from bayeskern.kernels.estimator import KernelEstimator, blocks, gram
from bayeskern.kernels.stationary import RBF


class _Features(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """What the three share: points are read, and named columns found, as scikit-learn does it."""

    def fit(self, X, y=None):
        """Learn the map from points X: (n, d) or a data frame. y is not looked at."""
        X = validate_data(self, X, dtype=np.float64)
        self._fit(X, validation.seed(self.seed))
        return self

    def transform(self, X) -> np.ndarray:
        """Features phi(X): (n, m) for points X: (n, d), with the columns that `fit` saw."""
        check_is_fitted(self)
        return self._features(validate_data(self, X, dtype=np.float64, reset=False))

    def _points(self, name, points, X) -> np.ndarray:
        """Given points, with the columns of X in their order."""
        names = getattr(self, "feature_names_in_", None)
        points = np.asarray(validation.inputs(points, name, names)[0])
        if points.shape[1] != X.shape[1]:
            raise ValueError(
                f"{name} have {points.shape[1]} columns but X has {X.shape[1]}; they must match."
            )
        return points


class RandomFourierFeatures(_Features):
    """phi(x) = sqrt(v / h) [cos w_1'x, ..., cos w_h'x, sin w_1'x, ..., sin w_h'x], w from k.

    The frequencies w are drawn from the kernel's spectral density, and v = k(x, x). Then
    phi(x)'phi(z) is k(x, z) on average, with an error of order v / sqrt(h), and phi(x)'phi(x) is v
    exactly. In a sum each term has frequencies of its own, in proportion to its variance.

    kernel: RBF, Matern, RationalQuadratic, InverseMultiquadric, SpectralMixture, Periodic, Cosine,
    and what the algebra makes of them; n_components: the number of features m = 2 h (an
    odd number is rounded up); orthogonal: draw Gaussian directions at right angles, which lowers
    the error. `fit` sets `frequencies_` (h, d) and `amplitudes_` (h,), and raises ValueError if a
    part of the kernel has no spectral density.

    Rahimi and Recht (2007); Sutherland and Schneider (2015) for pairs of cosine and sine instead
    of a random phase; Yu et al. (2016) for orthogonal frequencies.
    """

    def __init__(self, kernel, n_components=100, orthogonal=False, seed=0):
        self.kernel = kernel
        self.n_components = n_components
        self.orthogonal = orthogonal
        self.seed = seed

    def _fit(self, X, seed):
        d = X.shape[1]
        terms = [term for _, term in self._concrete_kernel(positive_definite=False).terms_of_sum()]
        pairs = (validation.positive_integer(self.n_components, "n_components") + 1) // 2
        if pairs < len(terms):
            raise ValueError(
                f"n_components={self.n_components} is too few: the kernel has {len(terms)} terms, "
                f"and a cosine and a sine for each make {2 * len(terms)}."
            )
        keys = jax.random.split(jax.random.key(seed), len(terms))
        variances = np.array([spectral_density.variance(term, d) for term in terms])
        counts = _share(pairs, variances)
        self.frequencies_ = np.concatenate(
            [
                np.asarray(term.frequencies(key, int(count), d, self.orthogonal))
                for term, key, count in zip(terms, keys, counts, strict=True)
            ]
        )
        self.amplitudes_ = np.repeat(np.sqrt(variances / counts), counts)
        self._n_features_out = 2 * pairs

    def _features(self, X):
        features = np.empty((X.shape[0], self._n_features_out))
        cosines, sines = np.split(features, 2, axis=1)
        # In place: nothing else of this size is made.
        angles = np.matmul(X, self.frequencies_.T, out=cosines)
        np.sin(angles, out=sines)
        np.cos(angles, out=cosines)
        sines *= self.amplitudes_
        cosines *= self.amplitudes_
        return features


class NystromFeatures(_Features):
    """phi(x) = k(x, Z) N for landmarks Z, with N N' = k(Z, Z)^+.

    phi(x)'phi(z) = k(x, Z) k(Z, Z)^+ k(Z, z), which is k(x, z) where x or z is a landmark and
    nowhere more than k(x, x) at x = z. Eigenvalues below m eps times the largest are dropped.

    kernel: any positive definite kernel of numbers. n_components: the number of landmarks m, at
    most as many as there are distinct points, or the landmarks themselves (m, d). selection:
    "kmeans" (centres of X), or rows of X: "random", "leverage" (at random, those more often that
    others say little about) or "greedy" (each the one that those before say least about). `fit`
    sets `landmarks_` (m, d) and `normalization_` (m, features). White noise has no features.

    Williams and Seeger (2001); `kernels.landmarks` has the sources of the selections.
    """

    def __init__(self, kernel, n_components=100, selection="kmeans", seed=0):
        self.kernel = kernel
        self.n_components = n_components
        self.selection = selection
        self.seed = seed

    def _fit(self, X, seed):
        self.kernel_ = self._concrete_kernel()
        select = SELECTIONS[validation.one_of("selection", self.selection, SELECTIONS)]
        if np.ndim(self.n_components) == 0:
            wanted = validation.positive_integer(self.n_components, "n_components")
            self.landmarks_ = select(self.kernel_, X, wanted, seed)
        else:
            self.landmarks_ = self._points("n_components", self.n_components, X)
        # Between two sets, even equal ones, there is no white noise.
        among = gram(self.kernel_, self.landmarks_, self.landmarks_)
        values, vectors = np.linalg.eigh((among + among.T) / 2.0)
        if not np.any(values > 0.0):
            raise ValueError(
                f"{self.kernel_!r} is 0 at all landmarks, so there are no features. Scale or shift "
                "the points, or add Constant() to the kernel."
            )
        kept = values > len(values) * np.finfo(float).eps * max(values[-1], 0.0)
        # Any rotation of features will do, and one of them makes this lower triangular.
        self.normalization_ = np.linalg.qr((vectors[:, kept] / np.sqrt(values[kept])).T, "r").T
        self._n_features_out = self.normalization_.shape[1]

    def _features(self, X):
        features = np.empty((X.shape[0], self._n_features_out))
        for rows in blocks(len(X), len(self.landmarks_)):
            between = gram(self.kernel_, X[rows], self.landmarks_)
            features[rows] = self._normalised(between)
        return features

    def _normalised(self, between):
        """k(x, Z) times the normalisation, in the place of k(x, Z) where that can be."""
        N = self.normalization_
        if N.shape[0] > N.shape[1]:
            return between @ N
        # Half the work of a full product. Rows in C's order are columns in LAPACK's.
        return dtrmm(1.0, N, between.T, trans_a=True, lower=True, overwrite_b=True).T


class RadialBasis(_Features):
    """phi_j(x) = exp(-|x - c_j|^2 / (2 lengthscale^2)), bumps round centers c.

    centers: the points themselves (m, d), or their number, for the centres that k-means finds in
    X (at most as many as there are distinct points); lengthscale: the width of the bumps in the
    units of the inputs, a number or any other lengthscale of RBF. `fit` sets `centers_` (m, d).
    """

    def __init__(self, centers, lengthscale=1.0, seed=0):
        self.centers = centers
        self.lengthscale = lengthscale
        self.seed = seed

    def _fit(self, X, seed):
        self.kernel_ = RBF(self.lengthscale).require_concrete()
        if np.ndim(self.centers) == 0:
            wanted = validation.positive_integer(self.centers, "centers")
            self.centers_ = kmeans(self.kernel_, X, wanted, seed)
        else:
            self.centers_ = self._points("centers", self.centers, X)
        self._n_features_out = len(self.centers_)

    def _features(self, X):
        return gram(self.kernel_, X, self.centers_)


def _share(pairs: int, variances: np.ndarray) -> np.ndarray:
    """Divide so many pairs among terms: one each, the rest in proportion to their variances.

    That is where they lower the error most, since the error of a term with n pairs is of order
    v / sqrt(n) (Neyman 1934).
    """
    total = np.sum(variances)
    portions = variances / total if total > 0.0 else np.full(len(variances), 1 / len(variances))
    # Rounding the running total keeps the sum exact.
    ends = np.rint(np.cumsum((pairs - len(variances)) * portions)).astype(int)
    ends[-1] = pairs - len(variances)
    return 1 + np.diff(ends, prepend=0)
