"""Sums over rows for ridge regression on features, updated block by block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk  # pyright: ignore[reportAttributeAccessIssue]

from bayeskern.core import sharding
from bayeskern.ridge.penalties import RegularizationPath
from bayeskern.ridge.systems import Eigendecomposition, gaussian_log_density


class Moments:
    """Weighted sums over rows (phi, y), such as Phi'W Phi and Phi'W Y.

    If rows are divided among processes, each sums its own rows, and `centered` adds the sums of all
    processes.

    Args:
        features: The number m of features.
        targets: The number k of columns of y.
        origin: A row (phi, y) that is subtracted from all rows, so that an offset costs no digits;
            `centered` then subtracts the means. None without a constant.
    """

    def __init__(self, features: int, targets: int, origin: tuple | None):
        self.features, self.targets, self.origin = features, targets, origin
        self._rows, self._weight, self._log_weights = 0, 0.0, 0.0
        self._total, self._total_y = np.zeros(features), np.zeros(targets)
        # The lower triangle, in Fortran order.
        self._S = np.zeros((features, features), order="F")
        self._P, self._yy = np.zeros((features, targets)), np.zeros(targets)

    def add(self, phi: np.ndarray, Y: np.ndarray, sqrt_weights: np.ndarray) -> None:
        """Add rows phi (r, m), overwritten, Y (r, k) and sqrt_weights (r,), above 0."""
        if self.origin is not None:
            phi -= self.origin[0]
            Y = Y - self.origin[1]
        phi *= sqrt_weights[:, None]
        Y = sqrt_weights[:, None] * Y
        # The transpose of a C-ordered array is Fortran-ordered: nothing is copied.
        self._S = dsyrk(1.0, phi.T, beta=1.0, c=self._S, lower=True, overwrite_c=True)
        self._P += phi.T @ Y
        self._yy += np.sum(np.square(Y), axis=0)
        self._total += sqrt_weights @ phi
        self._total_y += sqrt_weights @ Y
        self._rows += len(sqrt_weights)
        self._weight += sqrt_weights @ sqrt_weights
        self._log_weights += 2.0 * np.sum(np.log(sqrt_weights))

    def centered(self) -> CenteredMoments:
        """The sums around the means of phi and y, or around 0 without a constant."""
        S, P, yy, total, total_y = sharding.total(
            (self._S, self._P, self._yy, self._total, self._total_y)
        )
        rows, weight, log_weights = sharding.total((self._rows, self._weight, self._log_weights))
        totals = int(rows), float(weight), float(log_weights)
        S = S + np.tril(S, -1).T
        if self.origin is None:
            return CenteredMoments(S, P, yy, np.zeros_like(total), np.zeros_like(yy), 0.0, *totals)
        mean, mean_y = total / weight, total_y / weight
        S -= np.outer(total, mean)
        P = P - np.outer(total, mean_y)
        yy = yy - total_y * mean_y
        origin, origin_y = self.origin
        return CenteredMoments(
            S, P, yy, origin + mean, origin_y + mean_y, float(1.0 / weight), *totals
        )


class CenteredMoments(NamedTuple):
    """Sums around the means of phi and y.

    Attributes:
        S: Phi'W Phi, (m, m).
        P: Phi'W Y, (m, k).
        yy: diag(Y'W Y), (k,).
        mean: The mean of phi, (m,); 0 without a constant.
        mean_y: The mean of y, (k,); 0 without a constant.
        constant_leverage: The leverage that a constant adds to a row of weight 1, 1 / weight; 0
            without a constant.
        rows: The number of rows.
        weight: The sum of the weights w.
        log_weights: The sum of log w.
    """

    S: np.ndarray
    P: np.ndarray
    yy: np.ndarray
    mean: np.ndarray
    mean_y: np.ndarray
    constant_leverage: float
    rows: int
    weight: float
    log_weights: float

    def path(self, eigen: Eigendecomposition, alphas: np.ndarray) -> RegularizationPath:
        """GCV and evidence at each alpha, from S = V D V'; leave-one-out needs the rows."""
        # With p = V'P, the weighted residuals have the sum of squares
        # yy - sum_j p_j^2 / D_j + sum_j (alpha / (D_j + alpha))^2 p_j^2 / D_j. A sum of positive
        # terms loses few digits in close fits.
        D = np.maximum(eigen.values, 0.0)[:, None]
        projections = np.square(eigen.V.T @ self.P)
        dof = self.rows - (self.constant_leverage > 0.0)
        nonzero = (len(D) * np.finfo(float).eps * np.max(D) < D)[:, 0]
        explained = np.sum(projections[nonzero] / D[nonzero], axis=0)
        unexplained = np.maximum(self.yy - explained, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / (D + alphas)
            if dof > np.sum(nonzero):
                shrinkage = alphas * inverse[nonzero]
                residual_dof = dof - np.sum(nonzero) + np.sum(shrinkage, axis=0)
                squares = unexplained + (np.square(shrinkage) / D[nonzero]).T @ projections[nonzero]
            else:
                # The features span all rows: alpha is a factor of the residuals and of their
                # degrees of freedom, and cancels.
                shrinkage = inverse[nonzero]
                residual_dof = np.sum(shrinkage, axis=0)
                squares = (np.square(shrinkage) / D[nonzero]).T @ projections[nonzero]
            gcv = squares / (self.weight * np.square(residual_dof / self.rows)[:, None])
            quadratic = (self.yy - inverse.T @ projections) / alphas[:, None]
            logdet = dof * np.log(alphas) + np.sum(np.log1p(D / alphas), axis=0)
        evidence = gaussian_log_density(quadratic, logdet[:, None] - self.log_weights, dof)
        # alpha = 0 is a model without noise, which is never preferred.
        evidence = np.where(alphas[:, None] > 0.0, evidence, -np.inf)
        return RegularizationPath(alphas, None, gcv, evidence)
