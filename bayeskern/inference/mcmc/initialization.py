"""Starts of Markov chains: dispersed around the modes, or random without a mode."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.kernel import CALL_POINTS, InitialPoint, potential_and_gradient
from bayeskern.inference.model.checks.bad_data import refuse_nonfinite
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.search.starts import BOX_RADIUS, finite_positions

# Number of draws around each mode that test the mode.
MODE_DRAWS = 20
# Distances of a start from the mode, tried in turn until the density is not extremely low.
START_DISTANCES_SDS = (2.0, 1.0, 0.5, 0.25, 0.1, 0.0)
# Share of the evidence of the best mode below which a mode has no chain.
MIN_EVIDENCE_SHARE = 0.03


class Candidates(NamedTuple):
    """Points z (n, d) with -log p (n,) and its gradient (n, d)."""

    z: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray

    def below(self, max_potential: float) -> np.ndarray:
        """True for points at which a chain could start, False for NaN, (n,)."""
        return (self.potential < max_potential) & np.all(np.isfinite(self.gradient), axis=1)

    def first_below(self, max_potential: float, root: np.ndarray) -> InitialPoint | None:
        """First point at which a chain could start, or None."""
        possible = self.below(max_potential)
        if not possible.any():
            return None
        i = int(np.argmax(possible))
        return InitialPoint(self.z[i], self.potential[i], self.gradient[i], root)


# Maximum number of coordinates for a search, which needs Hessians.
MAX_SEARCH_SIZE = 1000
# Number of starts of the search for modes, and of draws from the prior for each of them.
SEARCH_STARTS, DRAWS_PER_SEARCH_START = 16, 64
# Maximum number of steps of the search.
MAX_SEARCH_STEPS = 200


def find_modes(
    target: Target, seed: int, progress: bool, known: Findings | None = None
) -> Optimum | None:
    """Modes of a known search, or else of a search from many starts.

    Args:
        target: The model.
        seed: Seed of the starts.
        progress: True to show a progress bar.
        known: Findings of earlier fits.

    Returns:
        The best mode with the others; None if there are too many coordinates.
    """
    if target.size > MAX_SEARCH_SIZE:
        return None
    if known is not None and (optimum := known.search(target.coordinates)) is not None:
        return optimum.bounded()
    optimum = find_optimum(
        target,
        SEARCH_STARTS,
        seed,
        MAX_SEARCH_STEPS,
        progress,
        title="NUTS: starts",
        candidates=DRAWS_PER_SEARCH_START,
    )
    return optimum.bounded()


def initial_points(
    target: Target, optimum: Optimum | None, chains: int, seed: int
) -> list[InitialPoint]:
    """Start of each chain, with a finite density, and a root of the covariance there.

    Each chain takes an end of the search; these ends are as distant from one another as possible.
    At a mode, the chain starts two posterior sds away, like a draw of N(mode, 4 H^-1), with a root
    of H^-1. An end that is not a valid mode, or has a negligible share of the evidence, is replaced
    by the best mode. If there is no mode, or the mode is a spike to which no chain would return, as
    in a funnel, the chain starts at a uniform draw on (-2, 2)^d, with unit sds. If the density is
    not finite there, it starts at a draw from the prior or at an end of the search.

    Args:
        target: The model.
        optimum: The ends of a search for modes; None without one.
        chains: Number of chains.
        seed: Seed of the starts.

    Raises:
        ValueError: If the density is finite nowhere, naming the site.
    """
    modes = _modes(optimum, chains) if optimum is not None else [None] * chains
    # NumPy's generator, because each random function of JAX would have to be compiled.
    rng, radius = np.random.default_rng(seed), BOX_RADIUS
    count = MODE_DRAWS + len(START_DISTANCES_SDS)
    boxes = [rng.uniform(-radius, radius, (count, target.size)) for _ in modes]
    around_modes = [
        box if mode is None else _draws_around(mode, rng)
        for mode, box in zip(modes, boxes, strict=True)
    ]
    z = np.stack([*boxes, *around_modes])
    evaluated = [Candidates(*x) for x in zip(z, *potential_and_gradient(target, z), strict=True)]
    box_log_integral = _box_log_integral(evaluated[:chains])
    unit = np.ones(target.size)
    points: list[InitialPoint | None] = []
    for mode, box, around in zip(modes, evaluated[:chains], evaluated[chains:], strict=True):
        point = None if mode is None else _point_at_mode(mode, around, box_log_integral)
        points.append(box.first_below(np.inf, unit) if point is None else point)
    missing = sum(point is None for point in points)
    others = _points_elsewhere(target, optimum, missing, seed, unit) if missing else []
    if missing and not others:
        refuse_nonfinite(target, boxes[0][0])
    replacements = cycle(others)
    return [next(replacements) if point is None else point for point in points]


# Share of the draws around a mode whose density the curvature must predict; below it the mode is a
# spike in a funnel.
MIN_PREDICTED_SHARE = 0.9


def _point_at_mode(
    mode: Optimum, around: Candidates, box_log_integral: float
) -> InitialPoint | None:
    """Start near a mode; None if the mode is not representative of the posterior.

    A mode is not representative if its curvature does not predict the density around it, as at a
    spike, or if most of the posterior lies in the box around the origin.
    """
    max_potential, (tril, _) = _max_potential(mode), mode.inverse_root
    predicted = np.mean(around.below(max_potential)[:MODE_DRAWS])
    min_log_evidence = box_log_integral + np.log(MIN_EVIDENCE_SHARE)
    if predicted < MIN_PREDICTED_SHARE or not mode.log_evidence > min_log_evidence:
        return None
    dispersed = Candidates(*(x[MODE_DRAWS:] for x in around))
    return dispersed.first_below(max_potential, tril)


def _points_elsewhere(
    target: Target, optimum: Optimum | None, count: int, seed: int, root: np.ndarray
) -> list[InitialPoint]:
    """At most `count` starts, at draws from the prior or else at ends of the search."""
    evaluate = partial(potential_and_gradient, target)
    z = finite_positions(target, evaluate, count, seed, CALL_POINTS)
    if not len(z) and optimum is not None:
        z = optimum.ends[np.argsort(-optimum.start_log_densities)]
    if not len(z):
        return []
    potential, gradient = evaluate(z)
    possible = np.flatnonzero(Candidates(z, potential, gradient).below(np.inf))[:count]
    return [InitialPoint(z[i], potential[i], gradient[i], root) for i in possible]


def start_at(
    target: Target, points: list[InitialPoint], values: dict[str, Any]
) -> list[InitialPoint]:
    """Starts of chains with some sites at given values.

    Args:
        target: The model.
        points: Starts; their other sites keep their values.
        values: Values by site, each (*shape) or (chains, *shape).

    Raises:
        ValueError: If a site is unknown or cannot have its value, naming the site.
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
                f"init: {name} must have shape {shape}, or {(chains, *shape)} for a start of each "
                f"of {chains} chains; got {value.shape}."
            )
        by_chain[name] = np.broadcast_to(value, (chains, *shape))
    z = []
    for i, point in enumerate(points):
        sites = target.constrain(jnp.asarray(point.z))
        sites |= {name: jnp.asarray(value[i]) for name, value in by_chain.items()}
        try:
            z.append(np.asarray(target.unconstrain(sites)[0]))
        except ValueError:
            # NumPyro refuses parameters that a distribution cannot have.
            z.append(np.full(target.size, np.nan))
    potential, gradient = potential_and_gradient(target, np.stack(z))
    if not (np.all(np.isfinite(potential)) and np.all(np.isfinite(gradient))):
        raise ValueError(
            f"init: the log density or its gradient is not finite at the values of "
            f"{', '.join(by_chain)}. Give values inside their supports."
        )
    return [
        point._replace(z=z[i], potential=potential[i], gradient=gradient[i])
        for i, point in enumerate(points)
    ]


