"""Random Fourier features of stationary kernels."""

from __future__ import annotations

import jax
import numpy as np

from bayeskern.core import validation
from bayeskern.kernels import spectral_density
from bayeskern.kernels.approximation.base import FeatureTransformer
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator


class RandomFourierFeatures(FeatureTransformer, KernelEstimator):
    """Cosines and sines at frequencies drawn from the spectral density of a kernel.

    phi(x) = sqrt(v / h) [cos w_1'x, ..., cos w_h'x, sin w_1'x, ..., sin w_h'x], with v = k(x, x).
    Then phi(x)'phi(z) has the expectation k(x, z) and an error of order v / sqrt(h), and
    phi(x)'phi(x) is exactly v. In a sum each term has its own frequencies, more of them the larger
    its variance.

    Args:
        kernel: RBF, Matern, PowerExponential, RationalQuadratic, InverseMultiquadric,
            SpectralMixture, Periodic or Cosine, or sums, products, powers, multiples and selections
            of columns of them.
        n_components: Number of features m = 2 h; an odd number is rounded up.
        orthogonal: Draw orthogonal Gaussian directions, which reduces the error.
        seed: A whole number from 0 to 2**32 - 1, for the frequencies.

    Attributes:
        frequencies_: The frequencies w, shape (h, d), in radians per unit of the inputs.
        amplitudes_: Factors of the cosines and sines, shape (h,).

    Raises:
        TypeError: A hyperparameter is still a distribution or free (raised by `fit`).
        ValueError: A part of the kernel has no spectral density, or there are too few features for
            the terms of a sum (raised by `fit`).

    References:
        Rahimi and Recht (2007), "Random features for large-scale kernel machines". Sutherland and
        Schneider (2015), "On the error of random Fourier features", for pairs of cosine and sine
        instead of a random phase. Yu et al. (2016), "Orthogonal random features".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.kernels import RBF, RandomFourierFeatures
        >>> X = np.array([[0.0], [1.0]])
        >>> phi = RandomFourierFeatures(RBF(), n_components=2000).fit_transform(X)
        >>> phi.shape
        (2, 2000)
        >>> error = np.abs(phi @ phi.T - RBF()(X)).max()
        >>> bool(error < 0.1)
        True
    """

    def __init__(
        self, kernel: Kernel, n_components: int = 100, orthogonal: bool = False, seed: int = 0
    ):
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
                f"n_components={self.n_components} is too small: the kernel has {len(terms)} "
                f"terms, and a cosine and a sine for each are {2 * len(terms)} features."
            )
        keys = jax.random.split(jax.random.key(seed), len(terms))
        variances = np.array([spectral_density.variance(term, d) for term in terms])
        counts = _pairs_per_term(pairs, variances)
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
        # In place, to allocate no further array of this size.
        angles = np.matmul(X, self.frequencies_.T, out=cosines)
        np.sin(angles, out=sines)
        np.cos(angles, out=cosines)
        sines *= self.amplitudes_
        cosines *= self.amplitudes_
        return features


def _pairs_per_term(pairs: int, variances: np.ndarray) -> np.ndarray:
    """Number of cosine-sine pairs of each term: one plus a share of the remaining pairs.

    Shares proportional to the variances v minimise the error, because a term with n pairs has an
    error of order v / sqrt(n) (Neyman 1934).
    """
    total = np.sum(variances)
    proportions = variances / total if total > 0.0 else np.full(len(variances), 1 / len(variances))
    # Rounding the cumulative sums, not the shares, keeps the total exact.
    ends = np.rint(np.cumsum((pairs - len(variances)) * proportions)).astype(int)
    ends[-1] = pairs - len(variances)
    return 1 + np.diff(ends, prepend=0)
