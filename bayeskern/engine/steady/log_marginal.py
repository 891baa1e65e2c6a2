"""Log joint density of a structural model on a regular grid, by a steady filter.

The density equals that of `DenseLogMarginal` for a kernel that the states represent exactly. Its
time is linear in the number of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from bayeskern.core.threads import side_by_side
from bayeskern.engine.base import LogMarginal, Moments
from bayeskern.engine.log_marginal import LinearEffects
from bayeskern.engine.prior import LogNormalPriors
from bayeskern.engine.steady.filter import SteadyFilter, System
from bayeskern.engine.steady.grid import GridColumns, GridData, TimeGrid
from bayeskern.engine.steady.posterior import SteadyPosterior
from bayeskern.engine.steady.regression import Regression, SystemSlopes


@dataclass(frozen=True, eq=False)
class GridModel:
    """A structural model at given hyperparameters.

    Attributes:
        system: Its matrices.
        line_variances: Prior variances of the coefficients of the lines, (p,).
        functions: Component name -> its observation vector, (s,); the first has the lines.
    """

    system: System
    line_variances: np.ndarray
    functions: Mapping[str, np.ndarray]


class GridPrior(Protocol):
    """Prior of a structural model on a grid and of its hyperparameters.

    Attributes:
        hyperparameters: Hyperparameters and their priors.
        step: Step of the grid.
        line_count: Number of lines, p.
    """

    @property
    def hyperparameters(self) -> LogNormalPriors: ...

    @property
    def step(self) -> float: ...

    @property
    def line_count(self) -> int: ...

    def lines(self, x: np.ndarray) -> np.ndarray:
        """Columns of the trend at times x (n,): (n, p)."""
        ...

    def state_space(self, z: np.ndarray) -> GridModel:
        """The model at z (d,)."""
        ...

    def gradient(self, z: np.ndarray, slopes: SystemSlopes) -> np.ndarray:
        """Gradient in z of a log density and log p(z), from slopes in the system: (d,)."""
        ...


class SteadyLogMarginal(LogMarginal):
    """log p(y, hyperparameters) of a structural model, at unconstrained z (d,).

    Random walks and seasons start at the first time. Missing values between the first and the last
    one are integrated out.

    Args:
        prior: The model and its hyperparameters.
        x: Times on a grid with the step of the prior, (n,).
        y: Values, (n,).
        effects: Linear effects, without processes.
    """

    def __init__(
        self,
        prior: GridPrior,
        x: np.ndarray,
        y: np.ndarray,
        effects: LinearEffects | None = None,
    ):
        self.prior, hyperparameters = prior, prior.hyperparameters
        self.names = hyperparameters.names
        self.middle, self.prior_sd = hyperparameters.middle, hyperparameters.prior_sd
        self.component_names = tuple(prior.state_space(self.middle).functions)
        self.x, self.y, self.effects = np.asarray(x, float), np.asarray(y, float), effects
        self.noise_factors = np.ones(len(self.y))
        self.grid = TimeGrid(float(self.x[0]), prior.step)

    @property
    def columns(self) -> GridColumns:
        """Columns of the lines and of the effects, at any times."""
        rows = None if self.effects is None else self.effects.rows
        components = () if self.effects is None else self.effects.linear_components
        return GridColumns(self.prior.lines, rows, components, self.prior.line_count)

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self.prior.hyperparameters.values(z)

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        return type(self)(self.prior, x, y, self.effects)

    @cached_property
    def data(self) -> GridData:
        """The values on their grid."""
        places = self.grid.places(self.x)
        times = self.grid.times(int(places[-1]) + 1)
        # Positions of the calendar, not sums of steps, where they are known.
        times[places] = self.x
        return GridData(places, self.y, self.columns.at(times))

    def _regression(self, z: np.ndarray) -> tuple[GridModel, Regression]:
        """Model and regression at z (d,).

        Raises:
            LinAlgError: A hyperparameter or a matrix is out of range.
        """
        values = self.prior.hyperparameters.each(z)
        # Squares of hyperparameters neither underflow nor overflow.
        if not np.all((values > 1e-150) & (values < 1e150)):
            raise np.linalg.LinAlgError("a hyperparameter is out of range.")
        space = self.prior.state_space(z)
        effects = np.ones(self.data.columns.shape[1] - len(space.line_variances))
        variances = np.append(space.line_variances, effects)
        return space, Regression(SteadyFilter.of(space.system), self.data, variances)

    def log_density(self, z: np.ndarray) -> float:
        return self._value_and_gradient(z, with_gradient=False)[0]

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        return self._value_and_gradient(z)

    def _value_and_gradient(
        self, z: np.ndarray, with_gradient: bool = True
    ) -> tuple[float, np.ndarray]:
        gradient = np.zeros(len(z))
        # Overflow gives the value -inf, and needs no warning.
        with self.threads(), np.errstate(all="ignore"):
            try:
                _, regression = self._regression(z)
                value = regression.log_density + self.prior.hyperparameters.log_density(z)
                if np.isfinite(value) and with_gradient:
                    gradient = self.prior.gradient(z, regression.slopes())
            except np.linalg.LinAlgError:
                # Eigenvalues of matrices with NaN.
                return -np.inf, gradient
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return -np.inf, np.zeros(len(z))
        return value, gradient

    def conditioned(self, z: np.ndarray) -> SteadyPosterior:
        space, regression = self._regression(z)
        log_prior = self.prior.hyperparameters.log_density(z)
        return SteadyPosterior(regression, space.functions, self.columns, self.grid, log_prior)

    def _joint_at_each(self, z: np.ndarray, x_new: np.ndarray) -> Sequence[np.ndarray]:
        def joint(row: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
            try:
                process = self.conditioned(row)
                return process.log_density, *process.joint(x_new), process.noise
            except np.linalg.LinAlgError:
                # A draw that overflows has a density of zero and no predictions.
                m = len(x_new)
                return -np.inf, np.full(m, np.nan), np.full((m, m), np.nan), np.nan

        with self.threads(), np.errstate(all="ignore"):
            results = side_by_side(joint, list(z), len(self.y))
        return tuple(np.array(part) for part in zip(*results, strict=True))

    def rolling(
        self, z: np.ndarray, counts: Sequence[int], next_counts: Sequence[int]
    ) -> list[Moments]:
        with self.threads(), np.errstate(all="ignore"):
            process = self.conditioned(z)
            ends = self.data.places[np.asarray(counts, int) - 1] + 1
            pairs = zip(counts, next_counts, strict=True)
            return process.rolling(ends, [self.x[count : count + k] for count, k in pairs])
