"""Nearest neighbours by distance in a kernel's feature space or by another metric.

|phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z); Yu, Ji and Zhang (2002).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from bayeskern.core import validation
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram, require_finite


class _KernelNeighbors(KernelEstimator):
    n_neighbors: int
    weights: str
    metric: str
    p: float

    def _store(self, X: np.ndarray) -> None:
        validation.one_of("weights", self.weights, ["uniform", "distance"])
        metrics = ["kernel", "euclidean", "manhattan", "chebyshev", "minkowski"]
        validation.one_of("metric", self.metric, metrics)
        p = np.inf if self.p == np.inf else validation.positive(self.p, "p")
        if p < 1.0:
            raise ValueError(
                f"p must be a number of at least 1, or infinite, got {self.p!r}: below 1 "
                "Minkowski's distance violates the triangle inequality."
            )
        n_neighbors = validation.positive_integer(self.n_neighbors, "n_neighbors")
        if n_neighbors > len(X):
            raise ValueError(
                f"n_neighbors={n_neighbors} is more than the number of points, n_samples = "
                f"{len(X)}. Use fewer neighbours, or more points."
            )
        if self.metric != "kernel" and self.kernel is not None:
            raise ValueError(
                f"metric={self.metric!r} is a distance without a kernel, but "
                f"kernel={self.kernel!r} was given. Omit the kernel, or use metric='kernel'."
            )
        if self.metric != "minkowski" and p != 2.0:
            raise ValueError(
                f"p={self.p!r} is the exponent of metric='minkowski', but metric={self.metric!r} "
                "was given. Omit p, or use metric='minkowski'."
            )
        self.kernel_ = self._concrete_kernel() if self.metric == "kernel" else None
        # SciPy's name, and its options.
        self._metric = {"manhattan": "cityblock"}.get(self.metric, self.metric)
        self._metric_options = {"p": p} if self.metric == "minkowski" else {}
        self._weights = self.weights
        self.X_fit_, self._n_neighbors = X, n_neighbors

    def kneighbors(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest training points.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Sorted distances and the indices of the training points, each (m, n_neighbors). Training
            points at equal distances are sorted by index.

        Warns:
            UserWarning: If all training points are equally far from a point in feature space, up to
                rounding.
        """
        points = self._read_points(X)
        parts, tied_points = [], 0
        for rows in blocks(len(points), len(self.X_fit_)):
            if self.kernel_ is None:
                distances = cdist(points[rows], self.X_fit_, self._metric, **self._metric_options)  # pyright: ignore[reportCallIssue, reportArgumentType]
                if not np.all(np.isfinite(distances)):
                    power = f" and p={self.p!r}" if self.metric == "minkowski" else ""
                    largest = max(np.abs(points[rows]).max(), np.abs(self.X_fit_).max())
                    raise ValueError(
                        f"X has numbers up to {largest:.3g} in size, whose distances are too large "
                        f"for floating-point numbers with metric={self.metric!r}{power}. Scale the "
                        "columns of X, or use metric='chebyshev', which takes no powers and sums."
                    )
                parts.append(_smallest(distances, self._n_neighbors))
            else:
                distances, indices, ties = self._nearest_by_kernel(self.kernel_, points[rows])
                parts.append((distances, indices))
                tied_points += ties
        if tied_points and len(self.X_fit_) > 1:
            warnings.warn(
                f"{tied_points} of {len(points)} points are equally far from all training points, "
                "up to rounding, so their neighbours are arbitrary. Use a lengthscale comparable "
                "to the distances, or scale the columns of X.",
                UserWarning,
                stacklevel=4,
            )
        distances, indices = zip(*parts, strict=True)
        return np.concatenate(distances), np.concatenate(indices)

    def _nearest_by_kernel(self, kernel: Kernel, X) -> tuple[np.ndarray, np.ndarray, int]:
        """Distances, indices, and the number of points with all distances equal."""
        # No sum below exceeds four times the largest variance.
        fit_variances, variances = (
            0.25 * require_finite(kernel, np.asarray(4.0 * kernel.diag(A)))
            for A in (self.X_fit_, X)
        )
        # The squared distance is k(x, x) + common + 2 D. Neighbours are compared by D, because a
        # small k(x, z) would be lost beside k(x, x) + common.
        common = np.min(fit_variances)
        # Squared distances up to this fraction of k(x, x) + k(z, z) are rounding errors of 0.
        rounding = 64 * np.finfo(float).eps
        D = 0.5 * (fit_variances - common) - gram(kernel, X, self.X_fit_)
        ties = np.sum(np.ptp(D, axis=1) <= rounding * (variances + np.max(fit_variances)))
        reduced, indices = _smallest(D, self._n_neighbors)
        squares = variances[:, None] + common + 2.0 * reduced
        sizes = variances[:, None] + fit_variances[indices]
        return np.sqrt(np.where(squares <= rounding * sizes, 0.0, squares)), indices, int(ties)

    def _weighted_neighbors(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Weights (m, n_neighbors) that add up to 1, and the indices of the neighbours."""
        distances, indices = self.kneighbors(X)
        weights = np.ones_like(distances)
        if self._weights == "distance":
            coincident = distances == 0.0
            with np.errstate(divide="ignore"):
                inverse = 1.0 / distances
            weights = np.where(coincident.any(axis=1, keepdims=True), coincident, inverse)
        return weights / weights.sum(axis=1, keepdims=True), indices


@dataclass(eq=False, repr=False)
class KernelKNNRegressor(MultiOutputMixin, RegressorMixin, _KernelNeighbors):
    """The mean of y over the nearest neighbours in the feature space of a kernel.

    The squared distance is |phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z); `metric` names
    other distances.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers. None means `RBF()`,
            which orders neighbours as the Euclidean distance r does, unless exp(-r^2 / 2) rounds
            to 0 or 1. A warning is issued if all training points are equally far.
        n_neighbors: The number of neighbours, at most n.
        weights: "uniform", or "distance" for weights 1 / distance. If neighbours are at distance 0,
            only they count.
        metric: "kernel" for the distance in the feature space of the kernel; "euclidean";
            "manhattan", the sum of the absolute differences over the columns; "chebyshev", the
            largest absolute difference; or "minkowski", (sum_j |x_j - z_j|^p)^(1/p). For
            Mahalanobis's distance, take the kernel RBF(L) with the Cholesky factor L of the
            covariance of the columns.
        p: The exponent of metric="minkowski", at least 1: 1 is "manhattan", 2 "euclidean" and
            infinity "chebyshev".

    Attributes:
        kernel_: The kernel, or None with another metric.
        X_fit_: The training points, (n, d).
        y_fit_: The training targets, (n,) or (n, k).

    References:
        Yu, Ji and Zhang (2002), "Kernel nearest-neighbor algorithm".

    Examples:
        >>> from bayeskern.course import KernelKNNRegressor
        >>> neighbors = KernelKNNRegressor(n_neighbors=2).fit([[0], [1], [2], [3]], [0, 2, 4, 6])
        >>> neighbors.predict([[0.4], [2.6]])
        array([1., 5.])
    """

    kernel: Kernel | None = None
    n_neighbors: int = 5
    weights: str = "uniform"
    metric: str = "kernel"
    p: float = 2.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,) or (n, k).

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, or there are fewer points than neighbours.
        """
        points, targets = self._read_data(X, y, multi_output=True, y_numeric=True, copy=True)
        self._store(points)
        self.y_fit_ = targets.astype(float)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the mean of y over the neighbours.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Means, (m,) or (m, k).
        """
        weights, indices = self._weighted_neighbors(X)
        return np.einsum("mj,mj...->m...", weights, self.y_fit_[indices])


@dataclass(eq=False, repr=False)
class KernelKNNClassifier(ClassifierMixin, _KernelNeighbors):
    """The commonest class of the nearest neighbours in the feature space of a kernel.

    `metric` names other distances. If n_c of the n_neighbors neighbours are in class c, and there
    are C classes, the probability of class c is

        p_c = (n_c + pseudo_count) / (n_neighbors + C pseudo_count),

    the mean of a Dirichlet posterior whose prior counts each class `pseudo_count` times. With
    weights, n_c is n_neighbors times the weight of class c. In a tie, the farthest neighbours are
    dropped one by one until one class leads.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers. None means `RBF()`,
            which orders neighbours as the Euclidean distance r does, unless exp(-r^2 / 2) rounds
            to 0 or 1. A warning is issued if all training points are equally far.
        n_neighbors: The number of neighbours, at most n.
        weights: "uniform", or "distance" for weights 1 / distance. If neighbours are at distance 0,
            only they count.
        pseudo_count: The prior count of each class, 0 or more.
        metric: "kernel" for the distance in the feature space of the kernel; "euclidean";
            "manhattan", the sum of the absolute differences over the columns; "chebyshev", the
            largest absolute difference; or "minkowski", (sum_j |x_j - z_j|^p)^(1/p). For
            Mahalanobis's distance, take the kernel RBF(L) with the Cholesky factor L of the
            covariance of the columns.
        p: The exponent of metric="minkowski", at least 1: 1 is "manhattan", 2 "euclidean" and
            infinity "chebyshev".

    Attributes:
        classes_: The class labels, (classes,).
        kernel_: The kernel, or None with another metric.
        X_fit_: The training points, (n, d).
        codes_: The class of each training point, as an index into `classes_`, (n,).

    References:
        Yu, Ji and Zhang (2002), "Kernel nearest-neighbor algorithm".

    Examples:
        >>> from bayeskern.course import KernelKNNClassifier
        >>> X, y = [[0], [1], [2], [8], [9], [10]], ["a", "a", "a", "b", "b", "b"]
        >>> neighbors = KernelKNNClassifier(n_neighbors=3).fit(X, y)
        >>> neighbors.predict_proba([[0.5]]).round(2)
        array([[0.8, 0.2]])
    """

    kernel: Kernel | None = None
    n_neighbors: int = 5
    weights: str = "uniform"
    pseudo_count: float = 1.0
    metric: str = "kernel"
    p: float = 2.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Class labels, (n,).

        Returns:
            The estimator.

        Raises:
            ValueError: If the input is invalid, or there are fewer points than neighbours.
        """
        points, labels = self._read_data(X, y, copy=True)
        check_classification_targets(labels)
        self._pseudo_count = validation.positive(self.pseudo_count, "pseudo_count", zero=True)
        self._store(points)
        self.classes_, self.codes_ = np.unique(labels, return_inverse=True)
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict the probabilities of the classes.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Probabilities, (m, classes). In a tie, the probability of the predicted class is raised
            by one floating-point step, so that it is the largest.
        """
        weights, indices = self._weighted_neighbors(X)
        classes = np.eye(len(self.classes_))[self.codes_[indices]]
        # The weight of each class among the nearest 1, 2, ... neighbours: (m, count, classes).
        totals = np.cumsum(weights[:, :, None] * classes, axis=1)
        counts = self._n_neighbors * totals[:, -1]
        total = self._n_neighbors + len(self.classes_) * self._pseudo_count
        p = (counts + self._pseudo_count) / total
        leads = totals == np.max(totals, axis=2, keepdims=True)
        # The largest number of neighbours without a tie; it is 1 or more, as one neighbour has one
        # class.
        untied = np.sum(leads, axis=2) == 1
        count = self._n_neighbors - 1 - np.argmax(untied[:, ::-1], axis=1)
        rows = np.flatnonzero(np.sum(p == np.max(p, axis=1, keepdims=True), axis=1) > 1)
        leading = np.argmax(leads[rows, count[rows]], axis=1)
        p[rows, leading] = np.nextafter(p[rows, leading], np.inf)
        return p

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the commonest class; farther neighbours are dropped in a tie.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            Class labels, (m,).
        """
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


def _smallest(D: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The sorted smallest values in each row of D, and their columns: (m, count) each.

    Equal values are sorted by column.
    """
    columns = np.argsort(D, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(D, columns, axis=1), columns
