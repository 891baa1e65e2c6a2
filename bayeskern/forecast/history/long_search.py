"""Search for the mode of the hyperparameters of a long series.

A new lengthscale l of the short-term deviations, or a new ratio q of their variance to the noise,
takes a pass over all values; all other hyperparameters are cheap once (l, q) is fixed. So the
search is nested: the outer one moves (log l, log q) by BFGS, and the inner one maximises over all
others. At the inner optimum the gradient of the profile is the partial gradient (envelope theorem).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from bayeskern.forecast.history.sufficient_statistics import History, Statistics

# Value of -log p where there is no density: high enough for a line search to step back.
BARRIER = 1e100
# Smallest damping of an inner step, relative to the information.
MIN_DAMPING = 0.1


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search.

    Attributes:
        lengthscales: Starting lengthscales of the short-term deviations, in steps.
        ratios: Starting ratios of their variance to the noise.
        searches: Number of starts from which the outer search runs.
        min_start_gap: Least difference of their log lengthscales.
        parts: Numbers of last values on which the search runs first. The ends of a search on a
            part are starts on the next one; a series less than twice as long does without it.
        max_compared: Most values on which the starting lengthscales and ratios are compared as
            well, if there are starts from a part.
        outer_gradient_tol: Gradient in log l and log q at which the search ends, in nats.
        inner_gain_tol: Expected gain of an inner step at which the inner search ends, in nats.
        start_gain_tol: The same where starts are compared.
        max_outer_steps: Most steps of the outer search.
        max_inner_steps: Most steps of each inner search.
        max_inner_step: Longest inner step in any coordinate.
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


class NestedDensity(Protocol):
    """Log joint density that is cheap at a fixed lengthscale and ratio: `BasisEvidence`.

    The last three coordinates are the logarithms of the lengthscale and of the variance of the
    short-term deviations, and that of the noise variance above its lower limit.

    Attributes:
        x: Sorted times, (n,).
        y: Values, (n,).
        step: Time from one value to the next.
        starts: Coordinates from which the inner search begins, (d,) each.
        min_noise: Lower limit of the noise variance.
        history: The data, which give the statistics at a lengthscale and a ratio.
    """

    x: np.ndarray
    y: np.ndarray
    step: float
    starts: list[np.ndarray]
    min_noise: float
    history: History

    def given(self, x: np.ndarray, y: np.ndarray) -> NestedDensity:
        """The same model given other values."""

    def log_density(self, z: np.ndarray) -> float:
        """Log joint density at z (d,)."""

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log joint density and gradient at z (d,)."""

    def at_fixed_residual(
        self, z: np.ndarray, statistics: Statistics
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log joint density, gradient and information at z (d,), at fixed statistics."""

    def residual_parameters(self, z: np.ndarray) -> tuple[float, float]:
        """Lengthscale and ratio at z (d,)."""


class Mode(NamedTuple):
    """Mode of the joint density.

    Attributes:
        z: Unconstrained coordinates, (d,).
        log_density: Log joint density there.
    """

    z: np.ndarray
    log_density: float


class Profile:
    """Log joint density maximised over all coordinates but log l and log q.

    Attributes:
        z: Coordinates at the last inner optimum, (d,), None before the first one. The next inner
            search begins there, and the first one at each of several starts.
    """

    def __init__(
        self,
        evidence: NestedDensity,
        starts: Sequence[np.ndarray],
        options: SearchOptions,
        gain_tol: float,
    ):
        self._evidence, self._starts, self._options = evidence, starts, options
        self._gain_tol = gain_tol
        self.z: np.ndarray | None = None

    def value(self, residual: np.ndarray) -> float:
        """Maximum at log l and log q; -inf where there is none."""
        best_value, best = -np.inf, None
        with np.errstate(all="ignore"):
            statistics = self._evidence.history.statistics(*map(float, np.exp(residual)))
            for start in self._starts if self.z is None else [self.z]:
                value, z = self._maximise(start, residual, statistics)
                if value > best_value:
                    best_value, best = value, z
        self.z = self.z if best is None else best
        return best_value

    def _maximise(
        self, start: np.ndarray, residual: np.ndarray, statistics: Statistics
    ) -> tuple[float, np.ndarray]:
        """Inner optimum from one start: the log joint density there, and its coordinates.

        Fisher scoring, with the damping of Levenberg and Marquardt where a step fails.
        """
        options, own, damping = self._options, np.append(start[:-3], start[-1]), 0.0
        value, gradient, information = self._evaluate(own, residual, statistics)
        for _ in range(options.max_inner_steps):
            damped = information + damping * np.diag(np.diag(information))
            step = np.linalg.solve(damped, gradient)
            if not 0.5 * gradient @ step > self._gain_tol:
                break
            step *= min(1.0, options.max_inner_step / np.abs(step).max())
            ahead = self._evaluate(own + step, residual, statistics)
            if ahead[0] > value:
                own, damping = own + step, damping / 4.0 if damping > MIN_DAMPING else 0.0
                value, gradient, information = ahead
            else:
                damping = max(4.0 * damping, MIN_DAMPING)
        return value, self._coordinates(own, residual)

    def _coordinates(self, own: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """All coordinates (d,) for the inner ones (d - 2,) and log l and log q (2,)."""
        log_noise = np.log(self._evidence.min_noise + np.exp(own[-1]))
        return np.array([*own[:-1], residual[0], residual[1] + log_noise, own[-1]])

    def _evaluate(
        self, own: np.ndarray, residual: np.ndarray, statistics: Statistics
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log joint density, gradient and information in the inner coordinates (d - 2,)."""
        z = self._coordinates(own, residual)
        value, gradient, information = self._evidence.at_fixed_residual(z, statistics)
        d = len(z)
        slopes = np.zeros((d, d - 2))
        slopes[: d - 3, : d - 3] = np.eye(d - 3)
        # The variance of the deviations goes with the noise variance at a fixed ratio.
        slopes[-1, -1] = 1.0
        slopes[-2, -1] = np.exp(own[-1]) / (self._evidence.min_noise + np.exp(own[-1]))
        return value, slopes.T @ gradient, slopes.T @ information @ slopes

    def value_and_gradient(self, residual: np.ndarray) -> tuple[float, np.ndarray]:
        """Maximum at log l and log q, and its gradient in them: (2,)."""
        value = self.value(residual)
        if not np.isfinite(value):
            return value, np.zeros(2)
        _, gradient = self._evidence.value_and_gradient(self.z)
        return value, gradient[-3:-1]


class Start(NamedTuple):
    """Where an outer search begins.

    Attributes:
        value: Log joint density.
        residual: log l and log q, (2,).
        z: Coordinates of the inner optimum, (d,).
        inverse: Inverse of the Hessian of -log p there, (2, 2), if it is known.
    """

    value: float
    residual: np.ndarray
    z: np.ndarray
    inverse: np.ndarray | None = None


def find_mode(evidence: NestedDensity, start: np.ndarray | None, options: SearchOptions) -> Mode:
    """Search for the mode of the joint density.

    Args:
        evidence: Log joint density of a long series.
        start: Where to begin, (d,); by default several places are compared.
        options: Options of the search.

    Returns:
        The mode, with a log density of -inf if there is none at any start.
    """
    if start is not None:
        residual = np.log(evidence.residual_parameters(start))
        best = _search(evidence, Start(-np.inf, residual, start), options)
        return Mode(best.z, evidence.log_density(best.z))
    n, ends, before = len(evidence.y), [], 1
    for count in (*(count for count in options.parts if n >= 2 * count), n):
        part = evidence if count == n else evidence.given(evidence.x[-count:], evidence.y[-count:])
        starts = [_moved(part, end, before / count, options) for end in ends]
        if count <= options.max_compared or not ends:
            starts += _starts(part, options)
        starts = _distinct(starts, options)[: options.searches]
        ends = _distinct([_search(part, one, options) for one in starts], options)
        before = count
    if not ends:
        return Mode(evidence.starts[0], -np.inf)
    return Mode(ends[0].z, evidence.log_density(ends[0].z))


def _starts(evidence: NestedDensity, options: SearchOptions) -> list[Start]:
    """For each starting lengthscale, the inner optimum at the better one of the ratios."""
    starts = []
    for lengthscale in options.lengthscales:
        candidates = []
        for ratio in options.ratios:
            residual = np.log([lengthscale * evidence.step, ratio])
            profile = Profile(evidence, evidence.starts, options, options.start_gain_tol)
            candidates.append(Start(profile.value(residual), residual, profile.z))
        starts.append(max(candidates, key=lambda one: one.value))
    return starts


def _moved(evidence: NestedDensity, end: Start, share: float, options: SearchOptions) -> Start:
    """The end of a search on a share of the values as a start for all of them."""
    profile = Profile(evidence, [end.z, *evidence.starts], options, options.start_gain_tol)
    value = profile.value(end.residual)
    return Start(value, end.residual, profile.z, share * end.inverse)


def _distinct(starts: list[Start], options: SearchOptions) -> list[Start]:
    """Starts in descending order, without those close to a better one."""
    kept: list[Start] = []
    for start in sorted(starts, key=lambda one: -one.value):
        gaps = [abs(start.residual[0] - other.residual[0]) for other in kept]
        if start.z is not None and min(gaps, default=np.inf) >= options.min_start_gap:
            kept.append(start)
    return kept


def _search(evidence: NestedDensity, start: Start, options: SearchOptions) -> Start:
    """Maximise the profile from a start; return the best point with the inverse Hessian there."""
    profile, best = (
        Profile(evidence, [start.z], options, options.inner_gain_tol),
        start._replace(value=-np.inf),
    )

    def objective(residual):
        nonlocal best
        value, gradient = profile.value_and_gradient(residual)
        if value > best.value:
            best = Start(value, np.array(residual), profile.z)
        return (-value, -gradient) if np.isfinite(value) else (BARRIER, gradient)

    limits = {"gtol": options.outer_gradient_tol, "maxiter": options.max_outer_steps}
    if start.inverse is not None:
        limits["hess_inv0"] = 0.5 * (start.inverse + start.inverse.T)
    end = minimize(objective, start.residual, jac=True, method="BFGS", options=limits)
    return best._replace(inverse=end.hess_inv)
