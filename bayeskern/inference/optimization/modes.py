"""The modes of a density, and what their curvature says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bayeskern.inference.model.exchangeable import Exchanges

# Log densities closer than this count as equally high.
SAME = 1e-2
# A gradient below this counts as zero; so does one whose Newton step is below CLOSE posterior sds,
# since rounding keeps the gradient of an ill-conditioned density from ever being small.
FLAT = 1e-4
CLOSE = 1e-2
# A curvature below this, relative to that along the axes, counts as none.
CURVED = 1e-10
# A mode with less than this share of the evidence of the best one does not matter within this
# radius of it. Further away it does: a share s at r sds adds s r^2 to the variance, in its units.
NEGLIGIBLE = 0.01
RADIUS_SDS = 5.0
# A log density higher than this has no end: a billion rows do not come near it.
UNBOUNDED = 1e15


@dataclass(frozen=True, eq=False)
class Optimum:
    """A mode and how it was found.

    Attributes:
        z: The mode in unconstrained coordinates, (d,).
        log_density: log p(z).
        gradient: The gradient of -log p, (d,).
        curvature: Computes the Hessian of -log p, (d, d), or what is taken in its place; `hessian`
            keeps it.
        ends: Where each start ended, (starts, d).
        start_log_densities: log p where each start ended, (starts,).
        coordinates: A name for each coordinate, d of them.
        mode: Which density has its mode here: "unconstrained", "constrained" or "likelihood".
        at: The optimum that the i-th start led to, from its index.
        proper: Whether every coordinate has a prior, without which there is no evidence.
        unexplained: Number of searches that began at draws whose density the modes known by then
            did not explain; their ends are the last of `ends`. None where no such draws were
            looked for.
        unexplained_places: Draws with the highest density of those that the modes do not explain,
            (m, d): a mode may have much around it that its curvature does not show.
        exchanges: Members that can change places without a change of the density; the modes are
            known in every order of them, or in two if there are many.
    """

    z: np.ndarray
    log_density: float
    gradient: np.ndarray
    curvature: Callable[[], np.ndarray]
    ends: np.ndarray
    start_log_densities: np.ndarray
    coordinates: tuple[str, ...]
    mode: str
    at: Callable[[int], Optimum] | None = None
    proper: bool = True
    unexplained: int | None = None
    unexplained_places: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    exchanges: Exchanges = field(default_factory=Exchanges)

    @property
    def gradient_norm(self) -> float:
        """The largest component of the gradient."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    @cached_property
    def hessian(self) -> np.ndarray:
        return np.asarray(self.curvature())

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the Hessian of -log p, ascending: (d,); NaN where it is not finite."""
        if not np.all(np.isfinite(self.hessian)):
            return np.full(len(self.z), np.nan)
        return np.linalg.eigvalsh(self.hessian)

    @property
    def distance(self) -> float:
        """How far the mode still is, in posterior sds: the Newton step, sqrt(g' H^-1 g)."""
        if not self.least_curved()[0] > 0:
            return np.nan
        values, vectors, size = self._axes
        along = vectors.T @ (self.gradient / size)
        return float(np.sqrt(np.sum(np.square(along) / values)))

    @property
    def converged(self) -> bool:
        # Written so that NaN fails each comparison.
        return bool(self.gradient_norm < FLAT or self.distance < CLOSE)

    @cached_property
    def log_evidence(self) -> float:
        """Laplace's: log p(z) + d/2 log 2 pi - 1/2 log det H; -inf where H is no curvature."""
        if not self.least_curved()[0] > 0:
            return -np.inf
        half_logdet = 0.5 * np.linalg.slogdet(self.hessian)[1]
        return float(self.log_density + 0.5 * len(self.z) * np.log(2.0 * np.pi) - half_logdet)

    @property
    def starts(self) -> int:
        return len(self.ends)

    @cached_property
    def agreeing(self) -> int:
        """How many starts ended at this optimum."""
        near = self.start_log_densities > self.log_density - SAME
        return int(np.sum(near & ~np.array([self.is_elsewhere(end) for end in self.ends])))

    @cached_property
    def others(self) -> tuple[Optimum, ...]:
        """The other distinct modes that the starts found, best first."""
        modes = [self]
        for i in np.argsort(-self.start_log_densities):
            if np.isfinite(self.start_log_densities[i]) and self._is_new(self.ends[i], modes):
                other = self.at(i)
                if other.converged and self._is_new(other.z, modes):
                    modes.append(other)
        return tuple(modes[1:])

    @staticmethod
    def _is_new(z, modes) -> bool:
        return all(mode.is_elsewhere(z) for mode in modes)

    @cached_property
    def rivals(self) -> tuple[Optimum, ...]:
        """The other modes whose share of the evidence is not negligible."""
        least = np.log(NEGLIGIBLE)
        return tuple(other for other in self.others if self.log_share(other) > least)

    @cached_property
    def influential(self) -> tuple[Optimum, ...]:
        """The other modes that change means or sds, which far ones do with a small share."""
        least = np.log(NEGLIGIBLE)
        return tuple(other for other in self.others if self.log_effect(other) > least)

    def log_share(self, other: Optimum) -> float:
        """The log of the evidence of another mode over that of this one.

        Without a prior there is no evidence: a mode where a variance has gone to zero is flat, and
        would have as much of it as one likes. Heights are compared then.
        """
        if not self.proper:
            return other.log_density - self.log_density
        return other.log_evidence - self.log_evidence

    def log_effect(self, other: Optimum) -> float:
        """The log of the share of another mode, times (r / RADIUS_SDS)^2 at r sds outside of it."""
        step = other.z - self.z
        with np.errstate(invalid="ignore", over="ignore"):
            squared = step @ self.hessian @ step
        far = self.proper and squared > RADIUS_SDS**2
        return float(self.log_share(other) + (np.log(squared / RADIUS_SDS**2) if far else 0.0))

    def is_elsewhere(self, z) -> bool:
        """Whether z lies more than a posterior sd from this mode, however high it is there."""
        step = z - self.z
        if not np.any(step):
            return False
        # Written so that NaN counts as elsewhere.
        with np.errstate(invalid="ignore"):
            return not step @ self.hessian @ step <= 1.0

    def least_curved(self) -> tuple[float, str]:
        """The smallest eigenvalue of the Hessian in units of its diagonal, and its coordinate."""
        if not np.all(np.isfinite(self.hessian)):
            return np.nan, "an unknown direction"
        values, vectors, _ = self._axes
        return values[0], self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]

    @cached_property
    def _axes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of the Hessian in units of its diagonal, and its root."""
        size = diagonal_sizes(self.hessian)
        return *np.linalg.eigh(self.hessian / np.outer(size, size)), size

    def evidence(self) -> dict:
        """What a verdict on this optimum rests on."""
        return {
            "gradient_norm": self.gradient_norm,
            "smallest_eigenvalue": float(self.eigenvalues[0]),
            "starts_agreeing": f"{self.agreeing} of {self.starts}",
            "mode": self.mode,
        } | self.search_evidence

    @property
    def search_evidence(self) -> dict:
        """Evidence on the search: unexplained draws that were followed, exchangeable members."""
        followed = "not looked for" if self.unexplained is None else self.unexplained
        evidence = {"unexplained_draws_followed": followed}
        return evidence | ({"exchangeable": f"{self.exchanges}"} if self.exchanges else {})

    def bounded(self) -> Optimum:
        """The same; ValueError, naming a coordinate, where the density grows without end."""
        if self.log_density > UNBOUNDED:
            along = self.coordinates[int(np.argmax(np.abs(self.z)))]
            raise ValueError(
                f"the log density grows without end, to {self.log_density:.2g} as {along} does, so "
                "it has no integral. Give that coordinate a proper prior, or bounds."
            )
        return self

    def problem(self) -> str | None:
        """One sentence on what is wrong with this optimum, if anything is."""
        if not self.converged:
            # Where the curvature is not finite the density goes on rising, or ends.
            slope = np.where(np.isfinite(np.diag(self.hessian)), np.abs(self.gradient), np.inf)
            steepest = self.coordinates[int(np.argmax(slope))]
            return (
                f"The optimiser did not converge (gradient {self.gradient_norm:.2g}, steepest "
                f"along {steepest}): give it more steps or tighter priors; where a density "
                "has its mode at the edge of its support, take MAP(jacobian=True)."
            )
        steepness, along = self.least_curved()
        if not steepness > CURVED:
            return (
                f"Not a maximum: the density is flat or rises along {along}; "
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


def diagonal_sizes(hessian) -> np.ndarray:
    """sqrt |H_ii|, which bring the diagonal to 1 or -1: (d,).

    A thousandth of the largest where it is zero.
    """
    size = np.sqrt(np.abs(np.diag(hessian)))
    return np.where(size > 0, size, max(1.0, size.max()) * 1e-3)
