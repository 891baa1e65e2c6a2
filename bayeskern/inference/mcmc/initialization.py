"""Where Markov chains start: spread out around the modes, or at random where none was found."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from bayeskern.inference.mcmc.kernel import BLOCK, InitialPoint, potential_and_gradient
from bayeskern.inference.model.checks.bad_data import refuse_nonfinite
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import inverse_hessian_root, robust_cholesky
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.optimization.search import find_optimum
from bayeskern.inference.optimization.starts import STARTS as SEARCH_STARTS
from bayeskern.inference.optimization.starts import finite_positions

# Sds from the mode, tried in turn until the density there is neither zero nor absurdly low.
SPREAD = (2.0, 1.0, 0.5, 0.25, 0.1, 0.0)
# Draws around each mode, and from the uniform distribution on (-2, 2)^d.
TRIES = 20
# The share of TRIES draws around a mode whose density its curvature must foretell; a mode at which
# it foretells fewer is a spike in a funnel.
FORETOLD = 0.9
# The search for modes: its starts, the draws from the prior looked at for each of them, and its
# steps; no Hessian above this many coordinates.
STARTS, CANDIDATES, STEPS = 16, 64, 200
LARGEST = 1000
# Ends that are fewer sds apart belong to one mode.
SAME_MODE = 1.0
# The largest condition number of a covariance, in units of its sds, that a diagonal mass matrix is
# left alone with.
MAX_CONDITION = 400.0
# A mode with less than this share of the evidence of the best one has no chain of its own.
NEGLIGIBLE = 0.03


class ModeWithRoot(NamedTuple):
    """An optimum, and L with L L' = H^-1."""

    optimum: Optimum
    tril: np.ndarray


class Starts(NamedTuple):
    """Starts of chains, and the scale of their coordinates.

    scale: as in `ScaledTarget`.
    """

    points: list[InitialPoint]
    scale: np.ndarray


class Candidates(NamedTuple):
    """Values of z (n, d) with -log p (n,) and its gradient (n, d)."""

    z: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray

    def below(self, highest) -> np.ndarray:
        """Where a chain could start: NaN is not below."""
        return (self.potential < highest) & np.all(np.isfinite(self.gradient), axis=1)


def find_modes(target: Target, seed: int, progress: bool) -> Optimum | None:
    """The ends of a search for modes from many starts; None with too many coordinates for it."""
    if target.size > LARGEST:
        return None
    optimum = find_optimum(
        target, STARTS, seed, STEPS, progress, title="NUTS: starts", candidates=CANDIDATES
    )
    return optimum.bounded()


def chain_starts(
    target: Target, optimum: Optimum | None, chains: int, seed: int, dense: bool, one_mass: bool
) -> Starts:
    """Starts of chains in coordinates in which the sds are about 1.

    Where all chains start at modes and the covariance there, in units of its sds, has a larger
    condition number than MAX_CONDITION, the coordinates are those in which it is the unit matrix: a
    diagonal mass matrix would need as many steps as its root.

    dense, optimum: as in `initial_points`; one_mass: whether the mass matrix is a single diagonal.
    """
    may_rotate = one_mass and optimum is not None
    points = initial_points(target, optimum, chains, seed, dense or may_rotate)
    if points[0].inverse_mass.ndim == 1:
        return Starts(points, np.sqrt(np.median([p.inverse_mass for p in points], axis=0)))
    variances = np.stack([np.diag(p.inverse_mass) for p in points])
    sds = np.sqrt(np.median(variances, axis=0))
    if not may_rotate:
        return Starts(points, sds)
    covariance = np.mean([p.inverse_mass for p in points], axis=0)
    own = np.sqrt(np.diag(covariance))
    at_modes = all(p.at_mode for p in points)
    if at_modes and np.linalg.cond(covariance / np.outer(own, own)) > MAX_CONDITION:
        return Starts(points, robust_cholesky(covariance))
    diagonal = [p._replace(inverse_mass=v) for p, v in zip(points, variances, strict=True)]
    return Starts(diagonal, sds)


