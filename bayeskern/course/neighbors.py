"""Nearest neighbours in the feature space of a kernel, or by another distance.

|phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z); Yu, Ji and Zhang (2002).
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram

# Squared distances up to this part of k(x, x) + k(z, z) are the rounding of 0.
ROUNDING = 64 * np.finfo(float).eps


class _KernelNeighbors(KernelEstimator):
    def _store(self, X):
        validation.one_of("weights", self.weights, _WEIGHTS)
        validation.one_of("metric", self.metric, _METRICS)
        n_neighbors = validation.positive_integer(self.n_neighbors, "n_neighbors")
        if n_neighbors > len(X):
            raise ValueError(
                f"n_neighbors={n_neighbors} is more than there are points: n_samples = {len(X)}. "
                f"Take at most {len(X)}, or give more points."
            )
        if self.metric != "kernel" and self.kernel is not None:
            raise ValueError(
                f"metric={self.metric!r} is a distance without a kernel, but "
                f"kernel={self.kernel!r} is given. Leave it out, or take metric='kernel'."
            )
        self._metric = _METRICS[self.metric]
        self.kernel_ = self._concrete_kernel() if self._metric is None else None
        self.X_fit_, self._n_neighbors = X, n_neighbors
        self._weights_of = _WEIGHTS[self.weights]

    def kneighbors(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest training points.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Distances by the metric, rising, and the indices of the training points, each
            (m, n_neighbors). Of training points that are equally far, the first comes first.

        Warns:
            UserWarning: If all training points are equally far from a point in the feature space of
                the kernel, to rounding.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if self.kernel_ is None:
            nearest = [
                _smallest(cdist(X[rows], self.X_fit_, self._metric), self._n_neighbors)
                for rows in blocks(len(X), len(self.X_fit_))
            ]
            return _joined(nearest)
        return self._nearest_in_feature_space(X)

    def _nearest_in_feature_space(self, X):
        fit_variances, variances = (np.asarray(self.kernel_.diag(A)) for A in (self.X_fit_, X))
        # The order leaves out what all have in common: small values of k would drown in it.
        common = np.min(fit_variances)
        nearest, undecided = [], 0
        for rows in blocks(len(X), len(self.X_fit_)):
            D = 0.5 * (fit_variances - common) - gram(self.kernel_, X[rows], self.X_fit_)
            rounding = ROUNDING * (variances[rows] + np.max(fit_variances))
            undecided += np.sum(np.ptp(D, axis=1) <= rounding)
            nearest.append(_smallest(D, self._n_neighbors))
        if undecided and len(self.X_fit_) > 1:
            warnings.warn(
                f"{undecided} of {len(X)} points are as far from every training point as from any "
                "other, to rounding, so their neighbours are arbitrary. Take a lengthscale of the "
                "order of the distances, or scale the columns of X.",
                UserWarning,
                stacklevel=5,
            )
        reduced, indices = _joined(nearest)
        squares = variances[:, None] + common + 2.0 * reduced
        sizes = variances[:, None] + fit_variances[indices]
        return np.sqrt(np.where(squares <= ROUNDING * sizes, 0.0, squares)), indices

    def _weighted_neighbors(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Weights (m, n_neighbors) that add up to 1, and the indices of the neighbours."""
        distances, indices = self.kneighbors(X)
        weights = self._weights_of(distances)
        return weights / weights.sum(axis=1, keepdims=True), indices


class KernelKNNRegressor(MultiOutputMixin, RegressorMixin, _KernelNeighbors):
    """The mean of y over the nearest neighbours in the feature space of a kernel.

    Its squared distance is |phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z); `metric` names
    others.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers. None means `RBF()`,
            which orders neighbours as the Euclidean distance does as long as exp(-r^2 / 2) is
            neither 0 nor 1 to rounding; a warning says where no neighbour is nearer than another.
        n_neighbors: The number of neighbours, at most n.
        weights: "uniform", or "distance" for weights 1 / distance, in which a neighbour at distance
            0 is all that counts.
        metric: "kernel" for the distance in the feature space of the kernel; "euclidean";
            "manhattan", the sum of the absolute differences over the columns; or "chebyshev", the
            largest of them.

    Attributes:
        kernel_: The kernel, or None with another metric.
        X_fit_: The training points, (n, d).
        y_fit_: Their targets, (n,) or (n, k).

    References:
        Yu, Ji and Zhang (2002), "Kernel nearest-neighbor algorithm".

    Examples:
        >>> from bayeskern.ridge import KernelKNNRegressor
        >>> neighbors = KernelKNNRegressor(n_neighbors=2).fit([[0], [1], [2], [3]], [0, 2, 4, 6])
        >>> neighbors.predict([[0.4], [2.6]])
        array([1., 5.])
    """

    def __init__(self, kernel=None, n_neighbors=5, weights="uniform", metric="kernel"):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.metric = metric

    def fit(self, X, y):
        """Store the data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).

        Returns:
            The estimator.

        Raises:
            ValueError: For bad input, which includes fewer points than neighbours.
        """
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, copy=True
        )
        self._store(X)
        self.y_fit_ = y.astype(float)
        return self

    def predict(self, X) -> np.ndarray:
        """Predict the mean of y over the neighbours.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Means, (m,) or (m, k).
        """
        weights, indices = self._weighted_neighbors(X)
        return np.einsum("mj,mj...->m...", weights, self.y_fit_[indices])


