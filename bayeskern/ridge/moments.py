"""The sums over rows that ridge regression on features needs, to which each block of rows adds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from bayeskern.core import sharding
from bayeskern.ridge import criteria
from bayeskern.ridge.regularization_path import RegularizationPath
from bayeskern.ridge.regularized_system import EPS, Eigendecomposition


class Moments:
    """Weighted sums over rows (phi, y): Phi'W Phi, Phi'W Y and the rest.

    Where rows are shared out over processes, each sums its own, and `centered` has those of all.

    Args:
        features: Their number m.
        targets: The number k of columns of y.
        origin: With a constant, a row (phi, y) around which sums are taken until `centered` moves
            them to the means, so that an offset costs no digits.
    """

    def __init__(self, features: int, targets: int, origin: tuple | None):
        self.origin = origin
        self._rows, self._weight, self._log_weights = 0, 0.0, 0.0
        self._total, self._total_y = np.zeros(features), np.zeros(targets)
        # The lower half, in LAPACK's order.
        self._S = np.zeros((features, features), order="F")
        self._P, self._yy = np.zeros((features, targets)), np.zeros(targets)

    @property
    def features(self) -> int:
        return len(self._total)

    @property
    def targets(self) -> int:
        return len(self._yy)

    def add(self, phi, Y, sqrt_weights) -> None:
        """phi: (b, m), which is written over; Y: (b, k); sqrt_weights: (b,), all above 0."""
        if self.origin is not None:
            phi -= self.origin[0]
            Y = Y - self.origin[1]
        phi *= sqrt_weights[:, None]
        Y = sqrt_weights[:, None] * Y
        # The transpose of rows in C's order is in LAPACK's order: nothing is copied.
        self._S = dsyrk(1.0, phi.T, beta=1.0, c=self._S, lower=True, overwrite_c=True)
        self._P += phi.T @ Y
        self._yy += np.sum(np.square(Y), axis=0)
        self._total += sqrt_weights @ phi
        self._total_y += sqrt_weights @ Y
        self._rows += len(sqrt_weights)
        self._weight += sqrt_weights @ sqrt_weights
        self._log_weights += 2.0 * np.sum(np.log(sqrt_weights))

    def centered(self) -> CenteredMoments:
        """The sums around the means of phi and y with a constant, around 0 without."""
        S, P, yy, total, total_y = sharding.total(
            (self._S, self._P, self._yy, self._total, self._total_y)
        )
        totals = sharding.total((self._rows, self._weight, self._log_weights))
        S = S + np.tril(S, -1).T
        if self.origin is None:
            return CenteredMoments(S, P, yy, np.zeros_like(total), np.zeros_like(yy), 0.0, *totals)
        _, weight, _ = totals
        mean, mean_y = total / weight, total_y / weight
        S -= np.outer(total, mean)
        P = P - np.outer(total, mean_y)
        yy = yy - total_y * mean_y
        origin, origin_y = self.origin
        return CenteredMoments(S, P, yy, origin + mean, origin_y + mean_y, 1.0 / weight, *totals)


class CenteredMoments(NamedTuple):
    """Phi'W Phi (m, m), Phi'W Y (m, k) and diag(Y'W Y) (k,) around means of phi and y."""

    S: np.ndarray
    P: np.ndarray
    yy: np.ndarray
    mean: np.ndarray
    mean_y: np.ndarray
    #: what the constant adds to the leverage of a row of weight 1
    constant_leverage: float
    rows: int
    weight: float
    #: sum of log w
    log_weights: float

    def path(self, eigen: Eigendecomposition, alphas) -> RegularizationPath:
        """GCV and the evidence by alpha, from S = V D V'; leave-one-out needs the rows again."""
        # Written as what each axis leaves, so that little is lost where next to nothing is left.
        D = np.maximum(eigen.values, 0.0)[:, None]
        projections = np.square(eigen.V.T @ self.P)
        dof = self.rows - (self.constant_leverage > 0.0)
        nonzero = (len(D) * EPS * np.max(D) < D)[:, 0]
        explained = np.sum(projections[nonzero] / D[nonzero], axis=0)
        unexplained = np.maximum(self.yy - explained, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / (D + alphas)
            if dof > np.sum(nonzero):
                shrinkage = alphas * inverse[nonzero]
                residual_dof = dof - np.sum(nonzero) + np.sum(shrinkage, axis=0)
                squares = unexplained + (np.square(shrinkage) / D[nonzero]).T @ projections[nonzero]
            else:
                # The features span all rows, and alpha, a factor of both, cancels.
                shrinkage = inverse[nonzero]
                residual_dof = np.sum(shrinkage, axis=0)
                squares = (np.square(shrinkage) / D[nonzero]).T @ projections[nonzero]
            gcv = squares / (self.weight * np.square(residual_dof / self.rows)[:, None])
            quadratic = (self.yy - inverse.T @ projections) / alphas[:, None]
            logdet = dof * np.log(alphas) + np.sum(np.log1p(D / alphas), axis=0)
        evidence = criteria.log_evidence(quadratic, logdet[:, None] - self.log_weights, dof)
        # alpha = 0 leaves no room for noise.
        evidence = np.where(alphas[:, None] > 0.0, evidence, -np.inf)
        return RegularizationPath(alphas, None, gcv, evidence)