def initial_points(
    target: Target, optimum: Optimum | None, chains: int, seed: int, dense: bool = False
) -> list[InitialPoint]:
    """A start for each chain, with a finite density, and its first inverse mass matrix.

    optimum: with the ends of a search for modes. Chains take ends that are as far apart as can be,
    and begin two posterior sds away from them, as N(mode, 4 H^-1), with the inverse mass matrix
    H^-1 (its diagonal, unless dense). A mode that has a negligible share of the evidence gives way
    to the best one. Where there is no sound mode, or it is a spike that no chain would come back
    from, as in a funnel, a chain begins uniformly on (-2, 2)^d with a unit mass matrix; where the
    density is not finite there, at a draw from the prior or an end of the search. Raises
    ValueError, naming the site, if the density is finite nowhere.
    """
    modes = _modes(optimum, chains) if optimum is not None else [None] * chains
    # NumPy's generator, since each of JAX's functions would be compiled for itself.
    rng = np.random.default_rng(seed)
    boxes = [_uniform(target, rng) for _ in modes]
    near_modes = [
        box if mode is None else _normal(mode, rng) for mode, box in zip(modes, boxes, strict=True)
    ]
    evaluated = _evaluate(target, [*boxes, *near_modes])
    boxes, near_modes = evaluated[:chains], evaluated[chains:]
    box_log_evidence = _evidence_on_box(boxes)
    unit = np.eye(target.size) if dense else np.ones(target.size)
    points: list[InitialPoint | None] = []
    for mode, box, near in zip(modes, boxes, near_modes, strict=True):
        point = None
        if mode is not None and _is_representative(mode.optimum, near, box_log_evidence):
            last = Candidates(*(x[TRIES:] for x in near))
            point = _first(last, _highest(mode.optimum), _mass(mode.tril, dense))
            point = point and point._replace(at_mode=True)
        points.append(_first(box, np.inf, unit) if point is None else point)
    missing = [i for i, point in enumerate(points) if point is None]
    if missing:
        others = _elsewhere(target, optimum, len(missing), seed, unit)
        if not others:
            refuse_nonfinite(target, boxes[0].z[0])
        for turn, i in enumerate(missing):
            points[i] = others[turn % len(others)]
    return points


def _elsewhere(
    target: Target, optimum: Optimum | None, count: int, seed: int, inverse_mass
) -> list[InitialPoint]:
    """At most `count` starts, at draws from the prior or else at ends of the search."""
    evaluate = partial(potential_and_gradient, target)
    z = finite_positions(target, evaluate, count, seed, BLOCK)
    if not len(z) and optimum is not None:
        order = np.argsort(-optimum.start_log_densities)
        z = optimum.ends[order]
    if not len(z):
        return []
    candidates = Candidates(z, *evaluate(z))
    possible = candidates.below(np.inf)
    return [
        InitialPoint(*at, inverse_mass)
        for *at, finite in zip(*candidates, possible, strict=True)
        if finite
    ][:count]


def start_at(target: Target, points: list[InitialPoint], values: dict) -> list[InitialPoint]:
    """The starts of chains with some sites at given values, each (*shape) or (chains, *shape).

    Raises ValueError, naming the site, for one that is unknown or a value that it cannot have.
    """
    shapes, chains = {site.name: site.shape for site in target.latents}, len(points)
    by_chain = {}
    for name, value in values.items():
        if name not in shapes:
            raise ValueError(
                f"init has a value for {name!r}; the latent sites are {', '.join(shapes)}."
            )
        value, shape = np.asarray(value, float), shapes[name]
        if value.shape not in (shape, (chains, *shape)):
            raise ValueError(
                f"init: {name} has shape {value.shape}; wanted is {shape}, or "
                f"{(chains, *shape)} for a start of each of {chains} chains."
            )
        by_chain[name] = np.broadcast_to(value, (chains, *shape))
    z = []
    for i, point in enumerate(points):
        here = target.constrain(jnp.asarray(point.z))
        here |= {name: jnp.asarray(value[i]) for name, value in by_chain.items()}
        try:
            z.append(np.asarray(target.unconstrain(here)[0]))
        except ValueError:
            # NumPyro refuses parameters that a distribution cannot have.
            z.append(np.full(target.size, np.nan))
    potential, gradient = potential_and_gradient(target, np.stack(z))
    if not (np.all(np.isfinite(potential)) and np.all(np.isfinite(gradient))):
        raise ValueError(
            f"init: the log density or its gradient is not finite at the values of "
            f"{', '.join(by_chain)}. Give values inside of their supports."
        )
    return [
        InitialPoint(*at, point.inverse_mass, point.at_mode)
        for *at, point in zip(z, potential, gradient, points, strict=True)
    ]


