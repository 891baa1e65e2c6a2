"""Starts of searches: draws from the prior, or uniform draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayeskern.core.random import stream
from bayeskern.inference.model.cost import cost
from bayeskern.inference.model.evaluation import constrain, draw_prior, unconstrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.objective import NegativeLogDensity
from bayeskern.protocols import HasStartingValues

# Default number of starts.
DEFAULT_STARTS = 4
# Array elements that the density may compute, above which one start is the default; it then takes
# about a second.
MAX_COST_OF_STARTS = 2**29
# Draws from the prior for each start except the first.
CANDIDATES_PER_START = 16
# Sd of the coordinates without a proper prior, around their initial values.
SPREAD_SDS = 3.0
# Half the width of the box of uniform draws, as in NumPyro and Stan.
BOX_RADIUS = 2.0


def default_starts(target: Target) -> int:
    """Default number of starts: 1 for a density that takes about a second or more."""
    return DEFAULT_STARTS if cost(target) <= MAX_COST_OF_STARTS else 1


# Draws from the prior whose median is the first start.
MEDIAN_DRAWS = 64
# Distance of a start in the units of the data from the first start.
MIN_START_DISTANCE = 0.5


def initial_positions(
    objective: NegativeLogDensity, count: int, seed: int, candidates: int = CANDIDATES_PER_START
) -> np.ndarray:
    """Starts of a search: (count, d), or (count + 1, d) with a start in the units of the data.

    The first start is the median of draws from the prior. Half of the other starts are the
    candidates of highest density. The rest are other candidates in the order drawn, each followed
    by its reflection in the median. Coordinates without a proper prior have their initial value in
    the first start, and spread widely around it in the candidates. If the model knows values of
    them in the units of its data, half of the candidates spread around these values, which are an
    additional start. The density or its gradient need not be finite at a start:
    `finite_positions` gives replacements.

    Args:
        objective: -log p.
        count: Number of starts.
        seed: Seed of the draws.
        candidates: Draws for each start except the first.
    """
    candidate_draws = candidates * (count - 1)
    spread = np.r_[np.zeros(MEDIAN_DRAWS), np.full(candidate_draws, SPREAD_SDS)]
    draws = draw_prior(objective.target, stream(seed, "starts"), spread)
    first, others = np.median(draws[:MEDIAN_DRAWS], axis=0), draws[MEDIAN_DRAWS:]
    if count == 1:
        return first[None]
    centre = _centre_in_data_units(objective.target, first)
    centres = np.tile(first, (len(others), 1))
    if centre is not None:
        shift = np.where(centre == first, 0.0, centre - first)
        centres[1::2], others[1::2] = centre, others[1::2] + shift
    order, half = np.argsort(objective.values(others)), (count - 1) // 2
    unselected = np.sort(order[half:])[: count // 2]
    # If a draw leads to a mode on one side of the median, its reflection leads to the other side.
    with np.errstate(invalid="ignore"):
        # A draw at the edge of a support is infinite, and its reflection may be NaN.
        reflected = 2.0 * centres[unselected] - others[unselected]
    pairs = np.stack([others[unselected], reflected], axis=1).reshape(-1, len(first))
    # The best draws lead to high modes, the pairs to lower modes too.
    positions = np.concatenate([first[None], others[order[:half]], pairs])[:count]
    if centre is None:
        return positions
    # Searches from equal starts would agree on a plateau.
    is_near = np.all(np.abs(centre - first) < MIN_START_DISTANCE)
    return np.concatenate([positions, [centre + is_near * MIN_START_DISTANCE]])


def further_positions(
    objective: NegativeLogDensity, count: int, rng: np.random.Generator, centre: np.ndarray
) -> np.ndarray:
    """Starts of further searches, the draws of highest density first: (count, d).

    Coordinates without a proper prior spread around `centre` (d,), twice as widely as in
    `initial_positions`.
    """
    spread = np.full(CANDIDATES_PER_START * count, 2.0 * SPREAD_SDS)
    first, draws = np.split(draw_prior(objective.target, rng, np.r_[0.0, spread]), [1])
    without_prior = np.repeat(
        [s.name in objective.target.without_prior for s in objective.target.latents],
        [s.size for s in objective.target.latents],
    )
    draws = draws + np.where(without_prior, centre - first, 0.0)
    return draws[np.argsort(objective.values(draws), kind="stable")[:count]]


def _centre_in_data_units(target: Target, z: np.ndarray) -> np.ndarray | None:
    """z (d,) with coordinates in the units of the data; None if the model knows no such values."""
    model = target.model
    values = model.starting_values(*target.args) if isinstance(model, HasStartingValues) else {}
    if not values:
        return None
    sites = {name: value[0] for name, value in constrain(target, z[None, None]).items()}
    known = {name: np.asarray(value)[None] for name, value in values.items()}
    centre = unconstrain(target, sites | known)[0][0]
    return np.where(np.isfinite(centre), centre, z)


# Draws from the prior, and uniform draws on (-BOX_RADIUS, BOX_RADIUS)^d, from which failed searches
# may restart.
PRIOR_DRAWS, UNIFORM_DRAWS = 512, 256


def finite_positions(
    target: Target,
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    count: int,
    seed: int,
    rows: int,
) -> np.ndarray:
    """At most `count` positions with a finite density and gradient: (m, d).

    Draws from the prior come first, then uniform draws. They are evaluated `rows` at a time, until
    `count` of them are finite.

    Args:
        target: The model.
        evaluate: z (rows, d) -> minus the log density (rows,) and its gradient (rows, d).
        count: Number of positions wanted.
        seed: Seed of the draws.
        rows: Rows that `evaluate` takes.
    """
    rng = stream(seed, "finite starts")
    prior = draw_prior(target, rng, np.full(PRIOR_DRAWS, SPREAD_SDS))
    # Drop repeated draws: the `sample` of a distribution may be a dummy.
    _, first = np.unique(prior, axis=0, return_index=True)
    uniform = rng.uniform(-BOX_RADIUS, BOX_RADIUS, (UNIFORM_DRAWS, target.size))
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
