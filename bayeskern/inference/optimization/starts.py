"""Starts of searches: draws from the prior, or uniform ones, with a finite density and gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayeskern.core.random import stream
from bayeskern.inference.model.evaluation import draw_prior
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.objective import NegativeLogDensity

# The candidates for each start but the first, and the draws whose median the first start is.
CANDIDATES, MIDDLE = 16, 64
# Where no start is finite: draws from the prior, and from the uniform distribution on
# (-RADIUS, RADIUS)^d, as in NumPyro and Stan.
PRIOR_DRAWS, UNIFORM_DRAWS, RADIUS = 512, 256, 2.0
# Sds of draws of values without a prior, around where they were given.
SPREAD = 3.0


def initial_positions(
    objective: NegativeLogDensity, count: int, seed: int, candidates: int = CANDIDATES
) -> np.ndarray:
    """Starts of a search: (count, d).

    The first start is the median of MIDDLE draws from the prior; of the others, half are the best
    of so many candidates for each, half are any draws and their reflections in the median. Values
    without a prior begin where they were given, and their candidates are spread widely around that,
    in unconstrained coordinates. The density or its gradient need not be finite at a start:
    `finite_positions` has others.
    """
    more = candidates * (count - 1)
    spread = np.r_[np.zeros(MIDDLE), np.full(more, SPREAD)]
    draws = draw_prior(objective.target, stream(seed, "starts"), spread)
    first, candidates = np.median(draws[:MIDDLE], axis=0), draws[MIDDLE:]
    if count == 1:
        return first[None]
    order, high = np.argsort(objective.values(candidates)), (count - 1) // 2
    anywhere = candidates[np.sort(order[high:])][: count // 2]
    # A draw and its reflection: if the one leads to a mode on this side, the other does not.
    with np.errstate(invalid="ignore"):
        # A draw at the edge of a support lies at infinity, and its reflection nowhere.
        reflected = 2.0 * first - anywhere
    pairs = np.stack([anywhere, reflected], axis=1).reshape(-1, len(first))
    # Half go where the density is high; half go anywhere, to find the modes that are not.
    return np.concatenate([first[None], candidates[order[:high]], pairs])[:count]


def finite_positions(
    target: Target, evaluate: Callable, count: int, seed: int, rows: int
) -> np.ndarray:
    """Positions at which the density and its gradient are finite: at most `count`, (m, d).

    Draws from the prior come first, then uniform ones. They are evaluated `rows` at a time, until
    there are enough.

    Args:
        target: The model.
        evaluate: From z (rows, d), minus the log density (rows,) and its gradient (rows, d).
        count: The number of positions wanted.
        seed: The seed of the draws.
        rows: The rows that `evaluate` takes.
    """
    rng = stream(seed, "finite starts")
    prior = draw_prior(target, rng, np.full(PRIOR_DRAWS, SPREAD))
    # A distribution whose `sample` is a dummy gives the same draw again and again.
    _, first = np.unique(prior, axis=0, return_index=True)
    uniform = rng.uniform(-RADIUS, RADIUS, (UNIFORM_DRAWS, target.size))
    candidates = np.concatenate([prior[np.sort(first)], uniform])
    chosen = np.zeros((0, target.size))
    for begin in range(0, len(candidates), rows):
        part = candidates[begin : begin + rows]
        value, gradient = evaluate(np.resize(part, (rows, target.size)))
        finite = np.isfinite(value) & np.all(np.isfinite(gradient), axis=1)
        chosen = np.concatenate([chosen, part[finite[: len(part)]]])
        if len(chosen) >= count:
            break
    return chosen[:count]
