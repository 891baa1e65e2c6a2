"""The dual of a kernel machine whose loss has kinks, by a primal-dual interior-point method.

A loss whose slope rises at kinks t_j, from -high_j to -low_j each, has as its dual the quadratic
programme

    minimise    1/2 b'K b + sum_ij [r_i x_ij^2 / 2 - t_ij x_ij],   b_i = sum_j x_ij,
    subject to  low_ij <= x_ij <= high_ij,   and sum_i b_i = 0 where there is an intercept.

Mehrotra (1992); Fine and Scheinberg (2001) for kernel machines; Nocedal and Wright (2006),
section 16.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayeskern.course.shifted_gram import ShiftedGram

MAX_ITERATIONS = 100
# The mean complementarity at which to stop, relative to its start: near what rounding allows.
TOLERANCE = 1e-16
# The part of the way to the nearest bound that a step goes.
STEP_FRACTION = 0.995
# A penalty on the length of a step, relative to K. It does not move the minimum, where steps
# vanish, but it keeps rounding from drowning a K short of full rank.
PROXIMAL = 1e-14
# The number of steps in a row that may bring nothing.
PATIENCE = 5


class DualSolution(NamedTuple):
    """The minimizer b: (n,), the multiplier of sum b = 0, which is the intercept, and the steps."""

    b: np.ndarray
    intercept: float
    iterations: int


def minimize(K, kinks, low, high, roundness, intercept: bool) -> DualSolution:
    """Solve the programme above for K: (n, n), t, low and high: (m, n), r: (n,)."""
    iterate = best = _start(K, kinks, low, high, roundness, intercept)
    target = TOLERANCE * iterate.complementarity
    iterations = stalled = 0
    while best.complementarity > target and stalled < PATIENCE and iterations < MAX_ITERATIONS:
        iterate = _mehrotra_step(K, iterate, roundness, intercept)
        iterations += 1
        if iterate.complementarity < best.complementarity:
            best, stalled = iterate, 0
        else:
            stalled += 1
    return DualSolution(best.x.sum(axis=0), best.c, iterations)


def _mehrotra_step(K, iterate: _Iterate, roundness, intercept: bool) -> _Iterate:
    """The next iterate, by a predictor and a corrector step."""
    newton = _Newton(K, iterate, roundness, intercept)
    complementarity = iterate.complementarity
    # The complementarity that a step towards 0 leaves tells how far to aim.
    predictor = newton.step(0.0)
    predicted = iterate.moved(predictor, iterate.longest(predictor))
    centering = (predicted.complementarity / complementarity) ** 3
    corrector = newton.step(centering * complementarity, predictor)
    moved = iterate.moved(corrector, min(1.0, STEP_FRACTION * iterate.longest(corrector)))
    if moved.complementarity <= 0.9 * complementarity:
        return moved
    # The correction can lead in circles (Cartis 2009), so aim half as far, and without it.
    plain = newton.step(0.5 * complementarity)
    return iterate.moved(plain, min(1.0, STEP_FRACTION * iterate.longest(plain)))


class _Iterate(NamedTuple):
    """x and c, or a step of them, with the slacks of the bounds on x and a multiplier for each."""

    x: np.ndarray
    c: float
    #: K b + c - t + r x - z_below + z_above, which is to be 0
    stationarity: np.ndarray
    #: x - low and high - x
    below: np.ndarray
    above: np.ndarray
    z_below: np.ndarray
    z_above: np.ndarray

    @property
    def complementarity(self) -> float:
        products = np.sum(self.below * self.z_below) + np.sum(self.above * self.z_above)
        return products / (2 * self.x.size)

    def longest(self, step: _Iterate) -> float:
        """The longest step, up to 1, that leaves no slack and no multiplier negative."""
        length = 1.0
        for value, change in zip(self[3:], step[3:], strict=True):
            falling = change < 0.0
            if falling.any():
                length = min(length, np.min(-value[falling] / change[falling]))
        return length

    def moved(self, step: _Iterate, length: float) -> _Iterate:
        return _Iterate(
            *(value + length * change for value, change in zip(self, step, strict=True))
        )


def _start(K, kinks, low, high, roundness, intercept) -> _Iterate:
    # At the same fraction of every box, so that the sum is 0 where it must be.
    fraction = -low.sum() / np.sum(high - low) if intercept else 0.5
    x = low + fraction * (high - low)
    slope = K @ x.sum(axis=0) - kinks + roundness * x
    size = np.mean(np.abs(slope)) or 1.0
    z_below, z_above = np.maximum(slope, 0.0) + size, np.maximum(-slope, 0.0) + size
    return _Iterate(x, 0.0, slope - z_below + z_above, x - low, high - x, z_below, z_above)


class _Newton:
    """Newton steps from one iterate, for which one matrix is factored."""

    def __init__(self, K, iterate: _Iterate, roundness, intercept):
        self.K, self.iterate, self.roundness = K, iterate, roundness
        curvature = roundness + iterate.z_below / iterate.below + iterate.z_above / iterate.above
        self.weights = 1.0 / (curvature + PROXIMAL * K.diagonal().mean())
        self.e = self.weights.sum(axis=0)
        self.shifted = ShiftedGram(K, self.e, intercept)

    def step(self, target: float, predictor: _Iterate | None = None) -> _Iterate:
        """A step towards complementarity `target`, corrected for the products in a predictor."""
        now = self.iterate
        to_below, to_above = target / now.below - now.z_below, target / now.above - now.z_above
        if predictor is not None:
            to_below = to_below - predictor.below * predictor.z_below / now.below
            to_above = to_above - predictor.above * predictor.z_above / now.above
        right = to_below - to_above - now.stationarity
        # dx = weights (right - v), with v = K db + dc; summed over kinks, db = g - e v.
        g = np.sum(self.weights * right, axis=0)
        db, dc = self.shifted.solve(g / self.e, -now.x.sum())
        rise = self.K @ db + dc
        # v from whichever side is not lost to rounding: e is tiny in some rows, huge in others.
        v = np.where(self.e * self.K.diagonal() > 1.0, (g - db) / self.e, rise)
        dx = self.weights * (right - v)
        dz_below = to_below - now.z_below / now.below * dx
        dz_above = to_above + now.z_above / now.above * dx
        change = rise + self.roundness * dx - dz_below + dz_above
        return _Iterate(dx, dc, change, dx, -dx, dz_below, dz_above)
