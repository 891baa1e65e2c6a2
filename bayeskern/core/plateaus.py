"""Directions along which the density near a mode is flat, in units of the parameters.

A Hessian that is scaled to a unit diagonal hides flat directions: rounding errors on its diagonal
become curvatures of 1. Here the log density is evaluated where parameters are multiplied by 2, by
10 and by more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Change of the log density that counts as none.
MAX_CHANGE_NATS = 1e-3
# Steps in log coordinates at which the density must not change: factors 2 and 10.
FLAT_STEPS = (np.log(2.0), np.log(10.0))
# Curvature per squared log unit below which the density is evaluated: a factor of 10 then changes
# a normal log density by less than 0.03 nats.
MAX_CURVATURE = 1e-2
# Steps in log coordinates from a plateau at which a search may start again: factors from 10 to 1e6.
PROBE_STEPS = np.log(10.0) * np.arange(1, 7)


class FlatDirection(NamedTuple):
    """Direction along which a density hardly changes from a mode, on one side at least.

    Attributes:
        coordinates: Main coordinates of the direction.
        step: Change of z for one log unit, (d,).
        rise: Largest rise of the log density by a factor of 2 or 10, in nats.
        limit: "falls" or "grows" if the density levels off as the coordinates do so, far from the
            units of the start and of the data; None on a plateau.
    """

    coordinates: tuple[str, ...]
    step: np.ndarray
    rise: float
    limit: str | None

    @property
    def problem(self) -> str | None:
        """Sentence on a plateau or a rise; None at a limit."""
        names = " and ".join(self.coordinates)
        if self.rise > MAX_CHANGE_NATS:
            return (
                f"Not a maximum: the log density is flat along {names} here, but rises by "
                f"{self.rise:.2g} nats if it changes by a factor of 10. Give it a start in the "
                "units of the data, a proper prior, or more starts (starts=)."
            )
        if self.limit is None:
            apart = " apart from one another" if len(self.coordinates) > 1 else ""
            return (
                f"The data do not determine {names}{apart}: a factor of 10 changes the log density "
                f"by less than {MAX_CHANGE_NATS:g} nats, so the value is arbitrary. Give "
                "it a proper prior, or fix it."
            )
        return None

    @property
    def remark(self) -> str:
        """Sentence on a limit."""
        names = " and ".join(self.coordinates)
        return (
            f"The log density levels off as {names} {self.limit}: the optimum is this limit, and "
            "the value has no meaning beyond that."
        )


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The density around a mode.

    Attributes:
        log_densities: Log density at points, (k, d) -> (k,).
        may_be_flat: True for log-scale coordinates that no prior bounds, (d,).
        centre: Start of the search in the units of the data, or else the first start, (d,).
        coordinates: Names of the d coordinates.
    """

    log_densities: Callable[[np.ndarray], np.ndarray]
    may_be_flat: np.ndarray
    centre: np.ndarray
    coordinates: tuple[str, ...]

    def flat_directions(
        self, z: np.ndarray, log_density: float, hessian: np.ndarray
    ) -> tuple[FlatDirection, ...]:
        """Flat directions at a mode z (d,), from its log density and the Hessian of -log p.

        With zeros in place of the Hessian, single coordinates alone are looked at.
        """
        if not (np.any(self.may_be_flat) and np.all(np.isfinite(hessian))):
            return ()
        # Units of other coordinates: their sds given all others.
        diagonal = np.abs(np.diag(hessian))
        units = np.where(self.may_be_flat | (diagonal == 0.0), 1.0, diagonal) ** -0.5
        curvature = hessian * np.outer(units, units)
        small = np.diag(curvature) < MAX_CURVATURE
        singles = np.eye(len(z))[self.may_be_flat & small]
        found = [self._direction(z, log_density, units, v) for v in singles]
        is_flat = np.any(singles[[f is not None for f in found]] != 0.0, axis=0)
        combinations = _combinations(curvature, ~is_flat)
        found += [self._direction(z, log_density, units, v) for v in combinations]
        return tuple(f for f in found if f is not None)

    def higher(
        self, z: np.ndarray, log_density: float, directions: tuple[FlatDirection, ...]
    ) -> np.ndarray:
        """Points along flat directions with a higher log density, highest first: (k, d)."""
        if not directions:
            return np.zeros((0, len(z)))
        steps = np.concatenate([PROBE_STEPS, -PROBE_STEPS])
        points = np.concatenate([z + np.outer(steps, d.step) for d in directions])
        rise = self.log_densities(points) - log_density
        order = np.argsort(-rise, kind="stable")
        return points[order[rise[order] > MAX_CHANGE_NATS]]

    def _direction(
        self, z: np.ndarray, log_density: float, units: np.ndarray, v: np.ndarray
    ) -> FlatDirection | None:
        """The flat direction v (d,) in `units`; None if the density is curved along it."""
        largest = np.argmax(np.abs(v))
        step = units * v * np.sign(v[largest])
        steps = np.outer(FLAT_STEPS, step)
        change = self.log_densities(z + np.concatenate([steps, -steps])) - log_density
        above, below = np.split(np.abs(change) < MAX_CHANGE_NATS, 2)
        if not (np.all(above) or np.all(below)):
            return None
        # Log units from the centre to z. Far from it a level density has a limit, unless it is
        # as high near the centre.
        offset = float((z - self.centre) @ (step / units**2))
        margin, limit = FLAT_STEPS[-1], None
        if abs(offset) > margin and np.all(above if offset > 0.0 else below):
            near = z - (offset - np.sign(offset) * margin) * step
            change_near = np.abs(self.log_densities(near[None])[0] - log_density)
            if not change_near < MAX_CHANGE_NATS:
                limit = "grows" if offset > 0.0 else "falls"
        main = np.flatnonzero(np.abs(v) > 0.5 * np.abs(v[largest]))
        names = tuple(self.coordinates[i] for i in main)
        return FlatDirection(names, step, float(np.max(change)), limit)


def _combinations(curvature: np.ndarray, rest: np.ndarray) -> Iterator[np.ndarray]:
    """Unit vectors (d,) of small curvature in the coordinates `rest`, other than its axes."""
    index = np.flatnonzero(rest)
    values, vectors = np.linalg.eigh(curvature[np.ix_(index, index)])
    for vector in vectors.T[values < MAX_CURVATURE]:
        if np.max(np.abs(vector)) < 0.99:
            v = np.zeros(len(rest))
            v[index] = vector
            yield v
