"""Modes of a density, and what their curvature says about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.optimization.factors import MIN_CURVATURE, ScaledEigen


@dataclass(frozen=True)
class ModeCriteria:
    """Criteria by which an end of a search is a mode, and by which a mode matters.

    Attributes:
        gradient_tol: Gradient component below which the gradient counts as zero.
        newton_step_tol_sds: Newton step, in posterior sds, below which it counts as zero too:
            rounding keeps the gradient of an ill-conditioned density from ever being small.
        log_density_tol_nats: Log densities closer than this count as equal.
        min_share: Share of the evidence below which a mode does not matter, within `radius_sds`.
        radius_sds: Distance from the best mode from which smaller shares matter: a share s at r
            sds adds s r^2 to the variance, in its units.
        max_log_density: Log density above which a density is unbounded: a billion rows of data do
            not come close.
    """

    gradient_tol: float = 1e-4
    newton_step_tol_sds: float = 1e-2
    log_density_tol_nats: float = 1e-2
    min_share: float = 0.01
    radius_sds: float = 5.0
    max_log_density: float = 1e15


CRITERIA = ModeCriteria()


def _no_search(i: int) -> Optimum:
    """Default of `Optimum.at`, for a mode that no search with several ends has found."""
    raise ValueError(f"there is no search whose end {i} could be looked up.")


@dataclass(frozen=True, eq=False)
class Optimum:
    """A mode and the search that found it.

    Attributes:
        z: The mode in unconstrained coordinates, (d,).
        log_density: log p(z).
        gradient: The gradient of -log p, (d,).
        curvature: Computes the Hessian of -log p, (d, d), or the matrix in its place; `hessian`
            caches it.
        ends: End of the search from each start, (starts, d).
        start_log_densities: log p at the end of each search, (starts,).
        coordinates: A name for each coordinate, d of them.
        mode: Kind of the mode: "unconstrained", "constrained" or "likelihood".
        at: The optimum at the i-th end, from its index.
        proper: True if every coordinate has a prior, without which there is no evidence.
        unexplained: Number of searches from draws whose density the known modes did not explain;
            their ends are the last of `ends`. None where no such draws were looked for.
        unexplained_places: Unexplained draws of highest density, (m, d): there may be much mass
            around a mode that its curvature does not show.
        exchanges: Members that can be exchanged without a change of the density; the modes are
            known in every order of them, or in two orders if there are many.
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

    @property
    def gradient_norm(self) -> float:
        """Largest component of the gradient."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    @cached_property
    def hessian(self) -> np.ndarray:
        """Hessian of -log p, or the matrix in its place, (d, d)."""
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

        L is that of `ScaledEigen.inverse_root`, or the unit matrix where H is not finite. The
        sentence is None where H is positive definite.
        """
        if not np.all(np.isfinite(self.hessian)):
            unit = np.eye(len(self.z))
            return unit, "The Hessian at the mode is not finite; a unit covariance stands in."
        values, vectors, _ = self._axes
        tril, repaired = self._axes.inverse_root(), ~(values > MIN_CURVATURE)
        if not repaired.any():
            return tril, None
        largest = np.argmax(np.abs(vectors[:, repaired]), axis=0)
        directions = ", ".join(
            f"it {'rises' if value < -MIN_CURVATURE else 'is flat'} along {self.coordinates[i]}"
            for i, value in zip(largest, values[repaired], strict=True)
        )
        return tril, (
            f"The Hessian at the mode had to be repaired ({directions}): the draws mean nothing "
            "there. Give that site a proper prior, or take method='nuts'."
        )

    @property
    def distance(self) -> float:
        """Distance to the mode in posterior sds: the Newton step, sqrt(g' H^-1 g)."""
        if not self.least_curved()[0] > 0:
            return np.nan
        values, vectors, size = self._axes
        projection = vectors.T @ (self.gradient / size)
        return float(np.sqrt(np.sum(np.square(projection) / values)))

    @property
    def converged(self) -> bool:
        """True if the gradient or the Newton step is zero; False for NaN."""
        return bool(
            self.gradient_norm < CRITERIA.gradient_tol
            or self.distance < CRITERIA.newton_step_tol_sds
        )

    @cached_property
    def log_evidence(self) -> float:
        """Log evidence by Laplace's method; -inf unless H is positive definite.

        log p(z) + d/2 log 2 pi - 1/2 log det H.
        """
        if not self.least_curved()[0] > 0:
            return -np.inf
        half_logdet = 0.5 * np.linalg.slogdet(self.hessian)[1]
        return float(self.log_density + 0.5 * len(self.z) * np.log(2.0 * np.pi) - half_logdet)

    @property
    def starts(self) -> int:
        """Number of searches."""
        return len(self.ends)

    @cached_property
    def agreeing(self) -> int:
        """Number of searches that ended at this optimum."""
        as_high = self.start_log_densities > self.log_density - CRITERIA.log_density_tol_nats
        return int(np.sum(as_high & ~np.array([self.is_elsewhere(end) for end in self.ends])))

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
        least = np.log(CRITERIA.min_share)
        return tuple(other for other in self.others if self.log_share(other) > least)

    @cached_property
    def influential(self) -> tuple[Optimum, ...]:
        """Other modes that change means or sds, which distant ones do with a small share."""
        least = np.log(CRITERIA.min_share)
        return tuple(other for other in self.others if self.log_effect(other) > least)

    def log_share(self, other: Optimum) -> float:
        """Log ratio of the evidence of another mode to that of this one.

        Without a prior the log ratio of the densities: there is no evidence then, and a mode where
        a variance has gone to zero is flat, with an integral as large as one likes.
        """
        if not self.proper:
            return other.log_density - self.log_density
        return other.log_evidence - self.log_evidence

    def log_effect(self, other: Optimum) -> float:
        """Log of the share of another mode, times (r / radius_sds)^2 at r > radius_sds."""
        step, radius = other.z - self.z, CRITERIA.radius_sds
        with np.errstate(invalid="ignore", over="ignore"):
            squared = step @ self.hessian @ step
        distant = self.proper and squared > radius**2
        return float(self.log_share(other) + (np.log(squared / radius**2) if distant else 0.0))

    def is_elsewhere(self, z: np.ndarray) -> bool:
        """True if z (d,) lies more than a posterior sd from this mode, or at NaN."""
        step = z - self.z
        if not np.any(step):
            return False
        with np.errstate(invalid="ignore"):
            return not step @ self.hessian @ step <= 1.0

    def squared_distances(self, z: np.ndarray) -> np.ndarray:
        """Squared distances of points from this mode in posterior sds: (n, d) -> (n,)."""
        white = solve_triangular(self.inverse_root[0], (z - self.z).T, lower=True)
        return np.sum(np.square(white), axis=0)

    def least_curved(self) -> tuple[float, str]:
        """Smallest eigenvalue of the Hessian in units of its diagonal, and its coordinate."""
        if not np.all(np.isfinite(self.hessian)):
            return np.nan, "an unknown direction"
        values, vectors, _ = self._axes
        return values[0], self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]

    @cached_property
    def _axes(self) -> ScaledEigen:
        return ScaledEigen.of(self.hessian)

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
        followed = "not looked for" if self.unexplained is None else self.unexplained
        evidence: dict[str, int | str] = {"unexplained_draws_followed": followed}
        return evidence | ({"exchangeable": f"{self.exchanges}"} if self.exchanges else {})

    def bounded(self) -> Optimum:
        """This optimum; ValueError, naming a coordinate, where the density has no bound."""
        if self.log_density > CRITERIA.max_log_density:
            coordinate = self.coordinates[int(np.argmax(np.abs(self.z)))]
            raise ValueError(
                f"the log density grows without end, to {self.log_density:.2g} as {coordinate} "
                "does, so it has no integral. Give that coordinate a proper prior, or bounds."
            )
        return self

    def problem(self) -> str | None:
        """One sentence on what is wrong with this optimum; None if nothing is."""
        if not self.converged:
            # Where the curvature is not finite the density goes on rising, or ends.
            slope = np.where(np.isfinite(np.diag(self.hessian)), np.abs(self.gradient), np.inf)
            steepest = self.coordinates[int(np.argmax(slope))]
            return (
                f"The optimiser did not converge (gradient {self.gradient_norm:.2g}, steepest "
                f"along {steepest}): give it more steps or tighter priors; where a density "
                "has its mode at the edge of its support, take MAP(jacobian=True)."
            )
        curvature, coordinate = self.least_curved()
        if not curvature > MIN_CURVATURE:
            return (
                f"Not a maximum: the density is flat or rises along {coordinate}; "
                "give it a proper prior, fix it, or take MAP(jacobian=True)."
            )
        if self.rivals:
            gap = self.log_density - self.rivals[0].log_density
            return (
                f"The starts found {1 + len(self.rivals)} modes, the next one only {gap:.2g} nats "
                "lower: one point cannot stand for them. Take method='nuts', or more data."
            )
        if self.starts > 1 and self.agreeing < 2:
            return (
                f"Only one of {self.starts} starts ended here; try more (starts=), there may be a "
                "better mode."
            )
        return None


def _is_new(z: np.ndarray, modes: list[Optimum]) -> bool:
    """True if z lies outside all of these modes."""
    return all(mode.is_elsewhere(z) for mode in modes)
