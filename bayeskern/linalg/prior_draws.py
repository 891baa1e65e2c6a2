"""Draws of a prior as functions, which can be evaluated at any number of points."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.kernels import spectral_density
from bayeskern.kernels.base import Kernel
from bayeskern.linalg.factor import AnyArray

# Frequencies of each term: prior covariances have an error of about 1 / sqrt(1,000) of the
# variance, and posterior sds given 500 points in two dimensions one of 5 to 10 %.
TERM_FREQUENCIES = 1_000


class TermDraws(NamedTuple):
    """Draws phi(x)'w of one term of a kernel, with w ~ N(0, I).

    phi are the cosines and sines of random frequencies of a stationary kernel, and otherwise the
    features of a kernel that has finitely many. Rahimi and Recht (2007), "Random features for
    large-scale kernel machines"; Yu and others (2016), "Orthogonal random features".

    Attributes:
        kernel: The term.
        frequencies: Random frequencies, (h, d); None for the features of the kernel.
        weights: w, (features, size).
    """

    kernel: Kernel
    frequencies: jax.Array | None
    weights: jax.Array

    @classmethod
    def of(cls, kernel: Kernel, d: int, key: jax.Array, size: int) -> TermDraws:
        """Draws of a term at points with d columns."""
        key_frequencies, key_weights = jax.random.split(key)
        try:
            frequencies = kernel.frequencies(key_frequencies, TERM_FREQUENCIES, d, orthogonal=True)
        except ValueError:  # It is not stationary, but may have finitely many features.
            if kernel.series():
                raise
            frequencies = None
        draws = cls(kernel, frequencies, jnp.zeros((0, size)))
        features = eqx.filter_eval_shape(draws.features, jnp.zeros((1, d)))
        weights = jax.random.normal(key_weights, (features.shape[1], size))
        return draws._replace(weights=weights)

    def features(self, X: AnyArray) -> jax.Array:
        """phi(x) of each row x of X (m, d)."""
        if self.frequencies is None:
            return self.kernel.features(jnp.asarray(X), None)
        angles = X @ self.frequencies.T
        variance = spectral_density.variance(self.kernel, X.shape[1])
        waves = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1)
        return jnp.sqrt(variance / len(self.frequencies)) * waves

    def at(self, X: AnyArray) -> jax.Array:
        """Values at points X (m, d): (m, size)."""
        return self.features(X) @ self.weights


def prior_draws(kernel: Kernel, d: int, key: jax.Array, size: int) -> list[TermDraws]:
    """Draws of each term of a kernel at points with d columns; their sums are draws of f.

    Raises:
        ValueError: A term has infinitely many features and no spectral density.
    """
    terms = [term for _, term in kernel.terms_of_sum()]
    keys = jax.random.split(key, len(terms))
    return [TermDraws.of(term, d, key, size) for term, key in zip(terms, keys, strict=True)]
