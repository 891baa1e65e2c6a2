"""Interior-point method for the dual of kernel machines with a kinked loss.

The slope of the weighted loss of point i rises from -high_ij to -low_ij at kink t_ij, at the rate
1 / r_i; it jumps if r_i = 0. The dual problem is the quadratic programme

    minimise    1/2 b'K b + sum_ij [r_i x_ij^2 / 2 - t_ij x_ij],   b_i = sum_j x_ij,
    subject to  low_ij <= x_ij <= high_ij,   and sum_i b_i = 0 if there is an intercept.

scikit-learn has no equivalent: libsvm stores K in single precision and always has an intercept,
and liblinear penalises the intercept.

Mehrotra (1992); Fine and Scheinberg (2001) for kernel machines; Nocedal and Wright (2006),
section 16.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

# Maximum number of steps, and number of successive steps without progress after which to stop.
MAX_STEPS, MAX_STALLED_STEPS = 100, 5
# Stop when the mean complementarity falls to this fraction of its start, close to rounding.
COMPLEMENTARITY_TOL = 1e-16


def minimize(
    K: np.ndarray,
    kinks: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    roundness: np.ndarray,
    intercept: bool,
) -> tuple[np.ndarray, float, int]:
    """Solve the dual problem by Mehrotra's predictor-corrector method.

    Args:
        K: The Gram matrix, (n, n), positive semidefinite.
        kinks: Kinks t, (m, n): m for each of n points.
        low: Lower bounds of x, (m, n).
        high: Upper bounds of x, (m, n).
        roundness: r, (n,); 0 for sharp kinks.
        intercept: True to require sum b = 0.

    Returns:
        The best iterate b, (n,); the multiplier of sum b = 0, which is the intercept; and the
        number of steps.
    """
    iterate = best = _start(K, kinks, low, high, roundness, intercept)
    target = COMPLEMENTARITY_TOL * iterate.complementarity
    steps = stalled = 0
    while best.complementarity > target and steps < MAX_STEPS and stalled < MAX_STALLED_STEPS:
        iterate = _mehrotra_step(K, iterate, roundness, intercept)
        steps, stalled = steps + 1, stalled + 1
        if iterate.complementarity < best.complementarity:
            best, stalled = iterate, 0
    return best.x.sum(axis=0), best.c, steps


# Fraction of the distance to the nearest bound that a step covers.
STEP_FRACTION = 0.995


def _mehrotra_step(K, iterate: _Iterate, roundness, intercept: bool) -> _Iterate:
    """The next iterate, by a predictor and a corrector step."""
    newton = _Newton(K, iterate, roundness, intercept)
    complementarity = iterate.complementarity
    # The complementarity left by the predictor (target 0) sets the target of the corrector.
    predictor = newton.step(0.0)
    predicted = iterate.move(predictor, 1.0).complementarity
    centering = (predicted / complementarity) ** 3
    corrected = iterate.move(newton.step(centering * complementarity, predictor), STEP_FRACTION)
    if corrected.complementarity <= 0.9 * complementarity:
        return corrected
    # The corrector can cycle (Cartis 2009): after little progress, step without it and halve the
    # complementarity.
    return iterate.move(newton.step(0.5 * complementarity), STEP_FRACTION)


class _Iterate(NamedTuple):
    """An iterate or a step: x, c, slacks of the bounds on x, and their multipliers z."""

    x: np.ndarray
    c: float
    #: K b + c - t + r x - z_below + z_above, which is 0 at the solution
    stationarity: np.ndarray
    #: the slacks x - low and high - x
    below: np.ndarray
    above: np.ndarray
    z_below: np.ndarray
    z_above: np.ndarray

    @property
    def complementarity(self) -> float:
        """The mean product of a slack and its multiplier, which is 0 at the solution."""
        products = np.sum(self.below * self.z_below) + np.sum(self.above * self.z_above)
        return products / (2 * self.x.size)

    def move(self, step: _Iterate, fraction: float) -> _Iterate:
        """Move by `fraction` of the step, shortened first to the nearest bound."""
        length = 1.0
        # The slacks and multipliers stay above 0.
        for value, change in zip(self[3:], step[3:], strict=True):
            falling = change < 0.0
            if falling.any():
                length = min(length, float(np.min(-value[falling] / change[falling])))
        length *= fraction
        values = (value + length * change for value, change in zip(self, step, strict=True))
        return _Iterate(*values)  # pyright: ignore[reportArgumentType]


def _start(K, kinks, low, high, roundness, intercept: bool) -> _Iterate:
    """An iterate inside the bounds, with sum b = 0 if there is an intercept."""
    # x is at the same fraction of each interval from low to high.
    fraction = -low.sum() / np.sum(high - low) if intercept else 0.5
    x = low + fraction * (high - low)
    slope = K @ x.sum(axis=0) - kinks + roundness * x
    size = np.mean(np.abs(slope)) or 1.0
    z_below, z_above = np.maximum(slope, 0.0) + size, np.maximum(-slope, 0.0) + size
    return _Iterate(x, 0.0, slope - z_below + z_above, x - low, high - x, z_below, z_above)


# Penalty on the length of a step, relative to K. It does not move the minimum, where steps vanish,
# but limits rounding errors if K is rank deficient.
PROXIMAL_PENALTY = 1e-14


class _Newton:
    """Newton steps from one iterate that share one factorisation.

    A step (dx, dc, dz) with db = sum_j dx_j solves, for a target complementarity,

        K db + dc + r dx - dz_below + dz_above = -stationarity,  sum db = -sum x,
        below dz_below + z_below dx = target - below z_below - [below z_below of the predictor],
        above dz_above - z_above dx = target - above z_above - [above z_above of the predictor].

    The brackets are 0 without a predictor. Without an intercept dc = 0, and sum db is free.
    """

    def __init__(self, K, iterate: _Iterate, roundness, intercept: bool):
        self.K, self.iterate, self.roundness = K, iterate, roundness
        curvature = roundness + iterate.z_below / iterate.below + iterate.z_above / iterate.above
        self.weights = 1.0 / (curvature + PROXIMAL_PENALTY * K.diagonal().mean())
        self.e = self.weights.sum(axis=0)
        self.shifted = ShiftedGram(K, self.e, intercept)

    def step(self, target: float, predictor: _Iterate | None = None) -> _Iterate:
        """A step to the target, with Mehrotra's second-order correction from a predictor."""
        current = self.iterate
        # dz_below and dz_above at dx = 0.
        dz_below_0 = target / current.below - current.z_below
        dz_above_0 = target / current.above - current.z_above
        if predictor is not None:
            dz_below_0 = dz_below_0 - predictor.below * predictor.z_below / current.below
            dz_above_0 = dz_above_0 - predictor.above * predictor.z_above / current.above
        right_side = dz_below_0 - dz_above_0 - current.stationarity
        # dx = weights (right_side - v), with v = K db + dc; summed over kinks, db = g - e v.
        g = np.sum(self.weights * right_side, axis=0)
        db, dc = self.shifted.solve(g / self.e, -current.x.sum())
        rise = self.K @ db + dc
        # The two expressions for v are equal. e is tiny in some rows and huge in others: take the
        # expression with less rounding in each row.
        v = np.where(self.e * self.K.diagonal() > 1.0, (g - db) / self.e, rise)
        dx = self.weights * (right_side - v)
        dz_below = dz_below_0 - current.z_below / current.below * dx
        dz_above = dz_above_0 + current.z_above / current.above * dx
        change = rise + self.roundness * dx - dz_below + dz_above
        return _Iterate(dx, dc, change, dx, -dx, dz_below, dz_above)


