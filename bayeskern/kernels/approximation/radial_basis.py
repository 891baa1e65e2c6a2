"""Gaussian radial basis functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.kernels.approximation.base import FeatureTransformer
from bayeskern.kernels.approximation.landmarks import kmeans
from bayeskern.kernels.families.rbf import RBF
from bayeskern.kernels.gram_matrix import gram


class RadialBasis(FeatureTransformer):
    """Gaussian radial basis functions, exp(-|x - c_j|^2 / (2 lengthscale^2)).

    Args:
        centers: Centers c, shape (m, d), or their number m, to compute them from X by k-means
            (fewer if X has fewer than m distinct points).
        lengthscale: Width of the bumps in the units of the inputs: a number, a vector (d,) or
            a lower triangular matrix (d, d), as for `RBF`.
        seed: A whole number from 0 to 2**32 - 1, for k-means.

    Attributes:
        centers_: The centers, shape (m, d).

    References:
        Bishop (2006), "Pattern recognition and machine learning", section 3.1.

    Examples:
        >>> from bayeskern.kernels import RadialBasis
        >>> RadialBasis([[0.0], [1.0]], lengthscale=0.5).fit_transform([[0.0], [0.5]]).round(3)
        array([[1.   , 0.135],
               [0.607, 0.607]])
    """

    def __init__(self, centers: int | ArrayLike, lengthscale: ArrayLike = 1.0, seed: int = 0):
        self.centers = centers
        self.lengthscale = lengthscale
        self.seed = seed

    def _fit(self, X, seed):
        self.kernel_ = RBF(self.lengthscale).require_concrete()
        if np.ndim(self.centers) == 0:
            m = validation.positive_integer(self.centers, "centers")
            self.centers_ = kmeans(self.kernel_, X, m, seed)
        else:
            self.centers_ = self._read_centers("centers", self.centers, X)
        self._n_features_out = len(self.centers_)

    def _features(self, X):
        return gram(self.kernel_, X, self.centers_)
