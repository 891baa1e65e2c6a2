"""Structural models of a series: trend, transformation and change points."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np

from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.learned import Learned
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.processes.fine_steps import FineSteps
from bayeskern.kernels import Kernel
from bayeskern.likelihoods.analytic import Analytic


class Structure(NamedTuple):
    """One structural model of a series.

    Attributes:
        trend: One of `TRENDS`, or the name of a user's kernel.
        log: True for a model of the logarithm.
        changes: Change points of level and slope, in the unit of the times.
    """

    trend: str
    log: bool
    changes: tuple[float, ...] = ()

    @property
    def trend_and_log(self) -> tuple[str, bool]:
        """The structure without its changes."""
        return self.trend, self.log


@dataclass(frozen=True, eq=False)
class StructureChoices:
    """Options of the structures that are compared.

    Attributes:
        trends: Some of `TRENDS`, or the names of `kernels`.
        seasons: Name -> period.
        logs: Transformations to compare: True for the logarithm, False for the values.
        learned: Priors, weights and widths learned from similar series.
        step: Time from one value to the next.
        ranks: True for a model of the ranks of the values.
        changes: Known change points of level and slope.
        find_changes: True to search for further change points.
        robust: True for Student t noise.
        kernels: Name -> kernel of the user; None for the built-in structures.
        effects: Effects of regressors, events and holidays.
        bounds: Smallest and largest possible value.
        likelihood: Likelihood of counts or shares; None for continuous values.
        on_grid: True if the times lie on a regular grid and no option excludes a filter.
        priors: Priors that replace built-in priors of hyperparameters.
        fine_steps: Fine steps of the periods of the series, if values of both are observed.
    """

    stored_as: ClassVar = "Choices"
    trends: tuple[str, ...]
    seasons: dict[str, float]
    logs: tuple[bool, ...]
    learned: Learned
    step: float = 1.0
    ranks: bool = False
    changes: tuple[float, ...] = ()
    find_changes: bool = False
    robust: bool = False
    kernels: Mapping[str, Kernel] | None = None
    effects: Effects | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)
    likelihood: Analytic | None = None
    on_grid: bool = False
    priors: Priors | None = None
    fine_steps: FineSteps | None = None

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Key, equal for equal choices; hashable unless `kernels` is set."""
        others = [getattr(self, field.name) for field in fields(self) if field.name != "seasons"]
        return (tuple(self.seasons.items()), *others)

    @property
    def structures(self) -> list[Structure]:
        """Structures to compare: every trend with every transformation."""
        return [Structure(trend, log, self.changes) for log in self.logs for trend in self.trends]

    @property
    def weighed_by_evidence(self) -> bool:
        """True if evidence enters weights without a limit: kernels, likelihoods, changes."""
        return self.kernels is not None or self.likelihood is not None or self.find_changes

    def takes_filter(self, count: int) -> bool:
        """True if a fit to this number of values is by a filter.

        Up to 250 values, a dense covariance matrix takes less time (`benchmarks/engines.py`).
        """
        return self.on_grid and count > 250

    def of_series(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values of the periods of the series, among values (n,) at positions x."""
        return values if self.fine_steps is None else values[self.fine_steps.are_periods(x)]

    @property
    def change_width(self) -> float:
        """Duration of a change: 0.02 steps, so that it is complete before the next value."""
        return 0.02 * self.step