class KernelKNNClassifier(ClassifierMixin, _KernelNeighbors):
    """The commonest class among the nearest neighbours in the feature space of a kernel.

    `metric` names other distances. With n_c of n_neighbors neighbours in class c out of C classes,
    its probability is

        p_c = (n_c + pseudo_count) / (n_neighbors + C pseudo_count),

    the mean of a Dirichlet posterior whose prior counts each class `pseudo_count` times. With
    weights, n_c is n_neighbors times the part of the weight that is in class c. Where several
    classes are the commonest, the one that leads among one neighbour fewer is predicted, and so on
    until one leads.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers. None means `RBF()`,
            which orders neighbours as the Euclidean distance does as long as exp(-r^2 / 2) is
            neither 0 nor 1 to rounding; a warning says where no neighbour is nearer than another.
        n_neighbors: The number of neighbours, at most n.
        weights: "uniform", or "distance" for weights 1 / distance, in which a neighbour at distance
            0 is all that counts.
        pseudo_count: The prior count of each class, 0 or more.
        metric: "kernel" for the distance in the feature space of the kernel; "euclidean";
            "manhattan", the sum of the absolute differences over the columns; or "chebyshev", the
            largest of them.

    Attributes:
        classes_: The class labels, (classes,).
        kernel_: The kernel, or None with another metric.
        X_fit_: The training points, (n, d).
        codes_: The index in `classes_` of the class of each training point, (n,).

    References:
        Yu, Ji and Zhang (2002), "Kernel nearest-neighbor algorithm".

    Examples:
        >>> from bayeskern.ridge import KernelKNNClassifier
        >>> X, y = [[0], [1], [2], [8], [9], [10]], ["a", "a", "a", "b", "b", "b"]
        >>> neighbors = KernelKNNClassifier(n_neighbors=3).fit(X, y)
        >>> neighbors.predict_proba([[0.5]]).round(2)
        array([[0.8, 0.2]])
    """

    def __init__(
        self, kernel=None, n_neighbors=5, weights="uniform", pseudo_count=1.0, metric="kernel"
    ):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.pseudo_count = pseudo_count
        self.metric = metric

    def fit(self, X, y):
        """Store the data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Class labels, (n,).

        Returns:
            The estimator.

        Raises:
            ValueError: For bad input, which includes fewer points than neighbours.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, copy=True)
        check_classification_targets(y)
        self._pseudo_count = validation.positive(self.pseudo_count, "pseudo_count", zero=True)
        self._store(X)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Predict the probabilities of the classes.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Probabilities, (m, classes). Of those that are equal and the largest, that of the class
            predicted is raised by one rounding, so that it is the largest.
        """
        weights, indices = self._weighted_neighbors(X)
        counts = self._n_neighbors * self._class_weights(weights, indices)
        total = self._n_neighbors + len(self.classes_) * self._pseudo_count
        p = (counts + self._pseudo_count) / total
        tied = np.flatnonzero(np.sum(_largest(p), axis=1) > 1)
        leading = self._leading(weights[tied], indices[tied])
        p[tied, leading] = np.nextafter(p[tied, leading], np.inf)
        return p

    def predict(self, X) -> np.ndarray:
        """Predict the commonest class; of several, the one that leads among fewer neighbours.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Class labels, (m,).
        """
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def _leading(self, weights, indices) -> np.ndarray:
        """The class, (m,), with the most weight among as many of the nearest as single one out."""
        leading, tied = np.empty(len(weights), int), np.arange(len(weights))
        # One neighbour alone is of one class, so that none is left in the end.
        for count in range(self._n_neighbors, 0, -1):
            leads = _largest(self._class_weights(weights[tied, :count], indices[tied, :count]))
            leading[tied] = np.argmax(leads, axis=1)
            tied = tied[np.sum(leads, axis=1) > 1]
        return leading

    def _class_weights(self, weights, indices) -> np.ndarray:
        """The weight of the neighbours in each class: (m, classes)."""
        m, classes = len(weights), len(self.classes_)
        cells = np.arange(m)[:, None] * classes + self.codes_[indices]
        totals = np.bincount(cells.ravel(), weights.ravel(), minlength=m * classes)
        return totals.reshape(m, classes)


def _largest(values):
    """Which values are the largest of their row."""
    return values == np.max(values, axis=1, keepdims=True)


def _uniform(distances):
    return np.ones_like(distances)


def _inverse(distances):
    coincident = distances == 0.0
    with np.errstate(divide="ignore"):
        return np.where(coincident.any(axis=1, keepdims=True), coincident, 1.0 / distances)


_WEIGHTS = {"uniform": _uniform, "distance": _inverse}
# The metrics by scikit-learn's names, and by SciPy's; the kernel's own is not among SciPy's.
_METRICS = {
    "kernel": None,
    "euclidean": "euclidean",
    "manhattan": "cityblock",
    "chebyshev": "chebyshev",
}


def _joined(nearest):
    """The values and columns of `_smallest` for all blocks, (m, count) each."""
    values, columns = zip(*nearest, strict=True)
    return np.concatenate(values), np.concatenate(columns)


def _smallest(D, count):
    """The smallest values in each row of D, rising, and their columns: (m, count) each.

    Of equal values the first comes first.
    """
    bound = np.partition(D, count - 1, axis=1)[:, count - 1 : count]
    below, at = bound > D, bound == D
    left = count - np.sum(below, axis=1, keepdims=True)
    kept = below | (at & (np.cumsum(at, axis=1) <= left))
    columns = np.nonzero(kept)[1].reshape(-1, count)
    values = np.take_along_axis(D, columns, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(columns, order, axis=1)
