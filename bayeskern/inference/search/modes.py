"""Modes of a density, with their curvature, evidence and problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from bayeskern.core.plateaus import FlatDirection, Neighbourhood
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.search.factors import MIN_CURVATURE, ScaledEigen

# Gradient component below which the gradient of a mode counts as zero.
MODE_GRADIENT_TOL = 1e-4
# Newton step, in posterior sds, below which the gradient counts as zero too: rounding keeps the
# gradient of an ill-conditioned density large.
NEWTON_STEP_TOL_SDS = 1e-2
# Log densities closer than this count as equal.
LOG_DENSITY_TOL_NATS = 1e-2
# Smallest share of the evidence of a relevant mode; for `influential`, within `RADIUS_SDS` of the
# best mode.
MIN_MODE_SHARE = 0.01
# Distance from the best mode beyond which smaller shares matter: a share s at a distance of r sds
# multiplies the variance by about 1 + s r^2.
RADIUS_SDS = 5.0
# Log density above which a density counts as unbounded; a billion rows of data stay far below.
MAX_LOG_DENSITY = 1e15


def _no_search(i: int) -> Optimum:
    """Default of `Optimum.at`, for a mode without a search."""
    raise ValueError(f"this optimum was made without a search, so it has no end point {i}.")


@dataclass(frozen=True, eq=False)
class Optimum:
    """A mode and the search that found it.

    Attributes:
        z: The mode in unconstrained coordinates, (d,).
        log_density: log p(z).
        gradient: The gradient of -log p, (d,).
        curvature: Computes the Hessian of -log p, (d, d), or its Gauss-Newton or Fisher matrix;
            `hessian` caches the result.
        ends: End of each search, (searches, d).
        start_log_densities: log p at the end of each search, (searches,).
        coordinates: Names of the d coordinates.
        mode: Kind of the mode: "unconstrained", "constrained" or "likelihood".
        at: Function from i to the optimum at the end point of search i.
        proper: True if the evidence is defined: the density includes the priors, and no prior has
            an arbitrary constant factor.
        unexplained: Number of searches from unexplained draws; their end points in `ends` come
            after the end points from the starts. None if unexplained draws were not looked for.
        unexplained_places: Unexplained draws of highest density, (m, d). They may show posterior
            mass near a mode that the normal approximation at the mode misses.
        neighbourhood: The density around the mode, in which flat directions are looked for; None
            without a search.
        exchanges: Exchangeable members of sites, such as mixture components. Each mode is listed in
            all orders of the members, or in two if there are too many orders.
    """

    z: np.ndarray
    log_density: float
    gradient: np.ndarray
    curvature: Callable[[], np.ndarray]
    ends: np.ndarray
    start_log_densities: np.ndarray
    coordinates: tuple[str, ...]
    mode: str
    at: Callable[[int], Optimum] = _no_search
    proper: bool = True
    unexplained: int | None = None
    unexplained_places: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    exchanges: Exchanges = field(default_factory=Exchanges)
    neighbourhood: Neighbourhood | None = None

    @property
    def gradient_norm(self) -> float:
        """Largest component of the gradient."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    @cached_property
    def hessian(self) -> np.ndarray:
        """Hessian of -log p, or its Gauss-Newton or Fisher matrix, (d, d)."""
        return np.asarray(self.curvature())

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the Hessian, ascending: (d,); NaN where it is not finite."""
        if not np.all(np.isfinite(self.hessian)):
            return np.full(len(self.z), np.nan)
        return np.linalg.eigvalsh(self.hessian)

    @cached_property
    def inverse_root(self) -> tuple[np.ndarray, str | None]:
        """Lower triangular L with L L' = H^-1, and a sentence on any repair of H.

        L comes from `ScaledEigen.inverse_root`; it is the unit matrix if H is not finite. The
        sentence is None if H is positive definite.
        """
        if not np.all(np.isfinite(self.hessian)):
            unit = np.eye(len(self.z))
            return unit, "The Hessian at the mode is not finite; a unit covariance stands in."
        values, vectors, _ = self._scaled_eigen
        tril, repaired = self._scaled_eigen.inverse_root(), ~(values > MIN_CURVATURE)
        if not repaired.any():
            return tril, None
        largest = np.argmax(np.abs(vectors[:, repaired]), axis=0)
        directions = ", ".join(
            f"{'rises' if value < -MIN_CURVATURE else 'is flat'} along {self.coordinates[i]}"
            for i, value in zip(largest, values[repaired], strict=True)
        )
        return tril, (
            f"The Hessian at the mode had to be repaired: the density {directions}. Draws along "
            "these directions are meaningless. Give that site a proper prior; if it has one, "
            "take method='nuts'."
        )

    @property
    def distance(self) -> float:
        """Distance to the mode in posterior sds: the Newton step, sqrt(g' H^-1 g)."""
        if not self.least_curved()[0] > 0:
            return np.nan
        values, vectors, size = self._scaled_eigen
        projection = vectors.T @ (self.gradient / size)
        return float(np.sqrt(np.sum(np.square(projection) / values)))

    @property
    def converged(self) -> bool:
        """True if the gradient or the Newton step counts as zero; False for NaN."""
        return bool(self.gradient_norm < MODE_GRADIENT_TOL or self.distance < NEWTON_STEP_TOL_SDS)

    @cached_property
    def log_evidence(self) -> float:
        """Log evidence by Laplace's method; -inf unless H is positive definite.

        log p(z) + d/2 log 2 pi - 1/2 log det H.
        """
        if not self.least_curved()[0] > 0:
            return -np.inf
        half_logdet = 0.5 * np.linalg.slogdet(self.hessian)[1]
        return float(self.log_density + 0.5 * len(self.z) * np.log(2.0 * np.pi) - half_logdet)

    @cached_property
    def flat_directions(self) -> tuple[FlatDirection, ...]:
        """Directions along which the data do not determine the mode, or only its limit."""
        if self.neighbourhood is None:
            return ()
        return self.neighbourhood.flat_directions(self.z, self.log_density, self.hessian)

    @property
    def higher(self) -> np.ndarray:
        """Points along flat directions with a higher log density, highest first: (k, d)."""
        if self.neighbourhood is None:
            return np.zeros((0, len(self.z)))
        return self.neighbourhood.higher(self.z, self.log_density, self.flat_directions)

    @property
    def starts(self) -> int:
        """Number of searches."""
        return len(self.ends)

    @cached_property
    def agreeing(self) -> int:
        """Number of searches that ended at this optimum."""
        pairs = zip(self.ends, self.start_log_densities, strict=True)
        return sum(self._is_as_high(p) and not self._is_another_point(z) for z, p in pairs)

    @cached_property
    def others(self) -> tuple[Optimum, ...]:
        """Other distinct modes that the searches found, best first."""
        modes: list[Optimum] = [self]
        for i in np.argsort(-self.start_log_densities):
            if np.isfinite(self.start_log_densities[i]) and _is_new(self.ends[i], modes):
                other = self.at(i)
                if other.converged and _is_new(other.z, modes):
                    modes.append(other)
        return tuple(modes[1:])

    @cached_property
    def rivals(self) -> tuple[Optimum, ...]:
        """Other modes whose share of the evidence is not negligible."""
        least = np.log(MIN_MODE_SHARE)
        return tuple(
            other
            for other in self.others
            if self.log_share(other) > least
            and (not self._is_as_high(other.log_density) or self._is_another_point(other.z))
        )

    @cached_property
    def influential(self) -> tuple[Optimum, ...]:
        """Other modes that change means or sds; distant modes do so with a smaller share."""
        least = np.log(MIN_MODE_SHARE)
        return tuple(other for other in self.others if self.log_effect(other) > least)

    def log_share(self, other: Optimum) -> float:
        """Log of the evidence of another mode divided by the evidence of this mode.

        If the evidence is undefined, return the log ratio of the densities instead, because the
        integral around a flat mode, where a variance tends to zero, is arbitrarily large.
        """
        if not self.proper:
            return other.log_density - self.log_density
        return other.log_evidence - self.log_evidence

    def log_effect(self, other: Optimum) -> float:
        """Log share of another mode r sds away, plus log max(1, (r / radius_sds)^2)."""
        step, radius = other.z - self.z, RADIUS_SDS
        with np.errstate(invalid="ignore", over="ignore"):
            squared = step @ self.hessian @ step
        distant = self.proper and squared > radius**2
        return float(self.log_share(other) + (np.log(squared / radius**2) if distant else 0.0))

    def is_elsewhere(self, z: np.ndarray) -> bool:
        """True if z (d,) is more than one sd from this mode, or the distance is NaN."""
        step = z - self.z
        if not np.any(step):
            return False
        with np.errstate(invalid="ignore"):
            return not step @ self.hessian @ step <= 1.0

    def _is_as_high(self, log_density: float) -> bool:
        return bool(log_density > self.log_density - LOG_DENSITY_TOL_NATS)

    def _is_another_point(self, z: np.ndarray) -> bool:
        """True if z (d,), as high as this mode, is not this point in any order of its values.

        Two equal terms of a kernel may trade places: neither the density nor a prediction changes.
        For a posterior this is another mode, whose mass counts.
        """
        if not self.is_elsewhere(z):
            return False
        if self.mode == "unconstrained":
            return True
        reordered = np.empty_like(z)
        reordered[np.argsort(self.z)] = np.sort(z)
        return self.is_elsewhere(reordered)

    def squared_distances(self, z: np.ndarray) -> np.ndarray:
        """Squared distances of points from this mode in posterior sds: (n, d) -> (n,)."""
        white = solve_triangular(self.inverse_root[0], (z - self.z).T, lower=True)
        return np.sum(np.square(white), axis=0)

    def least_curved(self) -> tuple[float, str]:
        """Smallest eigenvalue of the scaled Hessian, and its main coordinate.

        The Hessian is scaled to unit diagonal. The main coordinate is the largest of the
        eigenvector.
        """
        if not np.all(np.isfinite(self.hessian)):
            return np.nan, "an unknown direction"
        values, vectors, _ = self._scaled_eigen
        return values[0], self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]

    @cached_property
    def _scaled_eigen(self) -> ScaledEigen:
        return ScaledEigen.from_hessian(self.hessian)

    def evidence(self) -> dict[str, float | int | str]:
        """Evidence for a verdict on this optimum."""
        return {
            "gradient_norm": self.gradient_norm,
            "smallest_eigenvalue": float(self.eigenvalues[0]),
            "starts_agreeing": f"{self.agreeing} of {self.starts}",
            "mode": self.mode,
        } | self.search_evidence

    @property
    def search_evidence(self) -> dict[str, int | str]:
        """Evidence on the search: unexplained draws, exchangeable members."""
        searches = "not looked for" if self.unexplained is None else self.unexplained
        evidence: dict[str, int | str] = {"unexplained_draws_followed": searches}
        return evidence | ({"exchangeable": f"{self.exchanges}"} if self.exchanges else {})

    @property
    def remarks(self) -> str:
        """Sentences on coordinates that go to a limit, or may trade values; "" without any."""
        limits = [d.remark for d in self.flat_directions if d.limit]
        copies = [o for o in self.others if self._is_as_high(o.log_density)]
        copies = [o for o in copies if not self._is_another_point(o.z)]
        trades = [
            "The log density is the same if "
            + " and ".join(np.compress(np.abs(o.z - self.z) > 1e-3, self.coordinates))
            + " trade their values, so it does not say which is which."
            for o in copies[:1]
        ]
        return " ".join([*limits, *trades])

    def bounded(self) -> Optimum:
        """This optimum; raises ValueError if the density is unbounded."""
        if self.log_density > MAX_LOG_DENSITY:
            coordinate = self.coordinates[int(np.argmax(np.abs(self.z)))]
            raise ValueError(
                f"the log density grows without bound along {coordinate}, to "
                f"{self.log_density:.2g}, so it has no integral. Give that "
                "coordinate a proper prior, or bounds."
            )
        return self

    def problem(self) -> str | None:
        """Sentence on the problem of this optimum; None if it has none."""
        if not self.converged:
            # A coordinate without finite curvature counts as the steepest: the density still rises
            # along it, or the support ends there.
            slope = np.where(np.isfinite(np.diag(self.hessian)), np.abs(self.gradient), np.inf)
            steepest = self.coordinates[int(np.argmax(slope))]
            return (
                f"The optimiser did not converge (gradient {self.gradient_norm:.2g}, steepest "
                f"along {steepest}): give it more steps or tighter priors; where a density "
                "has its mode at the edge of its support, take MAP(jacobian=True)."
            )
        plateaus = [d.problem for d in self.flat_directions if d.problem]
        if plateaus:
            return " ".join(plateaus)
        curvature, coordinate = self.least_curved()
        if not (curvature > MIN_CURVATURE or self.flat_directions):
            return (
                f"Not a maximum: the density is flat or rises along {coordinate}; "
                "give it a proper prior, fix it, or take MAP(jacobian=True)."
            )
        if self.rivals:
            gap = self.log_density - self.rivals[0].log_density
            return (
                f"Another mode is only {gap:.2g} nats lower: one point cannot stand for both. "
                "Take method='nuts', or more data."
            )
        if self.starts > 1 and self.agreeing < 2:
            return (
                f"Only one of {self.starts} starts ended here; try more (starts=), there may be a "
                "better mode."
            )
        return None


def _is_new(z: np.ndarray, modes: list[Optimum]) -> bool:
    """True if z (d,) lies outside all of these modes."""
    return all(mode.is_elsewhere(z) for mode in modes)
