"""Nearest neighbours in the feature space of a kernel, |phi(x) - phi(z)|^2 = k(x,x) + k(z,z) - 2k.

Yu, Ji and Zhang (2002).
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram

# Squared distances up to so much of k(x, x) + k(z, z) are the rounding of 0.
ROUNDING = 64 * np.finfo(float).eps


class _Neighbours(KernelEstimator):
    def _keep(self, X):
        validation.one_of("weights", self.weights, _WEIGHTS)
        wanted = validation.positive_integer(self.n_neighbors, "n_neighbors")
        if wanted > len(X):
            raise ValueError(
                f"n_neighbors={wanted} is more than there are points: n_samples = {len(X)}. "
                f"Take at most {len(X)}, or give more points."
            )
        self.kernel_ = self._concrete_kernel()
        self.X_fit_, self._wanted = X, wanted
        self._weigh = _WEIGHTS[self.weights]

    def kneighbors(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Distances in feature space to the nearest points, rising, and their indices.

        X: (m, d); both results: (m, n_neighbors).
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        of_fit, of_new = (np.asarray(self.kernel_.diag(points)) for points in (self.X_fit_, X))
        # What all have in common is left out of the order: small values of k would drown in it.
        common = np.min(of_fit)
        found, alike = [], 0
        for rows in blocks(len(X), len(self.X_fit_)):
            D = 0.5 * (of_fit - common) - gram(self.kernel_, X[rows], self.X_fit_)
            alike += np.sum(np.ptp(D, axis=1) <= ROUNDING * (of_new[rows] + np.max(of_fit)))
            found.append(_nearest(D, self._wanted))
        if alike and len(self.X_fit_) > 1:
            warnings.warn(
                f"{alike} of {len(X)} points are as far from every training point as from any "
                "other, to rounding, so their neighbours are arbitrary. Take a lengthscale of the "
                "order of the distances, or scale the columns of X.",
                UserWarning,
                stacklevel=4,
            )
        nearness, indices = (np.concatenate(parts) for parts in zip(*found, strict=True))
        sizes = of_new[:, None] + of_fit[indices]
        squares = of_new[:, None] + common + 2.0 * nearness
        return np.sqrt(np.where(squares <= ROUNDING * sizes, 0.0, squares)), indices

    def _weighed(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Weights (m, n_neighbors) that add up to 1, and the indices of the neighbours."""
        distances, indices = self.kneighbors(X)
        weights = self._weigh(distances)
        return weights / weights.sum(axis=1, keepdims=True), indices


class KernelKNNRegressor(MultiOutputMixin, RegressorMixin, _Neighbours):
    """The mean of y over the nearest neighbours in the feature space of a kernel.

    kernel: a positive definite kernel of numbers, None for RBF(), which orders neighbours as the
    Euclidean distance does as long as exp(-r^2 / 2) is neither 0 nor 1 to rounding (a warning says
    where no neighbour is nearer than another); n_neighbors: how many, at most n; weights:
    "uniform", or "distance" for means with weights 1 / distance, in which a neighbour at distance 0
    is all that counts.

    After `fit`: `kernel_`, `X_fit_`, `y_fit_`.
    """

    def __init__(self, kernel=None, n_neighbors=5, weights="uniform"):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X, y):
        """Keep points X: (n, d) or a data frame and y: (n,) or (n, k)."""
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, copy=True
        )
        self._keep(X)
        self.y_fit_ = y.astype(float)
        return self

    def predict(self, X) -> np.ndarray:
        """Means: (m,) or (m, k), for X: (m, d)."""
        weights, indices = self._weighed(X)
        return np.einsum("mj,mj...->m...", weights, self.y_fit_[indices])


class KernelKNNClassifier(ClassifierMixin, _Neighbours):
    """The commonest class among the nearest neighbours in the feature space of a kernel.

    Of n_c neighbours in class c among n_neighbors, with C classes, its probability is

        p_c = (n_c + pseudo_count) / (n_neighbors + C pseudo_count),

    the mean of a Dirichlet posterior whose prior counts each class so often. With weights
    n_c = n_neighbors times the share of the weight that is in class c.

    kernel, n_neighbors, weights: as of KernelKNNRegressor; pseudo_count: 0 or more.
    After `fit`: `classes_`, `kernel_`, `X_fit_`, `codes_`, the number of the class of each point.
    """

    def __init__(self, kernel=None, n_neighbors=5, weights="uniform", pseudo_count=1.0):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.pseudo_count = pseudo_count

    def fit(self, X, y):
        """Keep points X: (n, d) or a data frame and labels y: (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64, copy=True)
        check_classification_targets(y)
        self._pseudo = validation.positive(self.pseudo_count, "pseudo_count", zero=True)
        self._keep(X)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities p: (m, classes), for X: (m, d)."""
        weights, indices = self._weighed(X)
        classes = len(self.classes_)
        cells = np.arange(len(weights))[:, None] * classes + self.codes_[indices]
        shares = np.bincount(cells.ravel(), weights.ravel(), minlength=len(weights) * classes)
        counts = self._wanted * shares.reshape(-1, classes)
        return (counts + self._pseudo) / (self._wanted + classes * self._pseudo)

    def predict(self, X) -> np.ndarray:
        """The most probable class, (m,); the first of those that are equally so."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


def _uniform(distances):
    return np.ones_like(distances)


def _inverse(distances):
    at = distances == 0.0
    with np.errstate(divide="ignore"):
        return np.where(at.any(axis=1, keepdims=True), at, 1.0 / distances)


_WEIGHTS = {"uniform": _uniform, "distance": _inverse}


def _nearest(D, wanted):
    """The smallest numbers in each row of D, rising, and where they are: (m, wanted) each."""
    if wanted < D.shape[1]:
        indices = np.argpartition(D, wanted - 1, axis=1)[:, :wanted]
    else:
        indices = np.broadcast_to(np.arange(wanted), D.shape)
    found = np.take_along_axis(D, indices, axis=1)
    # Of two at the same distance the first comes first.
    order = np.lexsort((indices, found), axis=1)
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(indices, order, axis=1)
