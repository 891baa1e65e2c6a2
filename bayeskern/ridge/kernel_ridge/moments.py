"""What ridge regression on features needs of all rows: sums that blocks of them add to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from bayeskern.ridge.kernel_ridge.dual_system import EPS, LOG_2PI, Spectrum
from bayeskern.ridge.kernel_ridge.regularization_path import Path


class Moments:
    """Weighted sums over rows (phi, y): Phi'W Phi, Phi'W Y and the rest.

    With a constant they are taken around the first row and moved to the means in the end, so that
    an offset costs no digits.
    """

    def __init__(self, features: int, targets: int, constant: bool):
        self.constant = constant
        self.origin = None
        self.rows, self.weight, self.log_weights = 0, 0.0, 0.0
        self.total, self.total_y = np.zeros(features), np.zeros(targets)
        # The lower half, in LAPACK's order.
        self._S = np.zeros((features, features), order="F")
        self._P, self._yy = np.zeros((features, targets)), np.zeros(targets)

    @property
    def targets(self) -> int:
        return len(self._yy)

    def add(self, phi, Y, s) -> None:
        """phi: (b, m), which is written over; Y: (b, k); s: (b,), roots of weights above 0."""
        if self.constant:
            if self.origin is None:
                self.origin = phi[0].copy(), Y[0].copy()
            phi -= self.origin[0]
            Y = Y - self.origin[1]
        phi *= s[:, None]
        Y = s[:, None] * Y
        # The transpose of rows in C's order is in LAPACK's order: nothing is copied.
        self._S = dsyrk(1.0, phi.T, beta=1.0, c=self._S, lower=True, overwrite_c=True)
        self._P += phi.T @ Y
        self._yy += np.sum(np.square(Y), axis=0)
        self.total += s @ phi
        self.total_y += s @ Y
        self.rows += len(s)
        self.weight += s @ s
        self.log_weights += 2.0 * np.sum(np.log(s))

    def around_means(self) -> Sums:
        """The sums around the means of phi and y with a constant, around 0 without."""
        S = self._S + np.tril(self._S, -1).T
        common = self.rows, self.weight, self.log_weights
        if not self.constant:
            zero, zero_y = np.zeros_like(self.total), np.zeros_like(self.total_y)
            return Sums(S, self._P, self._yy, zero, zero_y, 0.0, *common)
        mean, mean_y = self.total / self.weight, self.total_y / self.weight
        S -= np.outer(self.total, mean)
        P = self._P - np.outer(self.total, mean_y)
        yy = self._yy - self.total_y * mean_y
        origin, origin_y = self.origin
        return Sums(S, P, yy, origin + mean, origin_y + mean_y, 1.0 / self.weight, *common)


class Sums(NamedTuple):
    """Phi'W Phi (m, m), Phi'W Y (m, k) and diag(Y'W Y) (k,) around means of phi and y."""

    S: np.ndarray
    P: np.ndarray
    yy: np.ndarray
    mean: np.ndarray
    mean_y: np.ndarray
    #: what the constant adds to the leverage of a row of weight 1
    share: float
    rows: int
    weight: float
    #: sum of log w
    log_weights: float

    def path(self, spectrum: Spectrum, alphas) -> Path:
        """GCV and the evidence by alpha; leave-one-out needs the rows again."""
        # Written as what each axis leaves, so that little is lost where next to nothing is left.
        D = np.maximum(spectrum.values, 0.0)[:, None]
        p2 = np.square(spectrum.V.T @ self.P)
        constant = self.share > 0.0
        degrees = self.rows - constant
        some = (len(D) * EPS * np.max(D) < D)[:, 0]
        beyond = np.maximum(self.yy - np.sum(p2[some] / D[some], axis=0), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            w = 1.0 / (D + alphas)
            if degrees > np.sum(some):
                left = degrees - np.sum(some) + np.sum(alphas * w[some], axis=0)
                missed = beyond + (np.square(alphas * w[some]) / D[some]).T @ p2[some]
            else:
                # Nothing lies beyond, and alpha, a factor of both, cancels.
                left = np.sum(w[some], axis=0)
                missed = (np.square(w[some]) / D[some]).T @ p2[some]
            gcv = missed / (self.weight * np.square(left / self.rows)[:, None])
            quadratic = (self.yy - w.T @ p2) / alphas[:, None]
            logdet = degrees * np.log(alphas) + np.sum(np.log1p(D / alphas), axis=0)
        evidence = -0.5 * (quadratic + logdet[:, None] + degrees * LOG_2PI - self.log_weights)
        # alpha = 0 leaves no room for noise.
        evidence = np.where(alphas[:, None] > 0.0, evidence, -np.inf)
        return Path(alphas, None, gcv, evidence)
