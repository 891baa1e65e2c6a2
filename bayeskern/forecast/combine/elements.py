"""Future values as sums of elements, for many alternatives of the regressors.

Without noise, a transformed future value of one structure is

    f_i = g_i + sum_j b_j z_ij + sum_l h_l(z_il),

with a function of time g, coefficients b of linear effects, and non-linear effects h. The elements
g_i, b_j and h_l(z) have one joint normal distribution at each draw of the hyperparameters, whatever
the regressors are. The moments of any alternative are therefore sums of a few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.model.effects import Effects
from bayeskern.prediction.mixture import NOT_FACTORED


@dataclass(frozen=True, eq=False)
class SumDesign:
    """Elements and their weights for each future value, in A alternatives.

    Attributes:
        indices: Indices of the q elements of each value, (A, m, q).
        weights: Their weights, (A, m, q).
        values: Distinct values of the column of each non-linear effect, standardised.
        linear: Number of linear effects, whose coefficients follow the function of time.
    """

    indices: np.ndarray
    weights: np.ndarray
    values: tuple[np.ndarray, ...]
    linear: int

    @classmethod
    def from_columns(cls, effects: Effects, Z: np.ndarray) -> SumDesign:
        """Design of standardised columns Z (A, m, k)."""
        A, m, _ = Z.shape
        linear = np.broadcast_to(m + np.arange(effects.linear), (A, m, effects.linear))
        times = np.broadcast_to(np.arange(m)[:, None], (A, m, 1))
        indices, values, first = [times, linear], [], m + effects.linear
        for j in range(effects.linear, len(effects.columns)):
            distinct, inverse = np.unique(Z[..., j], return_inverse=True)
            indices.append(first + inverse.reshape(A, m, 1))
            values.append(distinct)
            first += len(distinct)
        weights = [np.ones((A, m, 1)), Z[..., : effects.linear], np.ones((A, m, len(values)))]
        indices, weights = np.concatenate(indices, -1), np.concatenate(weights, -1)
        return cls(indices, weights, tuple(values), effects.linear)

    def means(self, elements: np.ndarray) -> np.ndarray:
        """Means of all values, from the means of the elements (p,): (A, m)."""
        return np.sum(self.weights * elements[self.indices], axis=-1)

    def sums(self, alternatives: np.ndarray, elements: np.ndarray) -> np.ndarray:
        """Values of alternatives (n,) from draws of the elements, (n, p): (n, m)."""
        m, linear = self.indices.shape[1], self.linear
        result = elements[:, :m].copy()
        for a in np.unique(alternatives):
            rows = np.flatnonzero(alternatives == a)
            weights, indices = self.weights[a, :, 1 : 1 + linear], self.indices[a, :, 1 + linear :]
            result[rows] += elements[rows, m : m + linear] @ weights.T
            for column in indices.T:
                result[rows] += elements[np.ix_(rows, column)]
        return result

    def variances(self, covariance: np.ndarray) -> np.ndarray:
        """Variance of each value, from the covariance of the elements (p, p): (A, m)."""
        variances = []
        for indices, weights in zip(self.indices, self.weights, strict=True):
            block = covariance[indices[:, :, None], indices[:, None, :]]
            variances.append(np.einsum("ia,iab,ib->i", weights, block, weights))
        return np.maximum(variances, 0.0)


@dataclass(frozen=True, eq=False)
class ElementMoments:
    """Mean and covariance of the elements, noise included.

    Attributes:
        mean: Means, (p,).
        covariance: Covariance, (p, p).
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def from_draws(
        cls, draws: Draws, x_new: np.ndarray, values: Sequence[np.ndarray]
    ) -> ElementMoments:
        """Moments over all draws of the hyperparameters, at times x_new (m,).

        Raises:
            FloatingPointError: No draw has finite moments.
        """
        total, shift, mean, second = 0.0, None, 0.0, 0.0
        times = np.arange(len(x_new))
        for z, share in zip(draws.z, draws.shares, strict=True):
            m, C = draws.fitted.density.elements(z, x_new, values)
            if not (np.isfinite(m).all() and np.isfinite(C).all()):
                continue
            C[times, times] += draws.fitted.excess_noise(z)
            # Differences from the first mean, to avoid cancellation.
            shift = m if shift is None else shift
            total, mean = total + share, mean + share * (m - shift)
            second = second + share * (C + np.outer(m - shift, m - shift))
        if shift is None or total == 0.0:
            raise FloatingPointError(NOT_FACTORED)
        mean = mean / total
        return cls(shift + mean, second / total - np.outer(mean, mean))

    @classmethod
    def at_draw(
        cls, draws: Draws, z: np.ndarray, x_new: np.ndarray, values: Sequence[np.ndarray]
    ) -> ElementMoments:
        """Moments at one draw z (d,) of the hyperparameters."""
        return cls(*draws.fitted.density.elements(z, x_new, values))

    @cached_property
    def root(self) -> np.ndarray:
        """Square root R of the covariance, R R' = C: (p, p)."""
        eigenvalues, vectors = np.linalg.eigh(self.covariance)
        return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))

    def deviations(self, standard: np.ndarray) -> np.ndarray:
        """Deviations from the mean, from standard normal numbers (n, p): (n, p)."""
        return standard @ self.root.T
