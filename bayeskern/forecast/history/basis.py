"""Trend, seasons and effects of a long series, in basis functions of time.

Each block of functions approximates a kernel (`basis_blocks`). All blocks together have at most
about 250 columns. Solin and Sarkka (2020), "Hilbert space methods for reduced-rank Gaussian process
regression", for the trend; Solin and Sarkka (2014), "Explicit link between periodic covariance
functions and state space models", for the seasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayeskern.forecast.history.basis_blocks import (
    BasisBlock,
    EffectColumns,
    Line,
    NestedSeason,
    RandomWalkLevel,
    RandomWalkSlope,
    Season,
)
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL
from bayeskern.gp.time_series.prior import LogNormalPrior

# Location of the log of a prior variance, for standardised values: Corani, Benavoli and Zaffalon
# (2021), "Time series forecasting with Gaussian processes needs priors".
LOG_VARIANCE = -1.5
# Relative tolerance within which the ratio of two periods is an integer.
RATIO_TOL = 1e-6


@dataclass(frozen=True)
class BasisOptions:
    """Size of the basis.

    Attributes:
        level_functions: Number of functions of the level.
        slope_functions: Number of functions of the slope.
        margin: Extent of the trend functions beyond the end of the forecast, as a share of the
            time from start to end.
        min_harmonics: Smallest number of harmonics of a season, even if `max_columns` is exceeded.
        max_harmonics: Largest number of harmonics of a season other than a `NestedSeason`.
        max_nested_ratio: Largest ratio of two periods at which the longer season is a
            `NestedSeason`.
        max_columns: Largest number of columns, not counting the constants of seasons.
    """

    level_functions: int = 25
    slope_functions: int = 12
    margin: float = 0.25
    min_harmonics: int = 3
    max_harmonics: int = 24
    max_nested_ratio: int = 14
    max_columns: int = 250


@dataclass(frozen=True, eq=False)
class Basis:
    """Blocks of basis functions; the first block is the straight line.

    Attributes:
        blocks: The blocks, in the order of their columns.
        upper: Last time for which the functions of the trend are valid.
        effects: Linear effects, whose columns come last.
    """

    blocks: tuple[BasisBlock, ...]
    upper: float
    effects: Effects | None = None

    @classmethod
    def of(
        cls,
        seasons: Mapping[str, float],
        *,
        start: float,
        end: float,
        center: float,
        step: float,
        unit: float = 1.0,
        effects: Effects | None = None,
        options: BasisOptions = BasisOptions(),
    ) -> Basis:
        """Choose the functions for a series and its forecast.

        Args:
            seasons: Name -> period.
            start: First time.
            end: Last time of the forecast.
            center: Time at which the straight line is zero.
            step: Time step between values.
            unit: Time unit of the priors of the trend: the longest season, or a step.
            effects: Linear effects of regressors, events and holidays.
            options: Size of the basis.

        Raises:
            NotImplementedError: An effect is a Gaussian process.
            ValueError: A period is too short or infinite, or has no harmonics of its own.
        """
        if effects is not None and effects.kernels:
            raise NotImplementedError("long series take linear effects only, without kernels.")
        log_unit = float(np.log(unit))
        upper = end + options.margin * (end - start)
        variance = LogNormalPrior(LOG_VARIANCE, 1.0)
        slope_variance = LogNormalPrior(LOG_VARIANCE - 2.0 * log_unit, 1.0)
        # Variances of the changes of level and slope within one `unit`.
        level_variance = LogNormalPrior(-1.5 - log_unit, 1.5)
        bend_variance = LogNormalPrior(-4.0 - 3.0 * log_unit, 1.5)
        blocks: list[BasisBlock] = [
            Line(
                LEVEL,
                {
                    f"{LEVEL}.constant.variance": variance,
                    f"{LEVEL}.linear.variance": slope_variance,
                },
                center,
            ),
            RandomWalkLevel(
                LEVEL,
                {f"{LEVEL}.brownian.variance": level_variance},
                start,
                upper,
                options.level_functions,
            ),
            RandomWalkSlope(
                LEVEL,
                {f"{LEVEL}.integratedbrownian.variance": bend_variance},
                start,
                upper,
                options.slope_functions,
            ),
        ]
        columns = options.max_columns - 2 - options.level_functions - options.slope_functions
        columns -= 0 if effects is None else effects.linear
        blocks += _seasons(seasons, step, columns // 2, options)
        if effects is not None:
            blocks.append(EffectColumns("", {}, effects))
        return cls(tuple(blocks), upper, effects)

    def with_effects(self, effects: Effects | None) -> Basis:
        """Copy with other values of the same effects."""
        if effects is None or self.effects is None:
            return self
        blocks = (*self.blocks[:-1], EffectColumns("", {}, effects))
        return replace(self, blocks=blocks, effects=effects)

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """Slice of the columns of each block."""
        sizes = [block.functions(np.zeros(1)).shape[1] for block in self.blocks]
        ends = np.cumsum(sizes).tolist()
        return tuple(slice(end - size, end) for end, size in zip(ends, sizes, strict=True))

    @cached_property
    def priors(self) -> dict[str, LogNormalPrior]:
        """Name of each of the p hyperparameters -> its prior."""
        return {name: prior for block in self.blocks for name, prior in block.priors.items()}

    @property
    def size(self) -> int:
        """Number of functions."""
        return self.columns[-1].stop

    @property
    def smooth_components(self) -> tuple[str, ...]:
        """Names of the trend and the seasons."""
        components = (b.component for b in self.blocks if not isinstance(b, EffectColumns))
        return tuple(dict.fromkeys(components))

    @property
    def effect_columns(self) -> range:
        """Indices of the columns of effects."""
        linear = 0 if self.effects is None else self.effects.linear
        return range(self.size - linear, self.size)

    def of_component(self, name: str) -> np.ndarray:
        """Indices of the columns of a component."""
        components = np.empty(self.size, object)
        for block, columns in zip(self.blocks, self.columns, strict=True):
            components[columns] = block.component
        if self.effects is not None:
            components[self.effect_columns] = self.effects.components[: self.effects.linear]
        return np.flatnonzero(components == name)

    def functions(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Values of all functions at times x (n,): (n, m).

        Args:
            x: Times, (n,).
            out: Array for the values, (n, m).

        Raises:
            ValueError: A time lies after the last time of the basis.
        """
        if len(x) and x.max() > self.upper:
            raise ValueError(
                f"the basis ends at time {self.upper:g}; got times up to {x.max():g}. Pass the "
                "last time of the forecast as end."
            )
        out = np.empty((len(x), self.size)) if out is None else out
        chunk_rows = 4096
        for start in range(0, len(x), chunk_rows):
            rows = slice(start, start + chunk_rows)
            for block, columns in zip(self.blocks, self.columns, strict=True):
                out[rows, columns] = block.functions(x[rows])
        return out

    def variances(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variances of the coefficients and their derivatives in the log hyperparameters.

        Args:
            values: Hyperparameters, (p,).

        Returns:
            Variances (m,) and derivatives (p, m).
        """
        variances, slopes = np.zeros(self.size), np.zeros((len(values), self.size))
        first = 0
        for block, columns in zip(self.blocks, self.columns, strict=True):
            rows = slice(first, first + len(block.priors))
            variances[columns], slopes[rows, columns] = block.variances(values[rows])
            first = rows.stop
        return variances, slopes


def _seasons(
    periods: Mapping[str, float], step: float, budget: int, options: BasisOptions
) -> list[Season]:
    """Seasons with at most `budget` harmonics in all, if `min_harmonics` allows.

    If the budget is exceeded, all seasons get a common limit on their harmonics.

    Raises:
        ValueError: A period is too short or infinite, or has no harmonics of its own.
    """
    lengthscale = LogNormalPrior(0.2 + float(np.log(2.0)), 1.0)
    variance = LogNormalPrior(LOG_VARIANCE, 1.0)
    seasons: list[Season] = []
    for name, period in sorted(periods.items(), key=lambda item: item[1]):
        if not 2.0 * step * (1.0 - RATIO_TOL) <= period < np.inf:
            raise ValueError(
                f"the period of {name} must be finite and at least two steps of {step:g}; got "
                f"{period:g}."
            )
        harmonics = np.arange(1, int(0.5 * period / step + RATIO_TOL) + 1)
        # `nested`: the longest shorter season whose shape this season changes.
        nested = None
        for shorter in seasons:
            ratio = period / shorter.period
            if abs(ratio - round(ratio)) < RATIO_TOL * ratio:
                # Multiples of the ratio are harmonics of the shorter season.
                harmonics = harmonics[harmonics % round(ratio) != 0]
                nested = shorter if ratio < options.max_nested_ratio + 0.5 else nested
        if len(harmonics) == 0:
            shorter = ", ".join(season.component for season in seasons)
            raise ValueError(
                f"every harmonic of {name} is a harmonic of {shorter}: leave one of these seasons "
                "out."
            )
        if nested is None:
            priors = {f"{name}.lengthscale": lengthscale, f"{name}.variance": variance}
            seasons.append(Season(name, priors, period, harmonics[: options.max_harmonics]))
            continue
        ratio = round(period / nested.period)
        # Harmonics up to R / 2 beyond the last harmonic of the shorter season.
        last = ratio * nested.harmonics[-1] + ratio // 2
        priors = {
            f"{name}.lengthscale": lengthscale,
            f"{name}.{nested.component}.lengthscale": lengthscale,
            f"{name}.variance": variance,
        }
        seasons.append(NestedSeason(name, priors, period, harmonics[harmonics <= last], ratio))
    counts = [len(season.harmonics) for season in seasons]
    limit = max(counts, default=0)
    while limit > options.min_harmonics and sum(min(c, limit) for c in counts) > budget:
        limit -= 1
    return [replace(season, harmonics=season.harmonics[:limit]) for season in seasons]