def _box_log_integral(boxes: list[Candidates]) -> float:
    """Log integral of the density over the box on which the candidates are uniform."""
    d, potential = boxes[0].z.shape[1], np.concatenate([box.potential for box in boxes])
    total = logsumexp(-np.where(np.isnan(potential), np.inf, potential))
    return float(total - np.log(len(potential)) + d * np.log(2.0 * BOX_RADIUS))


def _modes(optimum: Optimum, chains: int) -> list[Optimum | None]:
    """A mode for each chain; None if no end of the search is a valid mode."""
    modes = [optimum.at(i) for i in _distant_ends(optimum, chains)]
    modes = [mode if mode.converged and not mode.inverse_root[1] else None for mode in modes]
    valid = [mode for mode in modes if mode is not None]
    if not valid:
        return modes
    best = max(valid, key=lambda mode: mode.log_evidence)
    min_log_evidence = best.log_evidence + np.log(MIN_EVIDENCE_SHARE)
    return [best if m is None or m.log_evidence < min_log_evidence else m for m in modes]


# Distance below which two ends of the search belong to one mode.
SAME_MODE_SDS = 1.0


def _distant_ends(optimum: Optimum, count: int) -> list[int]:
    """Indices of `count` ends of the search: the best, then the most distant ends.

    Ends with an extremely low density are left out.
    """
    high = np.flatnonzero(-optimum.start_log_densities < _max_potential(optimum))
    tril, repaired = optimum.inverse_root
    # Distances in posterior sds of the best mode, if it has a curvature.
    metric = np.eye(len(optimum.z)) if repaired else np.linalg.inv(tril).T
    steps = (optimum.ends[high, None] - optimum.ends[high]) @ metric
    distance = np.sqrt(np.sum(np.square(steps), axis=-1))
    chosen = [int(np.argmax(optimum.start_log_densities[high]))]
    for _ in range(count - 1):
        nearest = np.min(distance[chosen], axis=0)
        if np.any(nearest > SAME_MODE_SDS):
            chosen.append(int(np.argmax(nearest)))
        else:
            # All other ends belong to chosen modes, which are repeated in turn.
            chosen.append(chosen[len(chosen) % len(set(chosen))])
    return [int(high[i]) for i in chosen]


def _draws_around(mode: Optimum, rng: np.random.Generator) -> np.ndarray:
    """Draws from N(mode, H^-1), then points at START_DISTANCES_SDS in one direction."""
    *draws, last = rng.normal(size=(MODE_DRAWS + 1, len(mode.z)))
    white = np.concatenate([draws, np.multiply.outer(np.array(START_DISTANCES_SDS), last)])
    return mode.z + white @ mode.inverse_root[0].T


def _max_potential(optimum: Optimum) -> float:
    """Highest potential of a start."""
    return -optimum.log_density + max_drop(len(optimum.z))


def max_drop(d: int) -> float:
    """Drop of the log density below a mode that most draws of N(mode, 4 H^-1) stay above.

    The mean drop of such draws in d coordinates is 2 d, at a Gaussian mode.
    """
    return 4.0 * d + 25.0
