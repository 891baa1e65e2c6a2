"""One record of the modes and places of a posterior that searches, fits and assessments found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from bayeskern.inference.approximation.psis import weighted_moments
from bayeskern.inference.optimization.factors import robust_cholesky
from bayeskern.inference.optimization.modes import CRITERIA, Optimum

# The share of a normal distribution that lies further out than a mode which its draws cover.
MIN_TAIL_SHARE = 1e-4


class Places(NamedTuple):
    """Points where much of a posterior may lie.

    coordinates: the names of the coordinates, d of them; z: the points, most important first,
    (m, d) in unconstrained coordinates.
    """

    coordinates: tuple[str, ...]
    z: np.ndarray


@dataclass(frozen=True, eq=False)
class Findings:
    """Modes and other places of a posterior that searches, fits and assessments have seen.

    `auto` hands the findings of each attempt to the next ones: draws of an approximation have to
    cover the modes, and chains visit the places. Findings of several forms of one model, which have
    different coordinates, may stand in one record.

    Attributes:
        searches: The best mode of each search, which knows the other modes.
        places: Other points where much of the posterior may lie.
    """

    searches: tuple[Optimum, ...] = ()
    places: tuple[Places, ...] = ()

    def __or__(self, other: Findings) -> Findings:
        """The findings of both."""
        known = set(map(id, self.searches))
        new = tuple(search for search in other.searches if id(search) not in known)
        return Findings(self.searches + new, self.places + other.places)

    @classmethod
    def at(cls, coordinates, z) -> Findings:
        """Places z (m, d)."""
        return cls(places=(Places(tuple(coordinates), np.asarray(z)),))

    def missed(self, coordinates, z) -> list[Optimum]:
        """Modes that draws z (S, d) do not cover and that would change their moments."""
        searches = self._searches(coordinates)
        if not searches:
            return []
        mean, covariance = weighted_moments(z, np.full(len(z), 1.0 / len(z)))
        tril, furthest = robust_cholesky(covariance), chdtri(z.shape[1], MIN_TAIL_SHARE)
        missed: list[Optimum] = []
        for search in searches:
            for mode in (search, *search.influential):
                squared = np.sum(np.square(np.linalg.solve(tril, mode.z - mean)))
                # As `Optimum.log_effect`, in sds of the draws.
                relative = squared / CRITERIA.radius_sds**2
                effect = search.log_share(mode) + np.log(np.maximum(1.0, relative))
                # Written so that NaN is not covered.
                covered = squared < furthest or effect <= np.log(CRITERIA.min_share)
                if not covered and all(m.is_elsewhere(mode.z) for m in missed):
                    missed.append(mode)
        return missed

    def points(self, coordinates) -> np.ndarray:
        """The places, and the modes where searches ended: (m, d)."""
        names = tuple(coordinates)
        parts = [places.z for places in self.places if places.coordinates == names]
        for search in self._searches(coordinates):
            # Not where the density rises without bound, as in the neck of a funnel.
            ends = np.flatnonzero(np.isfinite(search.start_log_densities))
            parts.append(search.ends[[i for i in ends if search.at(i).converged]])
        return np.concatenate([np.zeros((0, len(names))), *parts])

    def _searches(self, coordinates) -> list[Optimum]:
        names = tuple(coordinates)
        return [search for search in self.searches if search.coordinates == names]
