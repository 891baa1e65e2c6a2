"""Modes and other points of a posterior, found by searches, fits and assessments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri

from bayeskern.inference.approximation.psis import weighted_moments
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.search.modes import MIN_MODE_SHARE, RADIUS_SDS, Optimum


class PointSet(NamedTuple):
    """Points around which much of a posterior may lie.

    Attributes:
        coordinates: Names of the d unconstrained coordinates.
        z: Points (m, d), most important first.
    """

    coordinates: tuple[str, ...]
    z: np.ndarray


@dataclass(frozen=True, eq=False)
class Findings:
    """Modes and other points of a posterior, found by searches, fits and assessments.

    `auto` passes the findings of each attempt to the later attempts: draws of an approximation must
    cover the modes, and chains visit the points. One record may hold findings of several forms of a
    model, which differ in their coordinates.

    Attributes:
        searches: Best mode of each search; it holds the other modes of the search.
        point_sets: Other points around which much of the posterior may lie.
    """

    searches: tuple[Optimum, ...] = ()
    point_sets: tuple[PointSet, ...] = ()

    def __or__(self, other: Findings) -> Findings:
        """Findings of both records."""
        known = set(map(id, self.searches))
        new = tuple(search for search in other.searches if id(search) not in known)
        return Findings(self.searches + new, self.point_sets + other.point_sets)

    @classmethod
    def at(cls, coordinates: Iterable[str], z: ArrayLike) -> Findings:
        """Findings at points z (m, d)."""
        return cls(point_sets=(PointSet(tuple(coordinates), np.asarray(z)),))

    def search(self, coordinates: Iterable[str]) -> Optimum | None:
        """First search of the posterior density in these coordinates, if there was one."""
        searches = self._searches(coordinates)
        return next((search for search in searches if search.mode == "unconstrained"), None)

    def missed(self, coordinates: Iterable[str], z: np.ndarray) -> list[Optimum]:
        """Influential modes that draws z (S, d) do not cover."""
        searches = self._searches(coordinates)
        if not searches:
            return []
        mean, covariance = weighted_moments(z, np.full(len(z), 1.0 / len(z)))
        # Draws cover a mode inside the ellipsoid that holds 99.99 % of N(mean, covariance).
        tril, max_squared = robust_cholesky(covariance), chdtri(z.shape[1], 1e-4)
        missed: list[Optimum] = []
        for search in searches:
            for mode in (search, *search.influential):
                squared = np.sum(np.square(np.linalg.solve(tril, mode.z - mean)))
                # As in `Optimum.log_effect`, but with distances in sds of the draws.
                factor = np.maximum(1.0, squared / RADIUS_SDS**2)
                effect = search.log_share(mode) + np.log(factor)
                # With NaN both comparisons are false, so that the mode is not covered.
                covered = squared < max_squared or effect <= np.log(MIN_MODE_SHARE)
                if not covered and all(m.is_elsewhere(mode.z) for m in missed):
                    missed.append(mode)
        return missed

    def points(self, coordinates: Iterable[str]) -> np.ndarray:
        """Points of fits and assessments, (m, d)."""
        names = tuple(coordinates)
        parts = [points.z for points in self.point_sets if points.coordinates == names]
        return np.concatenate([np.zeros((0, len(names))), *parts])

    def modes(self, coordinates: Iterable[str]) -> np.ndarray:
        """Modes at which searches ended, (m, d)."""
        names, parts = tuple(coordinates), []
        for search in self._searches(names):
            # Other ends may lie in the neck of a funnel, where the density has no bound.
            ends = np.flatnonzero(np.isfinite(search.start_log_densities))
            parts.append(search.ends[[i for i in ends.tolist() if search.at(i).converged]])
        return np.concatenate([np.zeros((0, len(names))), *parts])

    def _searches(self, coordinates: Iterable[str]) -> list[Optimum]:
        names = tuple(coordinates)
        return [search for search in self.searches if search.coordinates == names]
