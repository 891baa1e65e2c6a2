"""The structures that a series may have: a trend, seasons, a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.evidence import Evidence, evidence_of
from bayeskern.forecast.model.kernels import CENTER, NOISE, default_kernel, default_noise
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.transformation import LatentScale, Scale
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.numpy_evidence import NumpyEvidence
from bayeskern.gp.numpy_latent import NumpyLatentEvidence
from bayeskern.gp.numpy_likelihoods import NumpyLikelihood
from bayeskern.kernels import Kernel

# The prior probability of a season that may be absent: small, since one that hardly shows costs a
# structure next to nothing, and one that is there shows beyond doubt.
SEASON = 0.1
# The width of a change, in steps: it is over from one value to the next.
STEEP = 0.02


class Structure(NamedTuple):
    """One way in which a series may go on.

    trend: one of `TRENDS`, or the name of a kernel that was given; seasons: the names of those that
    are present; log: whether the logarithm is what it describes; changes: when level and slope
    change, in the unit of the times.
    """

    trend: str
    seasons: tuple[str, ...]
    log: bool
    changes: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Choices:
    """The structures that are weighed against one another.

    Attributes:
        trends: Some of `TRENDS`, or the names of `kernels`.
        seasons: Name -> period.
        optional: Whether each season may be absent.
        logs: The scales: False for the values as they are, True for their logarithm.
        unit: The time that plays the part of a year in the priors.
        step: The time from one value to the next.
        changes: When level and slope change for certain.
        find_changes: Whether to look for other changes.
        robust: Whether the noise is Student's t.
        kernels: Name -> kernel, where they were given.
        effects: Linear effects of what is known beside the series.
        bounds: The least and the largest value that there can be.
        likelihood: Through which the values are seen, where they are no numbers with noise.
        rows: The number of values; fewer of them are filled up to it where code is compiled, so
            that this is done once.
        priors: Of hyperparameters by name, in place of those of the structures.
    """

    trends: tuple[str, ...]
    seasons: dict[str, float]
    optional: bool
    logs: tuple[bool, ...]
    unit: float
    step: float = 1.0
    changes: tuple[float, ...] = ()
    find_changes: bool = False
    robust: bool = False
    kernels: Mapping[str, Kernel] | None = None
    effects: Effects | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)
    likelihood: NumpyLikelihood | None = None
    rows: int = 0
    priors: Priors | None = None

    @property
    def key(self) -> tuple:
        """What two sets of choices have to agree in to be the same."""
        others = [getattr(self, field.name) for field in fields(self) if field.name != "seasons"]
        return (tuple(self.seasons.items()), *others)

    def scale(self, structure: Structure, y: np.ndarray) -> Scale:
        """The scale on which a structure describes values y (n,)."""
        if self.likelihood is not None:
            return LatentScale(True, *self.likelihood.location_scale(y))
        return Scale.of(y, structure.log)

    def model(self, structure: Structure, x: np.ndarray, scale: Scale) -> GPRegression | LatentGP:
        """The model of a structure for values at times x (n,), on their scale."""
        kernel = self.kernel_of(structure, x)
        if self.likelihood is not None:
            return LatentGP(scale.size**2 * kernel, self.likelihood.model, mean=scale.shift)
        noise = self.priors.values.get(NOISE, ()) if self.priors is not None else ()
        return GPRegression(kernel, default_noise(*noise))

    def evidence(
        self, structure: Structure, x: np.ndarray, y: np.ndarray, scale: Scale
    ) -> Evidence:
        """The evidence of a structure given values y at times x, (n,) both, on their scale."""
        z = scale.forward(y)
        if self.kernels is not None:
            return evidence_of(self.model(structure, x, scale), x, z, self.rows)
        seasons = tuple((name, self.seasons[name]) for name in structure.seasons)
        form = seasons, self.unit, structure.trend, structure.changes, self._width
        center = {CENTER: float(np.mean(x))}
        if self.likelihood is None:
            evidence = _template(*form).given(x, z, center)
        else:
            evidence = _latent_template(self.likelihood, *form).given(x, z, center)
            evidence = evidence.scaled(scale.shift, scale.size)
        if self.priors is not None:
            evidence = evidence.with_priors(self.priors.values)
        return evidence.with_effects(self.effects)

    def kernel_of(self, structure: Structure, x: np.ndarray) -> Kernel:
        """The kernel of a structure for values at times x (n,), standardised."""
        if self.kernels is not None:
            return self.kernels[structure.trend]
        center = float(np.mean(x))
        seasons = {name: self.seasons[name] for name in structure.seasons}
        kernel = default_kernel(
            seasons, self.unit, center, structure.trend, structure.changes, self._width
        )
        return kernel if self.priors is None else self.priors.of_kernel(kernel)

    @property
    def _width(self) -> float:
        return STEEP * self.step

    def log_prior(self, structure: Structure, n: int) -> float:
        """The log prior of what was found of a structure among n values, seasons and changes."""
        found = max(0, len(structure.changes) - len(self.changes))
        prior = found * log_prior_of_change(n)
        if self.optional:
            present = len(structure.seasons)
            absent = len(self.seasons) - present
            prior += present * np.log(SEASON) + absent * np.log1p(-SEASON)
        return float(prior)

    @property
    def sets_of_seasons(self) -> int:
        """How many sets of seasons are tried."""
        return 2 ** len(self.seasons) if self.optional else 1

    def with_all_seasons(self) -> list[Structure]:
        """Every trend on every scale, with all seasons; a kernel that was given has its own."""
        seasons = tuple(self.seasons) if self.kernels is None else ()
        return [
            Structure(trend, seasons, log, self.changes)
            for log in self.logs
            for trend in self.trends
        ]

    def with_fewer_seasons(self, structure: Structure) -> list[Structure]:
        """The same without some of its seasons, or without any."""
        if not self.optional:
            return []
        counts = reversed(range(len(structure.seasons)))
        fewer = [s for count in counts for s in combinations(structure.seasons, count)]
        return [structure._replace(seasons=seasons) for seasons in fewer]


@lru_cache(maxsize=256)
def _template(seasons: tuple, unit: float, trend: str, changes: tuple, width: float):
    """The evidence of a structure without data: kernels with priors take long to make."""
    kernel = default_kernel(dict(seasons), unit, 0.0, trend, changes, width)
    return NumpyEvidence(GPRegression(kernel, default_noise()), np.zeros(1), np.zeros(1))


@lru_cache(maxsize=256)
def _latent_template(likelihood: NumpyLikelihood, seasons, unit, trend, changes, width):
    """The same of what is seen through a likelihood."""
    kernel = default_kernel(dict(seasons), unit, 0.0, trend, changes, width)
    return NumpyLatentEvidence(kernel, likelihood, np.zeros(1), np.zeros(1))


def log_prior_of_change(n: int) -> float:
    """The log prior of a change at one place among n values: one in all is as likely as none."""
    return -float(np.log(2.0 * n))
