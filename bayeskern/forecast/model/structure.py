"""The structures that a series may have: a trend, a scale, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.learned import Learned
from bayeskern.forecast.model.priors import Priors
from bayeskern.kernels import Kernel
from bayeskern.likelihoods.numpy_likelihoods import NumpyLikelihood


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


def log_prior_of_change(n: int) -> float:
    """The log prior of a change at one place among n values: one in all is as likely as none."""
    return -float(np.log(2.0 * n))
