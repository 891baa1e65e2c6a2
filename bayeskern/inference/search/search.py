"""Search for modes of a density, from several starts and from unexplained draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayeskern.core.plateaus import Neighbourhood
from bayeskern.core.progress import Progress
from bayeskern.core.random import stream
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.checks.bad_data import refuse_bad_data, refuse_nonfinite
from bayeskern.inference.model.cost import cost, has_open_loop, is_very_costly
from bayeskern.inference.model.exchangeable import Exchanges, find_exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.curvature import HessianAt, derivatives, hessian_at
from bayeskern.inference.search.lbfgs import GRADIENT_TOL, SearchState, evaluate, minimise
from bayeskern.inference.search.modes import LOG_DENSITY_TOL_NATS, Optimum
from bayeskern.inference.search.objective import NegativeLogDensity
from bayeskern.inference.search.starts import (
    CANDIDATES_PER_START,
    default_starts,
    finite_positions,
    further_positions,
    initial_positions,
)
from bayeskern.inference.search.unexplained import (
    affordable_draws,
    excess_log_density,
    highest,
    wide_draws,
)

# Coordinates above which no Hessians are computed, and no search starts at unexplained draws.
MAX_HESSIAN_SIZE = 1_000
# Array elements that the density may compute, above which no search for a point estimate, which no
# weights check, starts at unexplained draws: a tenth of a second.
MAX_COST_OF_POINT = 2**26


def find_optimum(
    target: Target,
    starts: int | None,
    seed: int,
    steps: int,
    progress: bool,
    jacobian: bool = True,
    prior: bool = True,
    title: str = "MAP",
    candidates: int = CANDIDATES_PER_START,
    checkpoint: str | Path | None = None,
    hessian: str = "exact",
) -> Optimum:
    """Best mode of log p(z) from several starts, with the other modes in `others`.

    Args:
        target: The model.
        starts: Number of starts; None for `default_starts`. With more than one, further searches
            begin at unexplained draws, unless there are too many coordinates or the density is too
            costly.
        seed: Seed of the starts.
        steps: Maximum number of L-BFGS steps.
        progress: True to show a progress bar.
        jacobian: As in `Target.log_density`.
        prior: As in `Target.log_density`.
        title: Title of the progress bar.
        candidates: Draws from the prior for each start except the first.
        checkpoint: File to which the search is saved, and from which a killed search continues.
        hessian: Curvature of the modes, as in `hessian_at`.

    Raises:
        ValueError: If the density is finite at no start, naming the site; or if the checkpoint
            belongs to another run.
    """
    target.require_latents()
    starts = default_starts(target) if starts is None else starts
    objective = NegativeLogDensity(target, jacobian, prior)
    file = state = None
    if checkpoint is not None:
        # Without the number of steps: a search that was too short may continue with more.
        settings = (objective.mode, starts, seed)
        file = CheckpointFile(checkpoint, "a search for modes", target, settings)
        state = file.read_as(SearchState, lambda s: (objective.values(s.z), s.value))
    positions = initial_positions(objective, starts, seed, candidates) if state is None else state.z
    with Progress(title, steps, progress) as bar:

        def report(steps_taken: int, state: SearchState) -> None:
            bar.to(steps_taken, f"log density {-np.min(state.value):.4f}")
            if file is not None:
                file.write(state._asdict())

        z, values, gradients = minimise(objective, positions, steps, report=report, state=state)
    if not np.all(np.isfinite(values)):
        z, values, gradients = _restart_nonfinite(
            objective, positions, (z, values, gradients), seed, steps
        )
    # A start in the units of the data comes after the others.
    centre = positions[-1] if len(positions) > starts else positions[0]
    ends = SearchEnds(objective, hessian, centre, len(positions), z, values, gradients)
    if starts > 1 and np.any(objective.may_be_flat) and target.size <= MAX_HESSIAN_SIZE:
        _search_further(ends, seed, steps, progress, title)
    is_point = objective.is_point_estimate
    is_slow = cost(target) > MAX_COST_OF_POINT if is_point else is_very_costly(target)
    if starts == 1 or target.size > MAX_HESSIAN_SIZE or is_slow or has_open_loop(target):
        # Hessians of many coordinates are too large. A loop of unknown length may not end at
        # extreme values, where unexplained draws may lie.
        return ends.best()
    return _search_unexplained(ends, seed, steps, progress, title)


@dataclass(eq=False)
class SearchEnds:
    """Ends of searches, and the optimum at each.

    Attributes:
        objective: The function that was minimised.
        hessian: Curvature of the modes, as in `hessian_at`.
        centre: The start in the units of the data, or else the first start, (d,).
        rows: Searches that are run at a time; their program is compiled for this number.
        z: Ends, (k, d).
        values: The objective at the ends, (k,).
        gradients: Its gradient at the ends, (k, d).
    """

    objective: NegativeLogDensity
    hessian: str
    centre: np.ndarray
    rows: int
    z: np.ndarray
    values: np.ndarray
    gradients: np.ndarray

    def __post_init__(self) -> None:
        self._optima: dict[int, Optimum] = {}

    def add(self, z: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> None:
        """Add ends of further searches."""
        self.z = np.concatenate([self.z, z])
        self.values = np.concatenate([self.values, values])
        self.gradients = np.concatenate([self.gradients, gradients])

    def search_from(self, positions: np.ndarray, steps: int, bar: Progress) -> None:
        """Search from at most `rows` further positions (k, d), and add the ends."""
        padded = np.resize(positions, (self.rows, positions.shape[1]))
        with bar:
            results = minimise(self.objective, padded, steps, report=lambda taken, _: bar.to(taken))
        self.add(*(x[: len(positions)] for x in results))

    def evaluate(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The objective (k,) and its gradient (k, d) at points (k, d), by the same program."""
        parts = [z[begin : begin + self.rows] for begin in range(0, len(z), self.rows)]
        results = [
            [
                x[: len(part)]
                for x in evaluate(self.objective, np.resize(part, (self.rows, part.shape[1])))
            ]
            for part in parts
        ]
        values, gradients = (np.concatenate(x) for x in zip(*results, strict=True))
        return values, gradients

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """Log densities at points, (k, d) -> (k,)."""
        return -self.evaluate(z)[0]

    def coincide(self) -> bool:
        """True if two searches ended at the best point, so that it is no plateau."""
        best = int(np.argmin(self.values))
        distance = np.max(np.abs(self.z - self.z[best]) / (1.0 + np.abs(self.z[best])), axis=1)
        as_high = self.values < self.values[best] + LOG_DENSITY_TOL_NATS
        return bool(np.sum(as_high & (distance < LOG_DENSITY_TOL_NATS)) > 1)

    def add_exchanged_modes(self, exchanges: Exchanges) -> None:
        """Add the modes in other orders of exchangeable members."""
        best = self.best()
        for mode in (best, *best.others):
            copies = exchanges.copies(mode.z)
            if len(copies):
                self.add(copies, *self.evaluate(copies))

    def best(self, **fields: Any) -> Optimum:
        """The optimum at the lowest end, with other values for these fields of `Optimum`."""
        best = self.at(int(np.argmin(self.values)))
        return replace(best, ends=self.z, start_log_densities=-self.values, **fields)

    def at(self, i: int) -> Optimum:
        """The optimum at the i-th end."""
        if i not in self._optima:
            z, value, gradient = _polish(
                self.objective, self.z[i], float(self.values[i]), self.gradients[i]
            )
            target = self.objective.target
            self._optima[i] = Optimum(
                z=z,
                log_density=-value,
                gradient=gradient,
                curvature=HessianAt(self.objective, z, self.hessian),
                ends=self.z,
                start_log_densities=-self.values,
                coordinates=tuple(target.coordinates),
                mode=self.objective.mode,
                at=self.at,
                proper=self.objective.prior and not target.without_scale,
                unexplained_places=np.zeros((0, target.size)),
                neighbourhood=Neighbourhood(
                    self.log_densities,
                    self.objective.may_be_flat,
                    self.centre,
                    tuple(target.coordinates),
                ),
            )
        return self._optima[i]


