"""The search for the modes of a density, from several starts and where it is not explained yet."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from bayeskern.core.progress import Progress
from bayeskern.core.random import stream
from bayeskern.inference.model.checks.bad_data import refuse_bad_data, refuse_nonfinite
from bayeskern.inference.model.cost import cost, has_open_loop
from bayeskern.inference.model.exchangeable import Exchanges, find_exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.curvature import derivatives, hessian_at
from bayeskern.inference.optimization.lbfgs import evaluate, minimise
from bayeskern.inference.optimization.modes import FLAT, SAME, Optimum
from bayeskern.inference.optimization.objective import NegativeLogDensity
from bayeskern.inference.optimization.search_file import SearchFile
from bayeskern.inference.optimization.starts import (
    CANDIDATES,
    finite_positions,
    initial_positions,
)
from bayeskern.inference.optimization.unexplained import (
    UnexplainedSearch,
    excess_log_density,
    highest,
    wide_draws,
)

UNEXPLAINED = UnexplainedSearch()
# Draws at which exchanges of members are tried.
EXCHANGE_DRAWS = 3


def find_optimum(
    target: Target,
    starts: int,
    seed: int,
    steps: int,
    progress: bool,
    jacobian: bool = True,
    prior: bool = True,
    title: str = "MAP",
    candidates: int = CANDIDATES,
    checkpoint: str | Path | None = None,
    hessian: str = "exact",
) -> Optimum:
    """The best mode of log p(z) from several starts, with the others that were found.

    steps: the most steps of L-BFGS; jacobian, prior: as in `Target.log_density`; candidates: how
    many draws from the prior are looked at for each start; checkpoint: a file from which a search
    that was killed goes on; hessian: the curvature that modes have, as in `hessian_at`. Raises
    ValueError, naming the site, if the density is finite at no start.
    """
    target.require_latents()
    objective = NegativeLogDensity(target, jacobian, prior)
    file = SearchFile(checkpoint, objective, (starts, seed)) if checkpoint is not None else None
    state = file and file.read()
    begin = initial_positions(objective, starts, seed, candidates) if state is None else state.z
    with Progress(title, steps, progress) as bar:

        def report(done, state):
            bar.to(done, f"log density {-np.min(state.value):.4f}")
            if file is not None:
                file.write(state)

        ends = minimise(objective, begin, steps, 0.1 * FLAT, report, state)
    if not np.all(np.isfinite(ends[1])):
        ends = _again_where_not_finite(objective, begin, ends, seed, steps)
    ends = Ends(objective, hessian, *ends)
    if starts == 1 or target.size > UNEXPLAINED.max_size or has_open_loop(target):
        # No Hessians of so many coordinates. Far out, where unexplained draws lie, a loop of
        # unknown length may take for ever.
        return ends.best()
    ends.unexplained = 0
    return _search_unexplained(ends, starts, seed, steps, progress, title)


class Ends:
    """Ends of searches, and the optimum at each.

    Args:
        objective: What was minimised.
        hessian: The curvature that modes have, as in `hessian_at`.
        z: Ends, (k, d).
        values: The objective there, (k,).
        gradients: Its gradient there, (k, d).

    Attributes:
        unexplained: As in `Optimum`.
        unexplained_places: As in `Optimum`.
        exchanges: As in `Optimum`.
    """

    def __init__(self, objective: NegativeLogDensity, hessian: str, z, values, gradients):
        self.objective, self.hessian = objective, hessian
        self.z, self.values, self.gradients, self._starts = z, values, gradients, len(z)
        self.unexplained: int | None = None
        self.unexplained_places = np.zeros((0, np.shape(z)[1]))
        self.exchanges = Exchanges()
        self._optima: dict[int, Optimum] = {}

    def add(self, z, values, gradients) -> None:
        """Add ends of further searches."""
        self.z = np.concatenate([self.z, z])
        self.values = np.concatenate([self.values, values])
        self.gradients = np.concatenate([self.gradients, gradients])

    def add_copies(self) -> None:
        """Add the modes in other orders of members that can change places."""
        best = self.best()
        for mode in (best, *best.others):
            copies = self.exchanges.copies(mode.z)
            for begin in range(0, len(copies), self._starts):
                part = copies[begin : begin + self._starts]
                # As many as in the first search, whose program is compiled.
                padded = np.resize(part, (self._starts, part.shape[1]))
                self.add(part, *(x[: len(part)] for x in evaluate(self.objective, padded)))

    def best(self) -> Optimum:
        """The optimum at the lowest end, which knows the others."""
        best = self.at(int(np.argmin(self.values)))
        return replace(
            best,
            ends=self.z,
            start_log_densities=-self.values,
            unexplained=self.unexplained,
            unexplained_places=self.unexplained_places,
            exchanges=self.exchanges,
        )

    def at(self, i: int) -> Optimum:
        """The optimum that the i-th end leads to."""
        i = int(i)
        if i not in self._optima:
            z, value, gradient = _polish(
                self.objective, self.z[i], self.values[i], self.gradients[i]
            )
            target = self.objective.target
            self._optima[i] = Optimum(
                z=z,
                log_density=-float(value),
                gradient=gradient,
                curvature=cache(lambda: hessian_at(self.objective, z, self.hessian)),
                ends=self.z,
                start_log_densities=-self.values,
                coordinates=tuple(target.coordinates),
                mode=self.objective.mode,
                at=self.at,
                proper=self.objective.prior and not target.without_scale,
            )
        return self._optima[i]


def _again_where_not_finite(
    objective: NegativeLogDensity, begin: np.ndarray, ends: tuple, seed: int, steps: int
) -> list[np.ndarray]:
    """The ends of searches, of which those without a finite start have begun anew from one.

    Nothing is compiled. Raises ValueError, naming the site, if the density is finite at no start.

    Args:
        objective: What is minimised.
        begin: Starts, (k, d).
        ends: z (k, d), the objective there and its gradient, from each start.
        seed: The seed of the finite starts.
        steps: The most steps.
    """
    target, failed = objective.target, ~np.isfinite(ends[1])
    if failed.all():
        refuse_bad_data(target, begin[0])
    starts = finite_positions(target, partial(evaluate, objective), failed.sum(), seed, len(begin))
    if failed.all() and not len(starts):
        refuse_nonfinite(target, begin[0])
    replaced = np.flatnonzero(failed)[: len(starts)]
    # A search from NaN ends at once.
    again = np.full(begin.shape, np.nan)
    again[replaced] = starts
    ends = [np.array(x) for x in ends]
    for old, new in zip(ends, minimise(objective, again, steps, 0.1 * FLAT), strict=True):
        old[replaced] = new[replaced]
    return ends


def _search_unexplained(
    ends: Ends, starts: int, seed: int, steps: int, progress: bool, title: str
) -> Optimum:
    """The best mode after searches from the draws of the prior that the modes do not explain.

    Each round begins where the density is highest above normal distributions at the modes that are
    known by then; the last round finds no new mode.
    """
    objective, optimum = ends.objective, ends.best()
    count = UNEXPLAINED.count(cost(objective.target))
    rng = stream(seed, "unexplained")
    draws = wide_draws(objective.target, rng, count, UNEXPLAINED.prior_draws)
    log_density = -objective.values(draws)
    for _ in range(UNEXPLAINED.max_rounds):
        modes = (optimum, *optimum.others)
        excess = excess_log_density(draws, log_density, modes)
        unexplained = np.flatnonzero(excess > UNEXPLAINED.min_excess_nats)
        ends.unexplained_places = draws[highest(log_density, unexplained, UNEXPLAINED.places)]
        begin = draws[highest(excess, unexplained, starts)]
        if not len(begin):
            break
        with Progress(f"{title}, unexplained", steps, progress) as bar:
            # As many as in the first search, whose program is compiled.
            again = minimise(
                objective,
                np.resize(begin, (starts, begin.shape[1])),
                steps,
                0.1 * FLAT,
                lambda done, _, bar=bar: bar.to(done),
            )
        ends.add(*(x[: len(begin)] for x in again))
        ends.unexplained += len(begin)
        optimum = ends.best()
        if len(optimum.others) < len(modes):
            break
    # A mode of the prior or of the likelihood alone is a point, for which one order is enough.
    if objective.jacobian and objective.prior:
        order = np.argsort(-log_density, kind="stable")[:EXCHANGE_DRAWS]
        if np.all(np.isfinite(log_density[order])):
            ends.exchanges = find_exchanges(objective.target, draws[order])
    if ends.exchanges:
        ends.add_copies()
    return ends.best()


def _polish(objective, z, value, gradient):
    """z, value and gradient after the Newton steps that still make the gradient much smaller."""
    while np.max(np.abs(gradient)) > 0.1 * FLAT:
        hessian = np.asarray(hessian_at(objective, z))
        if not np.all(np.isfinite(hessian)):
            break
        further = z - np.linalg.lstsq(hessian, gradient)[0]
        new_value, new_gradient, _ = map(np.asarray, derivatives(objective, further))
        # Half the gradient at least, so that this ends; NaN is no improvement.
        closer = np.max(np.abs(new_gradient)) < 0.5 * np.max(np.abs(gradient))
        if not (closer and new_value <= value + SAME):
            break
        z, value, gradient = further, new_value, new_gradient
    return z, value, gradient
