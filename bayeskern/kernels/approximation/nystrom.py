"""Nystrom features: low-rank approximation of a kernel from landmarks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dtrmm  # pyright: ignore[reportAttributeAccessIssue]

from bayeskern.core import validation
from bayeskern.kernels.approximation.base import FeatureTransformer
from bayeskern.kernels.approximation.landmarks import SELECTIONS
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import blocks, gram


class NystromFeatures(FeatureTransformer, KernelEstimator):
    """Nystrom features phi(x) = k(x, Z) N for landmarks Z.

    N N' is the pseudo-inverse of k(Z, Z), so phi(x)'phi(z) = k(x, Z) k(Z, Z)^+ k(Z, z). This equals
    k(x, z) if x or z is a landmark, and phi(x)'phi(x) never exceeds k(x, x). Eigenvalues of k(Z, Z)
    below m eps times the largest are dropped. White noise has no features.

    Args:
        kernel: A positive definite kernel whose hyperparameters are numbers.
        n_components: Number of landmarks m, or the landmarks themselves, shape (m, d). Fewer are
            used if X has fewer than m distinct points ("random": fewer than m rows).
        selection: Selection of the landmarks. "kmeans": centers of k-means on X. "random": rows of
            X, all equally likely. "leverage": rows of X, with probabilities proportional to their
            ridge leverage scores. "greedy": rows of X, each with the largest variance given the
            previously selected rows (pivoted Cholesky).
        seed: A whole number from 0 to 2**32 - 1, for the selection.

    Attributes:
        landmarks_: The landmarks Z, shape (m, d).
        normalization_: The matrix N, shape (m, number of features).

    Raises:
        TypeError: A hyperparameter is still a distribution or free (raised by `fit`).
        ValueError: The kernel is not positive definite, or is 0 at all landmarks (raised by `fit`).

    References:
        Williams and Seeger (2001), "Using the Nystrom method to speed up kernel machines". Kumar,
        Mohri and Talwalkar (2012) compare methods to select landmarks.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.kernels import RBF, NystromFeatures
        >>> X = np.linspace(0.0, 1.0, 50)[:, None]
        >>> phi = NystromFeatures(RBF(), n_components=8).fit_transform(X)
        >>> phi.shape
        (50, 8)
        >>> error = np.abs(phi @ phi.T - RBF()(X)).max()
        >>> bool(error < 1e-6)
        True
    """

    def __init__(
        self,
        kernel: Kernel,
        n_components: int | ArrayLike = 100,
        selection: str = "kmeans",
        seed: int = 0,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.selection = selection
        self.seed = seed

    def _fit(self, X, seed):
        self.kernel_ = self._concrete_kernel()
        select = SELECTIONS[validation.one_of("selection", self.selection, SELECTIONS)]
        if np.ndim(self.n_components) == 0:
            m = validation.positive_integer(self.n_components, "n_components")
            self.landmarks_ = select(self.kernel_, X, m, seed)
        else:
            self.landmarks_ = self._read_centers("n_components", self.n_components, X)
        # k(Z, Z), not k(Z): the features contain no white noise.
        K = gram(self.kernel_, self.landmarks_, self.landmarks_)
        eigenvalues, V = np.linalg.eigh((K + K.T) / 2.0)
        if not np.any(eigenvalues > 0.0):
            raise ValueError(
                f"{self.kernel_!r} is 0 at all landmarks, so there are no features. Scale or shift "
                "the points, or add Constant() to the kernel."
            )
        rounding = len(eigenvalues) * np.finfo(float).eps * max(eigenvalues[-1], 0.0)
        kept = eigenvalues > rounding
        # Features are determined up to a rotation; this rotation makes N lower triangular.
        self.normalization_ = np.linalg.qr((V[:, kept] / np.sqrt(eigenvalues[kept])).T, "r").T
        self._n_features_out = self.normalization_.shape[1]

    def _features(self, X):
        features = np.empty((X.shape[0], self._n_features_out))
        for rows in blocks(len(X), len(self.landmarks_)):
            features[rows] = self._normalize(gram(self.kernel_, X[rows], self.landmarks_))
        return features

    def _normalize(self, K_XZ):
        """k(X, Z) N; overwrites k(X, Z) if N is square."""
        N = self.normalization_
        if N.shape[0] > N.shape[1]:
            return K_XZ @ N
        # Half the work of a full product. The transpose is in Fortran order, as BLAS expects.
        return dtrmm(1.0, N, K_XZ.T, trans_a=True, lower=True, overwrite_b=True).T
