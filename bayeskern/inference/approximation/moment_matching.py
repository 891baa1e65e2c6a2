"""Draws moved until their weighted moments agree with their own moments.

Paananen, Piironen, Buerkner and Vehtari (2021), "Implicitly adaptive importance sampling": draws
from a proposal g become draws from the image of g under an affine map, which fits the target better
and whose density is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bayeskern.inference.approximation.psis import Weights, pareto_smooth, weighted_moments

# Log density at points (n, d): (n,), up to a constant.
type LogDensity = Callable[[np.ndarray], np.ndarray]


class Affine(NamedTuple):
    """The map z -> matrix z + offset.

    Attributes:
        matrix: (d, d), or (d,) for a diagonal matrix; with positive determinant.
        offset: (d,).
    """

    matrix: np.ndarray
    offset: np.ndarray

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Images of z (n, d)."""
        return _times(self.matrix, z) + self.offset

    def after(self, first: Affine) -> Affine:
        """The map that applies `first`, and then this map."""
        # The columns of the first matrix are mapped by the second one.
        columns = first.matrix if self.matrix.ndim == 1 == first.matrix.ndim else _full(first)
        product = _times(self.matrix, columns.T).T
        return Affine(product, self(first.offset[None])[0])

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Points whose images are z (n, d)."""
        if self.matrix.ndim == 1:
            return (z - self.offset) / self.matrix
        return np.linalg.solve(self.matrix, (z - self.offset).T).T

    @property
    def log_det(self) -> float:
        """Logarithm of the determinant."""
        if self.matrix.ndim == 1:
            return float(np.sum(np.log(self.matrix)))
        return float(np.linalg.slogdet(self.matrix)[1])


class Proposal(NamedTuple):
    """Draws from a distribution g.

    Attributes:
        z: The draws, (S, d).
        log_density: log g of each draw, (S,), up to a constant.
        at: log g at any points, with the constant of `log_density`.
        efficiency: Effective draws per draw.
    """

    z: np.ndarray
    log_density: np.ndarray
    at: LogDensity
    efficiency: float = 1.0


class Matched(NamedTuple):
    """Weighted draws after moment matching.

    Attributes:
        z: The draws, (S, d).
        weights: Their weights.
        steps: Number of maps that were applied; 0 if the draws did not move.
        shift: Largest distance of a weighted mean from the mean of the draws, in sds, if all draws
            move.
        khat: k-hat of the weights, infinite if it is unknown; at least the k-hat before matching if
            the moments could not be matched.
    """

    z: np.ndarray
    weights: Weights
    steps: int
    shift: float
    khat: float

    @classmethod
    def from_weights(cls, z: np.ndarray, weights: Weights, steps: int) -> Matched:
        """Weighted draws, all moved."""
        sd = np.std(z, axis=0)
        moving = sd > 0.0
        shift = np.abs(weights.normal @ z - z.mean(axis=0))[moving] / sd[moving]
        khat = np.inf if np.isnan(weights.khat) else weights.khat
        return cls(z, weights, steps, float(np.max(shift, initial=0.0)), khat)

    @property
    def has_low_khat(self) -> bool:
        """True if k-hat is at most its threshold."""
        return self.khat <= self.weights.threshold


# Maximum number of maps that are applied one after another.
MAX_MATCHING_STEPS = 30
# Largest distance of a weighted mean from the mean of all moved draws, in their sds, at which
# moments count as matched. A target beyond all draws has weights with a small k-hat and a large
# distance.
MAX_SHIFT_SDS = 0.5
# k-hat at which no further step is tried. Between this value and the threshold of k-hat, estimates
# have a bias of several standard errors.
GOAL_KHAT = 0.5


def match_moments(proposal: Proposal, log_target: LogDensity) -> Matched:
    """Move draws towards a target until k-hat of their weights is small.

    Each step moves the draws to their weighted mean; if that does not lower k-hat, it matches
    marginal variances too, and otherwise the covariance. The result is a mixture of the proposal g
    and its image under T, the map of all steps: every second draw moves, and the weights are

        target(z) / (g(z) + g(T^-1 z) / |det T|),

    so that the draws cover both g and the target (section 3.3 of the paper).

    Args:
        proposal: Draws from g.
        log_target: Log density of the target.

    Returns:
        The weighted draws. If k-hat is small from the start, or no step lowers it, these are the
        draws of the proposal with smoothed weights.

    References:
        Paananen, Piironen, Buerkner and Vehtari (2021), "Implicitly adaptive importance sampling",
        algorithms 1 and 2.
    """
    start = moved = _moved(proposal, log_target, proposal.z, 0)
    if start.has_low_khat:
        return start
    goal = min(GOAL_KHAT, start.weights.threshold)
    best, total = start, Affine(np.ones(start.z.shape[1]), np.zeros(start.z.shape[1]))
    while moved.steps < MAX_MATCHING_STEPS:
        for step in _steps(moved.z, moved.weights.normal):
            new = _moved(proposal, log_target, step(moved.z), moved.steps + 1)
            # With a low k-hat, the moments decide.
            is_closer = max(moved.khat, new.khat) <= goal and new.shift < moved.shift
            if is_closer or (new.khat < moved.khat and moved.khat > goal):
                moved, total = new, step.after(total)
                break
        else:
            break
        if moved.khat <= goal and moved.shift <= MAX_SHIFT_SDS:
            best = _mixture(proposal, log_target, moved, total)
            if best.khat <= goal:
                return best
    if moved.steps > best.steps:
        best = _mixture(proposal, log_target, moved, total)
        if moved.shift > MAX_SHIFT_SDS:
            best = best._replace(khat=max(best.khat, start.khat))
    return best if best.khat <= start.khat else start


def _moved(proposal: Proposal, log_target: LogDensity, z: np.ndarray, steps: int) -> Matched:
    """All draws moved to z.

    The determinant of the map is a constant factor of the weights, and is left out.
    """
    log_ratios = log_target(z) - proposal.log_density
    return Matched.from_weights(z, pareto_smooth(log_ratios, proposal.efficiency), steps)


def _mixture(proposal: Proposal, log_target: LogDensity, moved: Matched, total: Affine) -> Matched:
    """Every second draw moved; weights by the mixture of proposal and image."""
    is_moved = np.arange(len(moved.z)) % 2 == 0
    z = np.where(is_moved[:, None], moved.z, proposal.z)
    log_own, log_image = proposal.log_density.copy(), proposal.log_density.copy()
    log_own[is_moved] = proposal.at(z[is_moved])
    log_image[~is_moved] = proposal.at(total.inverse(z[~is_moved]))
    log_ratios = log_target(z) - np.logaddexp(log_own, log_image - total.log_det)
    mixed = Matched.from_weights(z, pareto_smooth(log_ratios, proposal.efficiency), moved.steps)
    return mixed._replace(shift=moved.shift)


# Draws per coordinate below which covariances are not matched, because their estimates are too
# noisy.
MIN_DRAWS_PER_COORDINATE = 10


def _steps(z: np.ndarray, weights: np.ndarray) -> Iterator[Affine]:
    """Maps that match more and more moments of z (S, d) to their weighted moments."""
    count, d = z.shape
    mean = z.mean(axis=0)
    # Centred first: squares of large numbers would lose their differences.
    centred = z - mean
    shift = weights @ centred
    yield Affine(np.ones(d), shift)
    variances = np.mean(np.square(centred), axis=0)
    weighted_variances = weights @ np.square(centred - shift)
    usable = (variances > 0.0) & (weighted_variances > 0.0)
    scales = np.ones(d)
    scales[usable] = np.sqrt(weighted_variances[usable] / variances[usable])
    yield Affine(scales, mean + shift - scales * mean)
    if count < MIN_DRAWS_PER_COORDINATE * d:
        return
    try:
        root = np.linalg.cholesky(centred.T @ centred / count)
        weighted_root = np.linalg.cholesky(weighted_moments(centred, weights)[1])
    except np.linalg.LinAlgError:
        return
    matrix = np.linalg.solve(root.T, weighted_root.T).T
    yield Affine(matrix, mean + shift - matrix @ mean)


def _times(matrix: np.ndarray, z: np.ndarray) -> np.ndarray:
    """matrix z for each row of z (n, d)."""
    return z * matrix if matrix.ndim == 1 else z @ matrix.T


def _full(affine: Affine) -> np.ndarray:
    return np.diag(affine.matrix) if affine.matrix.ndim == 1 else affine.matrix
