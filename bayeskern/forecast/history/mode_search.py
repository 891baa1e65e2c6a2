"""Search for the mode of the hyperparameters of a long series.

Each new value of l, the lengthscale of the short-term deviations, or of q, the ratio of their
variance to the noise, takes a pass over the series. At fixed (l, q), changes of all other
hyperparameters are cheap. The search is therefore nested: the outer search optimises (log l, log q)
by BFGS, and the inner search optimises all other hyperparameters. At the inner optimum the gradient
of the profile is the partial gradient in (log l, log q) (envelope theorem).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from bayeskern.forecast.history.basis_evidence import BasisEvidence
from bayeskern.forecast.history.filtered_statistics import FilteredStatistics


@dataclass(frozen=True)
class ModeSearchOptions:
    """Options of the search.

    Attributes:
        lengthscales: Starting lengthscales of the short-term deviations, in steps.
        ratios: Starting ratios of their variance to the noise.
        searches: Largest number of outer searches, each from another start.
        min_start_gap: Smallest difference of log lengthscales between starts.
        parts: Lengths of the last parts of the series that are searched first. Optima of a part are
            starts for the next part. A part longer than half of the series is skipped.
        max_compared: Largest number of values for which the starting lengthscales and ratios
            compete with the optima of the previous part.
        outer_gradient_tol: Gradient in log l and log q below which the outer search ends, in nats.
        inner_gain_tol: Expected gain of a step below which the inner search ends, in nats.
        start_gain_tol: Expected gain below which it ends in the comparison of starts, in nats.
        max_outer_steps: Largest number of steps of the outer search.
        max_inner_steps: Largest number of steps of an inner search.
        max_inner_step: Largest change of a coordinate in an inner step.
        min_damping: Smallest damping of an inner step, relative to the information.
    """

    lengthscales: tuple[float, ...] = (3.0, 30.0, 300.0)
    ratios: tuple[float, ...] = (0.3, 5.0)
    searches: int = 2
    min_start_gap: float = 1.0
    parts: tuple[int, ...] = (3000, 12_000)
    max_compared: int = 20_000
    outer_gradient_tol: float = 0.1
    inner_gain_tol: float = 1e-5
    start_gain_tol: float = 0.1
    max_outer_steps: int = 50
    max_inner_steps: int = 100
    max_inner_step: float = 3.0
    min_damping: float = 0.1


class SearchPoint(NamedTuple):
    """Start or end of an outer search.

    Attributes:
        value: Log joint density.
        residual: log l and log q, (2,).
        z: All coordinates, (d,).
        inverse: Inverse Hessian of minus the profile, (2, 2); None if unknown.
    """

    value: float
    residual: np.ndarray
    z: np.ndarray
    inverse: np.ndarray | None = None


@dataclass(frozen=True)
class Profile:
    """Log joint density, maximised over all coordinates except log l and log q.

    Attributes:
        evidence: Log joint density.
        residual: log l and log q, (2,).
        options: Options of the search.
        gain_tol: Expected gain of a step below which the inner search ends, in nats.
    """

    evidence: BasisEvidence
    residual: np.ndarray
    options: ModeSearchOptions
    gain_tol: float

    def maximum(self, starts: Sequence[np.ndarray]) -> SearchPoint | None:
        """Best inner optimum from these starts; None if all have density zero."""
        best: SearchPoint | None = None
        with np.errstate(all="ignore"):
            statistics = self.evidence.history.statistics(*map(float, np.exp(self.residual)))
            for start in starts:
                point = self._maximise(start, statistics)
                if point.value > (-np.inf if best is None else best.value):
                    best = point
        return best

    def _maximise(self, start: np.ndarray, statistics: FilteredStatistics) -> SearchPoint:
        """Inner optimum from one start.

        Fisher scoring, with Levenberg-Marquardt damping after a step that does not gain.
        """
        options, inner, damping = self.options, np.append(start[:-3], start[-1]), 0.0
        value, gradient, information = self._evaluate(inner, statistics)
        for _ in range(options.max_inner_steps):
            damped = information + damping * np.diag(np.diag(information))
            step = np.linalg.solve(damped, gradient)
            if not 0.5 * gradient @ step > self.gain_tol:
                break
            step *= min(1.0, options.max_inner_step / np.abs(step).max())
            proposal = self._evaluate(inner + step, statistics)
            if proposal[0] > value:
                inner = inner + step
                damping = damping / 4.0 if damping > options.min_damping else 0.0
                value, gradient, information = proposal
            else:
                damping = max(4.0 * damping, options.min_damping)
        return SearchPoint(value, self.residual, self._coordinates(inner))

    def _coordinates(self, inner: np.ndarray) -> np.ndarray:
        """All coordinates (d,) from the inner coordinates (d - 2,)."""
        log_noise = np.log(self.evidence.min_noise + np.exp(inner[-1]))
        lengthscale, ratio = self.residual
        return np.array([*inner[:-1], lengthscale, ratio + log_noise, inner[-1]])

    def _evaluate(
        self, inner: np.ndarray, statistics: FilteredStatistics
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log joint density, gradient and information in the inner coordinates (d - 2,)."""
        z = self._coordinates(inner)
        value, gradient, information = self.evidence.at_fixed_residual(z, statistics)
        d = len(z)
        slopes = np.zeros((d, d - 2))
        slopes[: d - 3, : d - 3] = np.eye(d - 3)
        # At a fixed ratio the variance of the deviations is proportional to the noise variance.
        slopes[-1, -1] = 1.0
        slopes[-2, -1] = np.exp(inner[-1]) / (self.evidence.min_noise + np.exp(inner[-1]))
        return value, slopes.T @ gradient, slopes.T @ information @ slopes