def _first(candidates: Candidates, highest: float, inverse_mass) -> InitialPoint | None:
    """The first of the candidates at which a chain could start, or None."""
    possible = candidates.below(highest)
    i = int(np.argmax(possible))
    return InitialPoint(*(x[i] for x in candidates), inverse_mass) if possible.any() else None


def _evidence_on_box(boxes) -> float:
    """The log of the density's integral over the box that the candidates are uniform on."""
    d, potential = boxes[0].z.shape[1], np.concatenate([box.potential for box in boxes])
    total = logsumexp(-np.where(np.isnan(potential), np.inf, potential))
    return total - np.log(len(potential)) + d * np.log(2.0 * SEARCH_STARTS.radius)


def _modes(optimum, chains) -> list[ModeWithRoot | None]:
    """A mode for each chain, or None if that is no sound one."""
    ends = _far_apart(optimum, chains)
    by_end = {}
    for i in dict.fromkeys(ends):
        mode = optimum.at(i)
        tril, repaired = inverse_hessian_root(mode) if mode.converged else (None, "no mode")
        by_end[i] = None if repaired else ModeWithRoot(mode, tril)
    modes = [by_end[i] for i in ends]
    sound = [mode for mode in modes if mode is not None]
    if not sound:
        return modes
    best = max(sound, key=lambda mode: mode.optimum.log_evidence)
    least = best.optimum.log_evidence + np.log(NEGLIGIBLE)
    return [best if m and m.optimum.log_evidence < least else m for m in modes]


def _far_apart(optimum, count: int) -> list[int]:
    """So many ends of the search: the best, and one by one those that are farthest from them.

    Ends where the density is absurdly low are left out.
    """
    high = np.flatnonzero(-optimum.start_log_densities < _highest(optimum))
    steps = (optimum.ends[high, None] - optimum.ends[high]) @ _metric(optimum)
    distance = np.sqrt(np.sum(np.square(steps), axis=-1))
    chosen = [int(np.argmax(optimum.start_log_densities[high]))]
    for _ in range(count - 1):
        nearest = np.min(distance[chosen], axis=0)
        # Ends of one mode are as good as one another.
        far = nearest > SAME_MODE
        some = int(np.argmax(nearest)) if far.any() else chosen[len(chosen) % len(set(chosen))]
        chosen.append(some)
    return [int(high[i]) for i in chosen]


def _metric(optimum) -> np.ndarray:
    """M with |(z - z') M| the distance in posterior sds of the best mode, if it has a curvature."""
    tril, repaired = inverse_hessian_root(optimum)
    return np.eye(len(optimum.z)) if repaired else np.linalg.inv(tril).T


def _uniform(target, rng) -> np.ndarray:
    radius = SEARCH_STARTS.radius
    return rng.uniform(-radius, radius, (TRIES + len(SPREAD), target.size))


def _normal(mode, rng) -> np.ndarray:
    """TRIES draws from N(mode, H^-1), and one more at each distance in SPREAD, falling."""
    *draws, last = rng.normal(size=(TRIES + 1, len(mode.optimum.z)))
    white = np.concatenate([draws, np.multiply.outer(np.array(SPREAD), last)])
    return mode.optimum.z + white @ mode.tril.T


def _mass(tril, dense) -> np.ndarray:
    return tril @ tril.T if dense else np.sum(np.square(tril), axis=1)


def _is_representative(optimum, near: Candidates, box_log_evidence: float) -> bool:
    """Whether a chain that starts here is near most of the posterior, as far as can be seen.

    In a spike the density is foretold badly by its curvature, or far more lies elsewhere.
    """
    share = np.mean(near.below(_highest(optimum))[:TRIES])
    return share >= FORETOLD and optimum.log_evidence > box_log_evidence + np.log(NEGLIGIBLE)


def _highest(optimum) -> float:
    """The highest potential for a start: well above draws two sds from the mode of a Gaussian.

    Those are 2 d above the potential of the mode on average.
    """
    return -optimum.log_density + 4.0 * len(optimum.z) + 25.0


def _evaluate(target, parts) -> list[Candidates]:
    z = np.stack(parts)
    return [Candidates(*x) for x in zip(z, *potential_and_gradient(target, z), strict=True)]