class ShiftedGram:
    """K + diag(1 / e), factored once, bordered by ones if there is an intercept.

    With S = diag(sqrt e) the inverse is S (I + S K S)^-1 S, which does not divide by e: e may be 0
    in some rows and huge in others (Rasmussen and Williams 2006, equation 3.26).

    Args:
        K: (n, n), positive semidefinite.
        e: (n,), 0 or more.
        intercept: True if there is an intercept.
    """

    def __init__(self, K: np.ndarray, e: np.ndarray, intercept: bool):
        self.sqrt_e = np.sqrt(e)
        self.factor = self._factor(K)
        self.inverse_times_ones = self._solve(np.ones(len(K))) if intercept else None

    def solve(self, v: np.ndarray, total: float = 0.0) -> tuple[np.ndarray, float]:
        """Solve (K + diag(1 / e)) b + c = v, sum b = total; c = 0 without an intercept."""
        b = self._solve(v)
        if self.inverse_times_ones is None:
            return b, 0.0
        c = float((b.sum() - total) / self.inverse_times_ones.sum())
        return b - c * self.inverse_times_ones, c

    def _solve(self, v):
        return self.sqrt_e * cho_solve(self.factor, self.sqrt_e * v, check_finite=False)

    def _factor(self, K):
        jitter = 0.0
        while True:
            B = self.sqrt_e[:, None] * K
            B *= self.sqrt_e
            diagonal = B.diagonal().copy()
            np.fill_diagonal(B, (1.0 + jitter) * (diagonal + 1.0))
            try:
                return cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                # S K S is positive semidefinite only up to rounding.
                jitter = max(10.0 * jitter, len(K) * np.finfo(float).eps)
                if jitter > 1.0:
                    raise