def find_mode(
    evidence: BasisEvidence, options: ModeSearchOptions = ModeSearchOptions()
) -> tuple[np.ndarray, float]:
    """Mode of the joint density of a long series and its hyperparameters.

    Long series are searched in stages, on increasing numbers of their last values.

    Args:
        evidence: Log joint density of a long series.
        options: Options of the search.

    Returns:
        The mode (d,) and the log joint density there, -inf if it is not finite at any start.
    """
    n, optima, previous = len(evidence.y), [], 1
    with evidence.threads():
        for count in (*(count for count in options.parts if n >= 2 * count), n):
            part = evidence
            if count < n:
                part = evidence.given(evidence.x[-count:], evidence.y[-count:])
            starts = [_moved(part, optimum, previous / count, options) for optimum in optima]
            if count <= options.max_compared or not optima:
                starts += _starts(part, options)
            starts = _distinct(starts, options)[: options.searches]
            optima = _distinct([_search(part, start, options) for start in starts], options)
            previous = count
        if not optima:
            return evidence.starts[0], -np.inf
        return optima[0].z, evidence.log_density(optima[0].z)


def _starts(evidence: BasisEvidence, options: ModeSearchOptions) -> list[SearchPoint | None]:
    """Inner optimum at each starting lengthscale, with the best starting ratio."""
    starts = []
    for lengthscale in options.lengthscales:
        residuals = [np.log([lengthscale * evidence.step, ratio]) for ratio in options.ratios]
        profiles = [Profile(evidence, r, options, options.start_gain_tol) for r in residuals]
        points = [profile.maximum(evidence.starts) for profile in profiles]
        existing = [point for point in points if point is not None]
        starts.append(max(existing, key=lambda point: point.value, default=None))
    return starts


def _moved(
    evidence: BasisEvidence, optimum: SearchPoint, share: float, options: ModeSearchOptions
) -> SearchPoint | None:
    """Start for all values of `evidence`, from the optimum for a share of them.

    The inverse Hessian is in proportion to that share.
    """
    profile = Profile(evidence, optimum.residual, options, options.start_gain_tol)
    start = profile.maximum([optimum.z, *evidence.starts])
    if start is None or optimum.inverse is None:
        return start
    return start._replace(inverse=share * optimum.inverse)


def _distinct(
    points: Sequence[SearchPoint | None], options: ModeSearchOptions
) -> list[SearchPoint]:
    """Points sorted by density, best first; points close to a better one are dropped."""
    kept: list[SearchPoint] = []
    existing = [point for point in points if point is not None]
    for point in sorted(existing, key=lambda point: -point.value):
        gaps = [abs(point.residual[0] - other.residual[0]) for other in kept]
        if min(gaps, default=np.inf) >= options.min_start_gap:
            kept.append(point)
    return kept


def _search(
    evidence: BasisEvidence, start: SearchPoint, options: ModeSearchOptions
) -> SearchPoint | None:
    """Maximise the profile from a start; return the best point and inverse Hessian."""
    best: SearchPoint | None = None
    z = start.z

    def objective(residual: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, z
        # Each inner search begins at the last inner optimum.
        profile = Profile(evidence, np.array(residual), options, options.inner_gain_tol)
        point = profile.maximum([z])
        if point is None:
            # Instead of infinity, from which the line search would not step back.
            return 1e100, np.zeros(2)
        z = point.z
        if best is None or point.value > best.value:
            best = point
        _, gradient = evidence.value_and_gradient(point.z)
        return -point.value, -gradient[-3:-1]

    limits = {"gtol": options.outer_gradient_tol, "maxiter": options.max_outer_steps}
    if start.inverse is not None:
        limits["hess_inv0"] = 0.5 * (start.inverse + start.inverse.T)
    end = minimize(objective, start.residual, jac=True, method="BFGS", options=limits)
    return None if best is None else best._replace(inverse=end.hess_inv)
