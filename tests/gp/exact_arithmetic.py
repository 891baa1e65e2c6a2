"""Gaussian process regression in 60-digit arithmetic, and the rounding error to expect in float64.

A float64 solver computes with K + E, where |E_ij| <= unit d_i d_j with d_i = sqrt(K_ii) and a
`unit` of a few n eps: the backward error of a Cholesky factorization is of this form (Demmel 1989;
Higham 2002, theorem 10.3). The bounds here are first-order perturbations of each quantity by such
an E, and by errors of the same form in the covariances at new points. They know nothing of the
scales of K, only of the condition of the matrix scaled to unit diagonal.
"""

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat, ctx

DIGITS = 60
EPS = np.finfo(float).eps
# Rounding errors of float64 in units of n eps, from covariances, factor and products.
ROUNDING_UNITS = 30.0


@dataclass(frozen=True)
class Answer:
    """Right value of a quantity, and the largest rounding error to expect.

    Attributes:
        value: The value, rounded to float64.
        bound: The largest error, of the same shape.
    """

    value: np.ndarray
    bound: np.ndarray

    def excess(self, computed) -> float:
        """Largest error in units of the bound; infinite for NaN."""
        error = np.abs(np.asarray(computed) - self.value) / self.bound
        return float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0))


class ExactProcess:
    """Posterior of a zero-mean Gaussian process, in `DIGITS` digits.

    Args:
        covariance: k(x, z) of two points, an arb.
        X: Points of the data, n tuples of floats.
        noise: Noise variances, (n,).
        y: Values, (n,).
        X_new: New points, m tuples of floats.
        part: Covariance of the component that is predicted; by default of the process.
    """

    def __init__(self, covariance, X, noise, y, X_new, part=None):
        part = part or covariance
        ctx.dps = DIGITS
        n, y = len(X), arb_mat([[arb(float(v))] for v in y])
        K = arb_mat([[covariance(a, b) for b in X] for a in X])
        C = arb_mat(K)
        for i in range(n):
            C[i, i] += arb(float(noise[i]))
        cross = arb_mat([[part(a, b) for b in X_new] for a in X])
        prior = arb_mat([[part(a, b) for b in X_new] for a in X_new])
        inverse = C.inv()
        weights, V = inverse * y, inverse * cross
        self._inverse, self.V = floats(inverse), floats(V)
        self.y, self._weights = floats(y)[:, 0], floats(weights)[:, 0]
        self.scale, self.new_scale = (
            np.sqrt(floats(C).diagonal()),
            np.sqrt(floats(prior).diagonal()),
        )
        self.unit = ROUNDING_UNITS * max(n, 4) * EPS
        self._mean = floats(cross.transpose() * weights)[:, 0]
        self._covariance = floats(prior - cross.transpose() * V)
        logdet, quadratic = C.det().log(), (y.transpose() * weights)[0, 0]
        self._logdet = float(logdet)
        self._log_density = float(-(quadratic + logdet + n * (2 * arb.pi()).log()) / 2)
        self._loo = [
            (float(y[i, 0] - weights[i, 0] / inverse[i, i]), float(1 / inverse[i, i]))
            for i in range(n)
        ]

    @property
    def is_solvable(self) -> bool:
        """True unless the matrix is singular up to rounding."""
        return self.unit * self._condition() < 0.01

    def mean(self) -> Answer:
        return Answer(self._mean, self.unit * self._size() * (self.new_scale + self._reach()))

    def covariance(self) -> Answer:
        size = self.new_scale + self._reach()
        return Answer(self._covariance, self.unit * np.outer(size, size))

    def variance(self, noise: float = 0.0) -> Answer:
        """Variances of f, or of new observations with a noise variance."""
        covariance = self.covariance()
        value = covariance.value.diagonal() + noise
        return Answer(value, covariance.bound.diagonal() + self.unit * value)

    def log_density(self) -> Answer:
        size = self._condition() + self._size() ** 2 + 1.0
        return Answer(np.array(self._log_density), self.unit * np.array(size))

    def logdet(self) -> Answer:
        return Answer(np.array(self._logdet), self.unit * np.array(self._condition() + 1.0))

    def weights(self) -> Answer:
        """C^-1 y."""
        return Answer(self._weights, self.unit * self._reach_of_inverse() * self._size())

    def inverse(self) -> Answer:
        reach = self._reach_of_inverse()
        return Answer(self._inverse, self.unit * np.outer(reach, reach))

    def leave_one_out(self) -> tuple[Answer, Answer]:
        """Means and variances of each value given the others."""
        mean, variance = np.array(self._loo).T
        reach = self._reach_of_inverse()
        of_precision = variance * (reach**2 + 1.0 / variance)
        of_mean = variance * (reach * self._size() + np.abs(self._weights) * of_precision)
        return (
            Answer(mean, self.unit * (of_mean + np.abs(self.y))),
            Answer(variance, self.unit * variance * of_precision),
        )

    def _condition(self) -> float:
        """sum_ij d_i |C^-1|_ij d_j, a condition number of the scaled matrix."""
        return float(self.scale @ np.abs(self._inverse) @ self.scale)

    def _size(self) -> float:
        """sum_i d_i |C^-1 y|_i."""
        return float(self.scale @ np.abs(self._weights))

    def _reach_of_inverse(self) -> np.ndarray:
        """sum_j |C^-1|_ij d_j: (n,)."""
        return np.abs(self._inverse) @ self.scale

    def _reach(self) -> np.ndarray:
        """sum_i d_i |C^-1 k(X, x)|_i of each new point x: (m,)."""
        return self.scale @ np.abs(self.V)


def floats(matrix: arb_mat) -> np.ndarray:
    """Array of float64 with the midpoints of a matrix."""
    rows, columns = matrix.nrows(), matrix.ncols()
    return np.array([[float(matrix[i, j].mid()) for j in range(columns)] for i in range(rows)])
