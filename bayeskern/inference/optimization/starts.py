"""Starts of searches: draws from the prior, or uniform draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayeskern.core.random import stream
from bayeskern.inference.model.evaluation import draw_prior
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.objective import NegativeLogDensity


@dataclass(frozen=True)
class SearchStarts:
    """Options of the starts of searches.

    Attributes:
        candidates: Draws from the prior for each start but the first.
        median_draws: Draws from the prior whose median is the first start.
        spread_sds: Scale of the draws of values without a prior, around their given values.
        prior_draws: Where no start is finite: draws from the prior.
        uniform_draws: Where no start is finite: uniform draws on (-radius, radius)^d.
        radius: Half the width of that box, as in NumPyro and Stan.
    """

    candidates: int = 16
    median_draws: int = 64
    spread_sds: float = 3.0
    prior_draws: int = 512
    uniform_draws: int = 256
    radius: float = 2.0


STARTS = SearchStarts()


def initial_positions(
    objective: NegativeLogDensity, count: int, seed: int, candidates: int = STARTS.candidates
) -> np.ndarray:
    """Starts of a search: (count, d).

    The first start is the median of draws from the prior. Half of the others are the best of
    `candidates` draws for each; the rest are any draws and their reflections in the median. Values
    without a prior have their given value in the first start, and candidates that are spread widely
    around it, in unconstrained coordinates. The density or its gradient need not be finite at a
    start: `finite_positions` has others.

    Args:
        objective: -log p.
        count: Number of starts.
        seed: Seed of the draws.
        candidates: Draws for each start but the first.
    """
    middle, more = STARTS.median_draws, candidates * (count - 1)
    spread = np.r_[np.zeros(middle), np.full(more, STARTS.spread_sds)]
    draws = draw_prior(objective.target, stream(seed, "starts"), spread)
    first, others = np.median(draws[:middle], axis=0), draws[middle:]
    if count == 1:
        return first[None]
    order, half = np.argsort(objective.values(others)), (count - 1) // 2
    anywhere = others[np.sort(order[half:])][: count // 2]
    # If a draw leads to a mode on one side of the median, its reflection leads to the other side.
    with np.errstate(invalid="ignore"):
        # A draw at the edge of a support lies at infinity, and its reflection nowhere.
        reflected = 2.0 * first - anywhere
    pairs = np.stack([anywhere, reflected], axis=1).reshape(-1, len(first))
    # The best draws lead to high modes, the pairs to modes that are not.
    return np.concatenate([first[None], others[order[:half]], pairs])[:count]


def finite_positions(
    target: Target,
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    count: int,
    seed: int,
    rows: int,
) -> np.ndarray:
    """Positions with a finite density and gradient: at most `count`, (m, d).

    Draws from the prior come first, then uniform ones. They are evaluated `rows` at a time, until
    there are enough.

    Args:
        target: The model.
        evaluate: From z (rows, d), minus the log density (rows,) and its gradient (rows, d).
        count: Number of positions wanted.
        seed: Seed of the draws.
        rows: Rows that `evaluate` takes.
    """
    rng = stream(seed, "finite starts")
    prior = draw_prior(target, rng, np.full(STARTS.prior_draws, STARTS.spread_sds))
    # A distribution whose `sample` is a dummy gives the same draw again and again.
    _, first = np.unique(prior, axis=0, return_index=True)
    uniform = rng.uniform(-STARTS.radius, STARTS.radius, (STARTS.uniform_draws, target.size))
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
