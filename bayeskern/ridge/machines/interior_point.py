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

from bayeskern.ridge.machines.shifted import Shifted

ITERATIONS = 100
# Of the mean complementarity, relative to its start: near what rounding allows.
TOLERANCE = 1e-16
# Of the way to the nearest bound.
SHARE = 0.995
# A penalty on the length of a step, relative to K: no matter at the minimum, where there are none,
# but what keeps a K short of full rank from being drowned by rounding.
PROXIMAL = 1e-14
# Steps in a row that may bring nothing.
PATIENCE = 5


class Dual(NamedTuple):
    """The minimiser b: (n,), the multiplier of sum b = 0, which is the intercept, and the steps."""

    b: np.ndarray
    intercept: float
    iterations: int


def minimise(K, kinks, low, high, roundness, intercept: bool) -> Dual:
    """Solve the programme above for K: (n, n), t, low and high: (m, n), r: (n,)."""
    at = best = _start(K, kinks, low, high, roundness, intercept)
    goal = TOLERANCE * at.complementarity
    iterations = stale = 0
    while best.complementarity > goal and stale < PATIENCE and iterations < ITERATIONS:
        newton = _Newton(K, at, roundness, intercept)
        # How much complementarity a step towards 0 leaves tells how far to aim.
        affine = newton.step(0.0)
        ahead = at.moved(affine, at.longest(affine))
        aim = (ahead.complementarity / at.complementarity) ** 3 * at.complementarity
        step = newton.step(aim, affine)
        moved = at.moved(step, min(1.0, SHARE * at.longest(step)))
        if moved.complementarity > 0.9 * at.complementarity:
            # The correction can lead in circles (Cartis 2009): half as far, and without it.
            step = newton.step(0.5 * at.complementarity)
            moved = at.moved(step, min(1.0, SHARE * at.longest(step)))
        at = moved
        iterations += 1
        if at.complementarity < best.complementarity:
            best, stale = at, 0
        else:
            stale += 1
    return Dual(best.x.sum(axis=0), best.c, iterations)


class _Point(NamedTuple):
    """x and c, or a step of them; what is between x and its bounds, and a multiplier for each."""

    x: np.ndarray
    c: float
    #: K b + c - t + r x - z_below + z_above, which is to be 0
    stationarity: np.ndarray
    below: np.ndarray
    above: np.ndarray
    z_below: np.ndarray
    z_above: np.ndarray

    @property
    def complementarity(self) -> float:
        products = np.sum(self.below * self.z_below) + np.sum(self.above * self.z_above)
        return products / (2 * self.x.size)

    def longest(self, step) -> float:
        """The longest step, up to 1, that leaves nothing negative."""
        length = 1.0
        for now, by in zip(self[3:], step[3:], strict=True):
            falling = by < 0.0
            if falling.any():
                length = min(length, np.min(-now[falling] / by[falling]))
        return length

    def moved(self, step, length) -> _Point:
        return _Point(*(now + length * by for now, by in zip(self, step, strict=True)))


def _start(K, kinks, low, high, roundness, intercept) -> _Point:
    # As far up in every box, where the sum is 0 if it must be.
    share = -low.sum() / np.sum(high - low) if intercept else 0.5
    x = low + share * (high - low)
    slope = K @ x.sum(axis=0) - kinks + roundness * x
    size = np.mean(np.abs(slope)) or 1.0
    z_below, z_above = np.maximum(slope, 0.0) + size, np.maximum(-slope, 0.0) + size
    return _Point(x, 0.0, slope - z_below + z_above, x - low, high - x, z_below, z_above)


class _Newton:
    """Steps from one point, for which one matrix is factored."""

    def __init__(self, K, at: _Point, roundness, intercept):
        self.K, self.at, self.roundness = K, at, roundness
        curvature = roundness + at.z_below / at.below + at.z_above / at.above
        self.weights = 1.0 / (curvature + PROXIMAL * K.diagonal().mean())
        self.e = self.weights.sum(axis=0)
        self.shifted = Shifted(K, self.e, intercept)

    def step(self, target, predicted: _Point | None = None) -> _Point:
        """Towards complementarity `target`, corrected for the products in a predicted step."""
        at = self.at
        to_below, to_above = target / at.below - at.z_below, target / at.above - at.z_above
        if predicted is not None:
            to_below = to_below - predicted.below * predicted.z_below / at.below
            to_above = to_above - predicted.above * predicted.z_above / at.above
        right = to_below - to_above - at.stationarity
        # dx = weights (right - v), with v = K db + dc; summed over kinks, db = g - e v.
        g = np.sum(self.weights * right, axis=0)
        db, dc = self.shifted.solve(g / self.e, -at.x.sum())
        rise = self.K @ db + dc
        # v from whichever side is not lost to rounding: e is tiny in some rows, huge in others.
        v = np.where(self.e * self.K.diagonal() > 1.0, (g - db) / self.e, rise)
        dx = self.weights * (right - v)
        dz_below = to_below - at.z_below / at.below * dx
        dz_above = to_above + at.z_above / at.above * dx
        change = rise + self.roundness * dx - dz_below + dz_above
        return _Point(dx, dc, change, dx, -dx, dz_below, dz_above)
