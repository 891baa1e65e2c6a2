"""The structures that a series may have: a trend, a scale, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.evidence import Evidence, evidence_of
from bayeskern.forecast.model.kernels import (
    CENTER,
    NOISE,
    START,
    default_kernel,
    default_noise,
    history_kernel,
    in_units,
)
from bayeskern.forecast.model.learned import Learned
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.transformation import LatentScale, NormalScores, Scale
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.numpy_evidence import NumpyEvidence
from bayeskern.gp.numpy_latent import NumpyLatentEvidence
from bayeskern.gp.numpy_likelihoods import NumpyLikelihood
from bayeskern.kernels import Kernel

# The width of a change, in steps: it is over from one value to the next.
STEEP = 0.02
# The size of a step of a series is at least this share of its sd.
LEAST_SIZE = 1e-3


class Structure(NamedTuple):
    """One way in which a series may go on.

    trend: one of `TRENDS`, or the name of a kernel that was given; log: whether the logarithm is
    what it describes; changes: when level and slope change, in the unit of the times.
    """

    trend: str
    log: bool
    changes: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Choices:
    """The structures that are weighed against one another.

    Attributes:
        trends: Some of `TRENDS`, or the names of `kernels`.
        seasons: Name -> period.
        logs: The scales: False for the values as they are, True for their logarithm.
        learned: What is known of such series.
        step: The time from one value to the next.
        unit: The time that plays the part of a year in the prior of a change of slope.
        ranks: Whether the values are described by their ranks.
        changes: When level and slope change for certain.
        find_changes: Whether to look for other changes.
        robust: Whether the noise is Student's t.
        kernels: Name -> kernel, where they were given.
        effects: Linear effects of what is known beside the series.
        bounds: The least and the largest value that there can be.
        likelihood: Through which the values are seen, where they are no numbers with noise.
        whole_history: Whether basis functions describe all of a long series.
        end: The position of the last time that is forecast.
        rows: The number of values; fewer of them are filled up to it where code is compiled, so
            that this is done once.
        priors: Of hyperparameters by name, in place of those that were learned.
    """

    trends: tuple[str, ...]
    seasons: dict[str, float]
    logs: tuple[bool, ...]
    learned: Learned
    step: float = 1.0
    unit: float = 1.0
    ranks: bool = False
    changes: tuple[float, ...] = ()
    find_changes: bool = False
    robust: bool = False
    kernels: Mapping[str, Kernel] | None = None
    effects: Effects | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)
    likelihood: NumpyLikelihood | None = None
    whole_history: bool = False
    end: float = 0.0
    rows: int = 0
    priors: Priors | None = None

    @property
    def key(self) -> tuple:
        """What two sets of choices have to agree in to be the same."""
        others = [getattr(self, field.name) for field in fields(self) if field.name != "seasons"]
        return (tuple(self.seasons.items()), *others)

    @property
    def structures(self) -> list[Structure]:
        """Every trend on every scale."""
        return [Structure(trend, log, self.changes) for log in self.logs for trend in self.trends]

    def scale(self, structure: Structure, y: np.ndarray) -> Scale:
        """The scale on which a structure describes values y (n,)."""
        if self.likelihood is not None:
            return LatentScale(True, *self.likelihood.location_scale(y))
        return (NormalScores if self.ranks else Scale).of(y, structure.log)

    def model(
        self, structure: Structure, x: np.ndarray, scale: Scale, y
    ) -> GPRegression | LatentGP:
        """The model of a structure for values y at times x, (n,) both, on their scale."""
        kernel, noise = self.kernel_and_noise(structure, x, scale, y)
        if self.likelihood is not None:
            return LatentGP(scale.size**2 * kernel, self.likelihood.model, mean=scale.shift)
        return GPRegression(kernel, noise)

    def evidence(
        self, structure: Structure, x: np.ndarray, y: np.ndarray, scale: Scale
    ) -> Evidence:
        """The evidence of a structure given values y at times x, (n,) both, on their scale."""
        z = scale.forward(y)
        if self.kernels is not None:
            return evidence_of(self.model(structure, x, scale, y), x, z, self.rows)
        form = structure.trend, tuple(self.seasons.items()), structure.changes, self._width
        numbers = self._numbers(structure, x, self._standardised(scale, y))
        if self.likelihood is None:
            evidence = _template(*form).given(x, z, numbers)
        else:
            evidence = _latent_template(self.likelihood, *form).given(x, z, numbers)
            evidence = evidence.scaled(scale.shift, scale.size)
        evidence = evidence.with_priors(self._priors(structure, self._standardised(scale, y)))
        return evidence.with_effects(self.effects)

    def kernel_and_noise(self, structure: Structure, x, scale: Scale, y):
        """The kernel of a structure for values standardised, and the prior of the noise."""
        if self.kernels is not None:
            return self.kernels[structure.trend], default_noise(*OWN_NOISE)
        if self.whole_history:
            return history_kernel(self.seasons, float(np.mean(x))), default_noise(*OWN_NOISE)
        z = self._standardised(scale, y)
        kernel = default_kernel(structure.trend, self.seasons, structure.changes, self._width)
        priors = Priors(self._priors(structure, z), self.step)
        kernel = priors.of_kernel(kernel).at(self._numbers(structure, x, z))
        return kernel, default_noise(*priors.values[NOISE])

    def _standardised(self, scale: Scale, y: np.ndarray) -> np.ndarray:
        """Values on the scale, or about there where they are seen through a likelihood."""
        if self.likelihood is None:
            return scale.forward(y)
        return (y - np.mean(y)) / (np.std(y) or 1.0)

    def _numbers(self, structure: Structure, x, z) -> dict[str, float]:
        """Hyperparameters that follow from the series: the start is wide, the pivot its middle."""
        numbers = {START: 4.0 * float(np.var(z)) + 10.0 * self._size(z) ** 2}
        if structure.trend in ("drift", "reverting", "smooth"):
            numbers[CENTER] = float(np.mean(x))
        return numbers

    def _priors(self, structure: Structure, z) -> dict[str, tuple[float, float]]:
        """Name of a hyperparameter -> location and scale of its logarithm, for values z (n,)."""
        size, priors = self._size(z), {}
        for name, (location, scale) in self.learned.priors[structure.trend].items():
            # What was learned of a season is known of each.
            first, _, rest = name.partition(".")
            names = [f"{s}.{rest}" for s in self.seasons] if first == "season" else [name]
            located = in_units(location, name, size, self.step), scale
            priors |= dict.fromkeys(names, located)
        return priors | (dict(self.priors.values) if self.priors is not None else {})

    def _size(self, z: np.ndarray) -> float:
        """The size of a step of values z (n,): the sd of differences, or of seasonal ones."""
        lags = [1, *(round(period / self.step) for period in self.seasons.values())]
        differences = [z[lag:] - z[:-lag] for lag in lags if len(z) > lag + 2]
        sizes = [np.sqrt(np.mean(np.square(d))) for d in differences if np.any(d)]
        return float(max(min(sizes, default=np.std(z)), LEAST_SIZE * np.std(z)))

    @property
    def _width(self) -> float:
        return STEEP * self.step

    def log_prior(self, structure: Structure, n: int) -> float:
        """The log prior of the changes that were found among n values."""
        found = max(0, len(structure.changes) - len(self.changes))
        return found * log_prior_of_change(n)


# The prior of the noise beside a kernel that was given.
OWN_NOISE = (-1.5, 1.0)


@lru_cache(maxsize=256)
def _template(trend: str, seasons: tuple, changes: tuple, width: float):
    """The evidence of a structure without data: kernels with priors take long to make."""
    kernel = default_kernel(trend, dict(seasons), changes, width)
    return NumpyEvidence(GPRegression(kernel, default_noise()), np.zeros(1), np.zeros(1))


@lru_cache(maxsize=256)
def _latent_template(likelihood: NumpyLikelihood, trend, seasons, changes, width):
    """The same of what is seen through a likelihood."""
    kernel = default_kernel(trend, dict(seasons), changes, width)
    return NumpyLatentEvidence(kernel, likelihood, np.zeros(1), np.zeros(1))


def log_prior_of_change(n: int) -> float:
    """The log prior of a change at one place among n values: one in all is as likely as none."""
    return -float(np.log(2.0 * n))
