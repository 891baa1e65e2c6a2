"""Modes of the hyperparameters of a structure, and weighted draws around them.

JAX compiles only Gram matrices of kernels that have no NumPy formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import numpy as np
from scipy.optimize import minimize

from bayeskern.forecast.fit.draws import NO_TIMES, Draws
from bayeskern.forecast.fit.robust import DEGREES, noise_factors
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.model.building import build_evidence, build_model, build_scale
from bayeskern.forecast.model.structure import Choices, Structure
from bayeskern.forecast.model.target import bound, latent_target
from bayeskern.forecast.model.transformation import Scale
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.time_series.base import LogMarginal
from bayeskern.gp.time_series.log_marginal import DenseLogMarginal
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import MODE_GRADIENT_TOL, Optimum

# Lower bound on the curvature along an eigenvector: a proposal sd of 2, twice most prior sds.
MIN_PROPOSAL_CURVATURE = 0.25


@dataclass(frozen=True, eq=False)
class Fitted:
    """A structure at the mode of its hyperparameters.

    Attributes:
        structure: Trend, seasons and transformation.
        choices: Options of the compared structures.
        scale: Transformation between values and transformed values.
        x: Times, (n,).
        y: Values, (n,).
        evidence: Log joint density of the transformed values and the hyperparameters.
        mode: The mode, (d,), in unconstrained coordinates.
        value: Log density at the mode; computed on demand if None.
        curvature: Hessian of -log p near the mode, (d, d); computed on demand if None.
        log_prior: Log prior probability of the structure, up to a constant.
    """

    structure: Structure
    choices: Choices
    scale: Scale
    x: np.ndarray
    y: np.ndarray
    evidence: LogMarginal
    mode: np.ndarray
    value: float | None = None
    curvature: np.ndarray | None = None
    log_prior: float = 0.0

    @classmethod
    def of(
        cls,
        structure: Structure,
        choices: Choices,
        x: np.ndarray,
        y: np.ndarray,
        start: Mapping[str, float] | None = None,
    ) -> Fitted:
        """Find the mode for values y (n,) at times x (n,).

        start: Unconstrained starting values by name; prior medians for other hyperparameters.
        """
        scale, evidence = _scale_and_evidence(structure, choices, x, y)
        medians = zip(evidence.names, evidence.middle, strict=True)
        mode = np.array([(start or {}).get(name, z) for name, z in medians])
        mode, value = optimise(evidence, mode)
        fitted = cls(structure, choices, scale, x, y, evidence, mode, value)
        return fitted.robust() if choices.robust else fitted

    @classmethod
    def at(
        cls,
        structure: Structure,
        choices: Choices,
        x: np.ndarray,
        y: np.ndarray,
        mode: np.ndarray,
        value: float | None = None,
        curvature: np.ndarray | None = None,
    ) -> Fitted:
        """Structure at a known mode, for values y (n,) at times x (n,)."""
        scale, evidence = _scale_and_evidence(structure, choices, x, y)
        return cls(structure, choices, scale, x, y, evidence, mode, value, curvature)

    def robust(self) -> Fitted:
        """Fit with Student t noise: update noise factors and the mode in turn."""
        fitted = self
        # At most 10 rounds, until the log density changes by less than 0.1 nats.
        for _ in range(10):
            evidence = fitted._with_noise_factors(fitted.evidence, self.x)
            mode, value = optimise(evidence, fitted.mode)
            gain = value - fitted.log_density
            fitted = replace(fitted, evidence=evidence, mode=mode, value=value)
            if abs(gain) < 0.1:
                break
        return fitted

    def given(self, x: np.ndarray, y: np.ndarray) -> Fitted:
        """Copy with the same mode and scale, given values y (n,) at times x (n,)."""
        evidence = self.evidence.given(x, self.scale.forward(y))
        if self.choices.robust:
            # New values have a factor of 1 until their residuals are known.
            old = cast("DenseLogMarginal", self.evidence).noise_factors
            factors = np.append(old, np.ones(len(y) - len(self.y)))
            provisional = cast("DenseLogMarginal", evidence).with_noise_factors(factors, 0.0)
            evidence = self._with_noise_factors(provisional, x)
        return replace(self, x=x, y=y, evidence=evidence, value=None, curvature=None)

    def with_effects(self, choices: Choices) -> Fitted:
        """Copy with the effects of `choices`, which must be the same at the times of the data."""
        return replace(self, choices=choices, evidence=self.evidence.with_effects(choices.effects))

    def _with_noise_factors(self, evidence: LogMarginal, x: np.ndarray) -> DenseLogMarginal:
        """Log joint density with noise factors computed from the residuals at the mode.

        Values on events and holidays keep a factor of 1.
        """
        evidence = cast("DenseLogMarginal", evidence)
        effects = self.choices.effects
        on_events = np.zeros(len(x), bool) if effects is None else effects.on_events(x)
        noise = float(evidence.values(self.mode)["noise"])
        with evidence.threads():
            mean, variance = evidence.conditioned(self.mode).moments(evidence.x)
        squares = np.square(evidence.y - mean) + variance
        return evidence.with_noise_factors(*noise_factors(squares, noise, on_events))

    @cached_property
    def log_density(self) -> float:
        """Log density at the mode."""
        return self._value_and_gradient[0] if self.value is None else self.value

    @property
    def gradient(self) -> np.ndarray:
        """Gradient of the log density at the mode, (d,)."""
        return self._value_and_gradient[1]

    @cached_property
    def _value_and_gradient(self) -> tuple[float, np.ndarray]:
        return self.evidence.value_and_gradient(self.mode)

    @cached_property
    def model(self) -> GPRegression | LatentGP:
        """Model of the transformed values."""
        return build_model(self.choices, self.structure, self.x, self.scale, self.y)

    @property
    def target(self) -> Target:
        """Target of the inference methods: the model given the transformed values."""
        if isinstance(self.model, LatentGP):
            return latent_target(self.model, self.x, self.y)
        return bound(self.model, self.x, self.scale.forward(self.y))

    @cached_property
    def log_jacobian(self) -> float:
        """Log Jacobian determinant: log p(y) minus log density of the transformed values."""
        return float(np.sum(self.scale.log_jacobian(self.y)))

    @property
    def log_joint(self) -> float:
        """Log joint density of y and the mode; -inf in place of NaN."""
        value = self.log_density + self.log_jacobian + self.log_prior
        return value if np.isfinite(value) else -np.inf

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood log p(y) by Laplace's method; -inf if `log_joint` is."""
        curvatures = np.linalg.eigvalsh(np.nan_to_num(self.hessian))
        volume = len(self.mode) * np.log(2.0 * np.pi)
        volume -= np.sum(np.log(np.maximum(curvatures, MIN_PROPOSAL_CURVATURE)))
        return self.log_joint + 0.5 * float(volume)

    @property
    def mode_by_name(self) -> dict[str, float]:
        """Mode in unconstrained coordinates, by name of the hyperparameter."""
        return dict(zip(self.evidence.names, self.mode.tolist(), strict=True))

    @cached_property
    def hessian(self) -> np.ndarray:
        """Hessian of -log p at the mode, (d, d), by forward differences of the gradient."""
        if self.curvature is not None:
            return self.curvature
        d, step = len(self.mode), 1e-4
        with self.evidence.threads():
            rows = [
                self.gradient - self.evidence.value_and_gradient(z)[1]
                for z in self.mode + step * np.eye(d)
            ]
        H = np.reshape(rows, (d, d))
        return 0.5 * (H + H.T) / step

    def rescaled(self) -> Fitted:
        """Optimise again, in coordinates of about equal curvature, to a smaller tolerance.

        The data may determine a period to 0.1 % but a variance only to 50 %, and L-BFGS ends early
        on such an ill-conditioned density.
        """
        unit = 1.0 / np.sqrt(np.maximum(np.diag(np.nan_to_num(self.hessian)), 1.0))
        mode, value = optimise(self.evidence, self.mode, unit, gain_tol=1e-7)
        if not value > self.log_density:
            return self
        return replace(self, mode=mode, value=value, curvature=None)

    def polished(self) -> Fitted:
        """Refine the mode by Newton's method until the gradient is within the tolerance.

        If Newton's method does not converge, L-BFGS is repeated in rescaled coordinates first.
        """
        polished = self._newton()
        return polished if polished.optimum.converged else polished.rescaled()._newton()

    def _newton(self) -> Fitted:
        """Take Newton steps with the Hessian at the start while each halves the gradient."""
        fitted = self
        with self.evidence.threads():
            for _ in range(500):
                gradient_norm = fitted.optimum.gradient_norm
                if gradient_norm < MODE_GRADIENT_TOL:
                    break
                try:
                    mode = fitted.mode + np.linalg.solve(self.hessian, fitted.gradient)
                except np.linalg.LinAlgError:
                    break
                candidate = replace(fitted, mode=mode, value=None, curvature=self.hessian)
                # False if the gradient is NaN.
                halved = candidate.optimum.gradient_norm < 0.5 * gradient_norm
                if not (halved and np.isfinite(candidate.log_density)):
                    break
                fitted = candidate
        moved = fitted.mode - self.mode
        # Within 0.1 posterior sds of the start, its Hessian is accurate enough for the new mode.
        if moved @ self.hessian @ moved < np.square(0.1):
            return fitted
        return replace(fitted, value=fitted.log_density, curvature=None)

    @cached_property
    def optimum(self) -> Optimum:
        """The mode as an `Optimum`."""
        return Optimum(
            z=self.mode,
            log_density=self.log_density,
            gradient=-self.gradient,
            curvature=partial(getattr, self, "hessian"),
            ends=self.mode[None],
            start_log_densities=np.array([self.log_density]),
            coordinates=self.evidence.names,
            mode="unconstrained",
        )

    def rolling(self, origins: Sequence[Origin]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Predictive means and sds of transformed values after each origin, at the mode."""
        counts = [origin.count for origin in origins]
        next_counts = [len(origin.steps) for origin in origins]
        pairs = self.evidence.rolling(self.mode, counts, next_counts)
        excess = self.excess_noise(self.mode)
        return [(mean, np.sqrt(variance + excess)) for mean, variance in pairs]

    def excess_noise(self, z: np.ndarray) -> np.ndarray:
        """Excess variance of Student t over normal noise, at z (..., d): (...)."""
        if not self.choices.robust:
            return np.zeros(np.shape(z)[:-1])
        return (DEGREES / (DEGREES - 2.0) - 1.0) * self.evidence.values(z)["noise"]

    def draws(self, count: int, seed: int, x_new: np.ndarray = NO_TIMES) -> Draws:
        """Draws from the normal approximation at the mode, with importance weights.

        Args:
            count: Number of draws.
            seed: Random seed.
            x_new: Sorted times of likely predictions or new values, (m,), to be precomputed.
        """
        d = len(self.mode)
        if d == 0:
            return Draws(self, self.mode[None], np.array([self.log_density]))
        # Where the curvature is small or negative, the proposal is wide; the weights correct it.
        eigenvalues, vectors = np.linalg.eigh(np.nan_to_num(self.hessian))
        curvature = (vectors * np.maximum(eigenvalues, MIN_PROPOSAL_CURVATURE)) @ vectors.T
        # Unlike eigenvectors, the Cholesky factor is a continuous function of the data.
        factor = np.linalg.cholesky(curvature)
        standard = np.random.default_rng(seed).standard_normal((count, d))
        z = self.mode + np.linalg.solve(factor.T, standard.T).T
        log_q = -0.5 * np.sum(np.square(standard), axis=1) - 0.5 * d * np.log(2.0 * np.pi)
        log_q += np.sum(np.log(np.diag(factor)))
        predictive = self.evidence.predictive(z, x_new)
        return Draws(self, z, predictive.log_densities - log_q, x_new, predictive)

    def at_mode(self) -> Draws:
        """Single draw at the polished mode."""
        polished = self.polished()
        return Draws(polished, polished.mode[None], np.zeros(1))


def _scale_and_evidence(
    structure: Structure, choices: Choices, x: np.ndarray, y: np.ndarray
) -> tuple[Scale, LogMarginal]:
    """Scale of a structure, and log joint density of the values y (n,) at x (n,) on the scale."""
    scale = build_scale(choices, structure, choices.of_series(x, y))
    return scale, build_evidence(choices, structure, x, scale, y)


def optimise(
    evidence: LogMarginal,
    start: np.ndarray,
    unit: np.ndarray | None = None,
    gain_tol: float = 1e-5,
) -> tuple[np.ndarray, float]:
    """Maximise the log density by L-BFGS.

    Args:
        evidence: The log density.
        start: Starting point, (d,).
        unit: Unit of each coordinate in the search, (d,); by default its prior sd.
        gain_tol: Relative gain of a step below which the optimisation ends.

    Returns:
        The mode, (d,), and the log density there, -inf if it is not finite.
    """
    if len(start) == 0:
        return start, evidence.log_density(start)
    unit = evidence.prior_sd if unit is None else unit
    # Replaces an infinite -log p, from which the line search would not step back.
    barrier = 1e100

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evidence.value_and_gradient(start + unit * u)
        return (-value, -unit * gradient) if np.isfinite(value) else (barrier, np.zeros(len(u)))

    options = {"maxiter": 500, "ftol": gain_tol, "gtol": 1e-3}
    with evidence.threads():
        begin = np.zeros(len(start))
        end = minimize(objective, begin, jac=True, method="L-BFGS-B", options=options)
    return start + unit * end.x, -float(end.fun) if end.fun < barrier else -np.inf
