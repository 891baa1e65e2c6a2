"""Structural models in state-space form, for a filter on a regular grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from bayeskern.engine.prior import NumpyPrior
from bayeskern.engine.state_blocks import BlockMatrices, SeasonStates, StateBlock
from bayeskern.engine.steady.filter import System
from bayeskern.engine.steady.log_marginal import GridModel
from bayeskern.engine.steady.regression import SystemSlopes
from bayeskern.forecast.model.kernels import NOISE, longest_factor
from bayeskern.forecast.model.trends import ALL_TRENDS, DRIFT_VARIANCE, START_VARIANCE, StateTrend


@dataclass(frozen=True, eq=False)
class StatePrior:
    """States of a kernel, with the hyperparameters of its `NumpyPrior`.

    Attributes:
        hyperparameters: Hyperparameters and their priors.
        trend: State-space form of the trend.
        seasons: The seasons, shortest first.
        step: Step of the grid.
    """

    hyperparameters: NumpyPrior
    trend: StateTrend
    seasons: tuple[SeasonStates, ...]
    step: float

    @classmethod
    def for_trend(
        cls, hyperparameters: NumpyPrior, trend: str, periods: Mapping[str, float], step: float
    ) -> StatePrior:
        """State-space form of a default kernel.

        A season has at most 24 harmonics, with two states each. Within a week, the days differ by
        at most 6 harmonics of the week, in at most 3 harmonics of the day.

        Args:
            hyperparameters: Hyperparameters of the kernel.
            trend: Name of a trend with a state-space form.
            periods: Name -> period of each season.
            step: Step of the grid.
        """
        seasons = []
        for name, period in sorted(periods.items(), key=lambda item: item[1]):
            length, shorter = period / step, longest_factor(period, periods)
            if shorter is None:
                harmonics = min(int(0.5 * length + 1e-6), 24)
                seasons.append(SeasonStates(name, length, harmonics))
            else:
                ratio = round(period / shorter)
                outer = min(ratio // 2, 6)
                inner = min(int(0.5 * shorter / step + 1e-6), 3)
                seasons.append(SeasonStates(name, length, outer, ratio, inner))
        states = ALL_TRENDS[trend].states
        assert states is not None
        return cls(hyperparameters, states, tuple(seasons), step)

    @cached_property
    def blocks(self) -> tuple[StateBlock, ...]:
        """Blocks of the states."""
        return (*self.trend.blocks, *self.seasons)

    @property
    def line_count(self) -> int:
        """Number of lines, p."""
        return len(self.trend.lines)

    def lines(self, x: np.ndarray) -> np.ndarray:
        """Constant and straight line of the trend at times x (n,): (n, p)."""
        center = self.hyperparameters.fixed_values.get("trend.drift.center", 0.0)
        columns = {START_VARIANCE: np.ones(len(x)), DRIFT_VARIANCE: x - center}
        names = self.trend.lines
        return np.reshape([columns[name] for name in names], (-1, len(x))).T

    def state_space(self, z: np.ndarray) -> GridModel:
        """The model at z (d,)."""
        values = self.hyperparameters.all_values(z)
        matrices = [block.matrices(values, self.step) for block in self.blocks]
        observations = [block.observation(values) for block in self.blocks]
        transition, disturbance, start = (
            np.asarray(block_diag(*parts)) for parts in zip(*matrices, strict=True)
        )
        observation = np.concatenate(observations)
        system = System(transition, observation, disturbance, values[NOISE], start)
        functions: dict[str, np.ndarray] = {}
        for block, rows in zip(self.blocks, self._rows(observations), strict=True):
            functions.setdefault(block.component, np.zeros(len(observation)))[rows] = observation[
                rows
            ]
        variances = [values[name] for name in self.trend.lines]
        return GridModel(system, np.array(variances), functions)

    def gradient(self, z: np.ndarray, slopes: SystemSlopes) -> np.ndarray:
        """Gradient in z of a log density and log p(z), from slopes in the system: (d,)."""
        values = self.hyperparameters.all_values(z)
        by_name = {NOISE: slopes.noise}
        by_name |= dict(zip(self.trend.lines, slopes.variances, strict=False))
        parts = slopes.transition, slopes.state_noise, slopes.start
        rows = self._rows([block.observation(values) for block in self.blocks])
        for block, own in zip(self.blocks, rows, strict=True):
            of = BlockMatrices(*(part[own, own] for part in parts))
            by_name |= block.slopes(values, self.step, of)
        return self.hyperparameters.chain(z, by_name)

    @staticmethod
    def _rows(observations: list[np.ndarray]) -> list[slice]:
        """Rows of each block among all states."""
        ends = np.cumsum([len(part) for part in observations]).tolist()
        return [slice(end - len(part), end) for end, part in zip(ends, observations, strict=True)]
