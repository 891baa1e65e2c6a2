"""Log joint density of one structure and the values of a series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from bayeskern.engine.base import LogMarginal
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.forecast.fit.robust import DEGREES, noise_factors
from bayeskern.forecast.model.building import build_density, build_model, build_scale
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.forecast.model.target import bound, latent_target
from bayeskern.forecast.model.transformation import Scale
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.inference.model.target import Target


@dataclass(frozen=True, eq=False)
class StructureDensity:
    """A structure with the values of a series, as a density of its hyperparameters.

    Attributes:
        structure: Trend, transformation and changes.
        choices: Options of the compared structures.
        scale: Transformation between values and transformed values.
        x: Times, (n,).
        y: Values, (n,).
        density: Log joint density of the transformed values and the hyperparameters.
    """

    structure: Structure
    choices: StructureChoices
    scale: Scale
    x: np.ndarray
    y: np.ndarray
    density: LogMarginal

    def with_effects(self, choices: StructureChoices) -> Self:
        """Copy with the effects of `choices`, which must be the same at the times of the data."""
        return replace(self, choices=choices, density=self.density.with_effects(choices.effects))

    @property
    def dense(self) -> DenseLogMarginal:
        """The log density by covariances: change points and robust noise exclude the filter."""
        assert isinstance(self.density, DenseLogMarginal)
        return self.density

    def student_noise(
        self, density: DenseLogMarginal, x: np.ndarray, z: np.ndarray
    ) -> DenseLogMarginal:
        """Log joint density with noise factors from the residuals at hyperparameters z (d,).

        Values on events and holidays keep a factor of 1.
        """
        effects = self.choices.effects
        on_events = np.zeros(len(x), bool) if effects is None else effects.on_events(x)
        with density.threads():
            mean, variance = density.conditioned(z).moments(density.x)
        squares = np.square(density.y - mean) + variance
        noise = float(density.values(z)["noise"])
        return density.with_noise_factors(*noise_factors(squares, noise, on_events))

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

    def excess_noise(self, z: np.ndarray) -> np.ndarray:
        """Excess variance of Student t over normal noise, at z (..., d): (...)."""
        if not self.choices.robust:
            return np.zeros(np.shape(z)[:-1])
        return (DEGREES / (DEGREES - 2.0) - 1.0) * self.density.values(z)["noise"]


def scale_and_density(
    structure: Structure, choices: StructureChoices, x: np.ndarray, y: np.ndarray
) -> tuple[Scale, LogMarginal]:
    """Scale of a structure, and log joint density of the values y (n,) at x (n,) on the scale."""
    scale = build_scale(choices, structure, choices.of_series(x, y))
    return scale, build_density(choices, structure, x, scale, y)
