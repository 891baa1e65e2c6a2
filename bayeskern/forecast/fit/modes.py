"""Structures at the modes of their hyperparameters, with Laplace's approximation there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from bayeskern.engine.base import Moments
from bayeskern.forecast.fit.density import StructureDensity, scale_and_density
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.fit.search import hessian_at, newton, optimise
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.inference.search.modes import Optimum

# Lower bound on the curvature along an eigenvector: a proposal sd of 2, twice most prior sds.
MIN_PROPOSAL_CURVATURE = 0.25


@dataclass(frozen=True, eq=False)
class FittedStructure(StructureDensity):
    """A structure at the mode of its hyperparameters.

    Attributes:
        mode: The mode, (d,), in unconstrained coordinates.
        value: Log density at the mode; computed on demand if None.
        curvature: Hessian of -log p near the mode, (d, d); computed on demand if None.
        log_prior: Log prior probability of the structure, up to a constant.
    """

    mode: np.ndarray
    value: float | None = None
    curvature: np.ndarray | None = None
    log_prior: float = 0.0

    @classmethod
    def from_values(
        cls,
        structure: Structure,
        choices: StructureChoices,
        x: np.ndarray,
        y: np.ndarray,
        start: Mapping[str, float] | None = None,
    ) -> FittedStructure:
        """Find the mode for values y (n,) at times x (n,).

        start: Unconstrained starting values by name; prior medians for other hyperparameters.
        """
        scale, density = scale_and_density(structure, choices, x, y)
        medians = zip(density.names, density.middle, strict=True)
        mode = np.array([(start or {}).get(name, z) for name, z in medians])
        fitted = cls(structure, choices, scale, x, y, density, *optimise(density, mode))
        return fitted._with_student_noise() if choices.robust else fitted

    @classmethod
    def at_mode(
        cls,
        structure: Structure,
        choices: StructureChoices,
        x: np.ndarray,
        y: np.ndarray,
        mode: np.ndarray,
        value: float | None = None,
        curvature: np.ndarray | None = None,
    ) -> FittedStructure:
        """Structure at a known mode, for values y (n,) at times x (n,)."""
        scale, density = scale_and_density(structure, choices, x, y)
        return cls(structure, choices, scale, x, y, density, mode, value, curvature)

    def _with_student_noise(self) -> FittedStructure:
        """Update the noise factors and the mode in turn."""
        fitted = self
        # At most 10 rounds, until the log density changes by less than 0.1 nats.
        for _ in range(10):
            density = self.student_noise(fitted.dense, self.x, fitted.mode)
            mode, value = optimise(density, fitted.mode)
            gain = value - fitted.log_density
            fitted = replace(fitted, density=density, mode=mode, value=value)
            if abs(gain) < 0.1:
                break
        return fitted

    def given(self, x: np.ndarray, y: np.ndarray) -> FittedStructure:
        """Copy with the same mode and scale, given values y (n,) at times x (n,)."""
        density = self.density.given(x, self.scale.forward(y))
        fitted = replace(self, x=x, y=y, density=density, value=None, curvature=None)
        if not self.choices.robust:
            return fitted
        # New values have a factor of 1 until their residuals are known.
        factors = np.append(self.dense.noise_factors, np.ones(len(y) - len(self.y)))
        dense = fitted.dense.with_noise_factors(factors, 0.0)
        return replace(fitted, density=self.student_noise(dense, x, self.mode))

    # -- Laplace's approximation -------------------------------------------------------------------

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
        return self.density.value_and_gradient(self.mode)

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
        return dict(zip(self.density.names, self.mode.tolist(), strict=True))

    @cached_property
    def hessian(self) -> np.ndarray:
        """Hessian of -log p at the mode, (d, d)."""
        if self.curvature is not None:
            return self.curvature
        with self.density.threads():
            return hessian_at(self.density, self.mode, self.gradient)

    # -- a more precise mode -----------------------------------------------------------------------

    def rescaled(self) -> FittedStructure:
        """Optimise again, in coordinates of about equal curvature, to a smaller tolerance.

        The data may determine a period to 0.1 % but a variance only to 50 %, and L-BFGS ends early
        on such an ill-conditioned density.
        """
        unit = 1.0 / np.sqrt(np.maximum(np.diag(np.nan_to_num(self.hessian)), 1.0))
        mode, value = optimise(self.density, self.mode, unit, gain_tol=1e-7)
        if not value > self.log_density:
            return self
        return replace(self, mode=mode, value=value, curvature=None)

    def polished(self) -> FittedStructure:
        """Refine the mode by Newton's method until the gradient is within the tolerance.

        If Newton's method does not converge, L-BFGS is repeated in rescaled coordinates first.
        """
        polished = self._newton()
        return polished if polished.optimum.converged else polished.rescaled()._newton()

    def _newton(self) -> FittedStructure:
        mode, value = newton(self.density, self.mode, self.hessian)
        moved = mode - self.mode
        # Within 0.1 posterior sds of the start, its Hessian is accurate enough for the new mode.
        is_near = moved @ self.hessian @ moved < np.square(0.1)
        return replace(self, mode=mode, value=value, curvature=self.hessian if is_near else None)

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
            coordinates=self.density.names,
            mode="unconstrained",
        )

    # -- predictions -------------------------------------------------------------------------------

    def rolling(self, origins: Sequence[Origin]) -> list[Moments]:
        """Predictive means and sds of transformed values after each origin, at the mode."""
        counts = [origin.count for origin in origins]
        next_counts = [len(origin.steps) for origin in origins]
        pairs = self.density.rolling(self.mode, counts, next_counts)
        excess = self.excess_noise(self.mode)
        return [(mean, np.sqrt(variance + excess)) for mean, variance in pairs]