def _restart_nonfinite(
    objective: NegativeLogDensity,
    positions: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray],
    seed: int,
    steps: int,
) -> list[np.ndarray]:
    """Ends of searches, after failed searches have restarted at a finite density.

    Nothing is compiled. Raises ValueError, naming the site, if the density is finite at no start.

    Args:
        objective: The function that is minimised.
        positions: Starts, (k, d).
        ends: End z (k, d) of the search from each start, with the objective and its gradient.
        seed: Seed of the finite starts.
        steps: Maximum number of steps of each search.
    """
    target, failed = objective.target, ~np.isfinite(ends[1])
    if failed.all():
        refuse_bad_data(target, positions[0])
    starts = finite_positions(
        target, partial(evaluate, objective), int(failed.sum()), seed, len(positions)
    )
    if failed.all() and not len(starts):
        refuse_nonfinite(target, positions[0])
    replaced = np.flatnonzero(failed)[: len(starts)]
    # The other rows are NaN: a search from NaN ends at once.
    restarts = np.full(positions.shape, np.nan)
    restarts[replaced] = starts
    results = [np.array(x) for x in ends]
    for old, new in zip(results, minimise(objective, restarts, steps), strict=True):
        old[replaced] = new[replaced]
    return results


def _search_further(ends: SearchEnds, seed: int, steps: int, progress: bool, title: str) -> None:
    """Further searches while the starts disagree, or the best mode is on a plateau.

    They begin at higher points along flat directions, and at draws that spread more widely.
    """
    max_rounds = 2
    for i in range(max_rounds):
        if ends.coincide():
            return
        optimum = ends.best()
        if optimum.agreeing > 1 and not any(d.problem for d in optimum.flat_directions):
            return
        rng = stream(seed, f"further starts {i}")
        draws = further_positions(ends.objective, ends.rows, rng, ends.centre)
        positions = np.concatenate([optimum.higher[: ends.rows // 2], draws])[: ends.rows]
        ends.search_from(positions, steps, Progress(f"{title}, further starts", steps, progress))


# Maximum number of draws from the prior.
MAX_PRIOR_DRAWS = 2_000
# Excess of the log density below which a draw is explained.
MIN_EXCESS_NATS = 1.0
# Maximum number of rounds of searches; each uses the modes of earlier rounds.
MAX_SEARCH_ROUNDS = 4
# Maximum number of unexplained draws to keep, those of highest density.
MAX_UNEXPLAINED_DRAWS = 4
# Draws at which exchanges of members are tried.
EXCHANGE_DRAWS = 3


def _search_unexplained(
    ends: SearchEnds, seed: int, steps: int, progress: bool, title: str
) -> Optimum:
    """Best mode after searches from prior draws that the known modes do not explain.

    Each round starts at the draws whose density most exceeds the normal distributions at the modes
    known so far. A round without a new mode is the last.
    """
    searches, places, exchanges = 0, np.zeros((0, ends.z.shape[1])), Exchanges()
    objective, optimum = ends.objective, ends.best()
    count = affordable_draws(cost(objective.target))
    rng = stream(seed, "unexplained")
    draws = wide_draws(objective.target, rng, count, MAX_PRIOR_DRAWS)
    log_density = -objective.values(draws)
    for _ in range(MAX_SEARCH_ROUNDS):
        modes = (optimum, *optimum.others)
        excess = excess_log_density(draws, log_density, modes)
        unexplained = np.flatnonzero(excess > MIN_EXCESS_NATS)
        places = draws[highest(log_density, unexplained, MAX_UNEXPLAINED_DRAWS)]
        positions = draws[highest(excess, unexplained, ends.rows)]
        if not len(positions):
            break
        ends.search_from(positions, steps, Progress(f"{title}, unexplained", steps, progress))
        searches += len(positions)
        optimum = ends.best()
        if len(optimum.others) < len(modes):
            break
    # For a point estimate one order is enough.
    if not objective.is_point_estimate:
        order = np.argsort(-log_density, kind="stable")[:EXCHANGE_DRAWS]
        if np.all(np.isfinite(log_density[order])):
            exchanges = find_exchanges(objective.target, draws[order])
    if exchanges:
        ends.add_exchanged_modes(exchanges)
    return ends.best(unexplained=searches, unexplained_places=places, exchanges=exchanges)


def _polish(
    objective: NegativeLogDensity, z: np.ndarray, value: float, gradient: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """z, value and gradient after Newton steps, each of which halves the gradient."""
    while np.max(np.abs(gradient)) > GRADIENT_TOL:
        hessian = np.asarray(hessian_at(objective, z))
        if not np.all(np.isfinite(hessian)):
            break
        new_z = z - np.linalg.lstsq(hessian, gradient)[0]
        new_value, new_gradient, _ = map(np.asarray, derivatives(objective, new_z))
        new_value = float(new_value)
        # Each step must halve the gradient, so that the loop ends; NaN does not.
        halved = np.max(np.abs(new_gradient)) < 0.5 * np.max(np.abs(gradient))
        if not (halved and new_value <= value + LOG_DENSITY_TOL_NATS):
            break
        z, value, gradient = new_z, new_value, new_gradient
    return z, value, gradient
