"""Build the scale, kernel, model and log joint density of a structure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpyro.distributions as dist

from bayeskern.engine.base import LogMarginal
from bayeskern.engine.laplace_log_marginal import LaplaceLogMarginal
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.prior import NumpyPrior, ProcessPrior
from bayeskern.engine.steady.log_marginal import SteadyLogMarginal
from bayeskern.forecast.model.kernels import NOISE, default_noise
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.processes.compiled_prior import CompiledPrior
from bayeskern.forecast.model.processes.mixed_prior import MixedPrior, fast_prior
from bayeskern.forecast.model.processes.state_prior import StatePrior
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.forecast.model.transformation import LatentScale, NormalScores, Scale
from bayeskern.forecast.model.trends import (
    ALL_TRENDS,
    START_VARIANCE,
    default_kernel,
    in_units,
    priors_of_changes,
)
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.kernels import Kernel

# Location of the log-normal prior of the noise variance where no prior was learned.
LOG_NOISE_VARIANCE = -1.5


def build_scale(choices: StructureChoices, structure: Structure, y: np.ndarray) -> Scale:
    """Scale on which a structure describes values y (n,)."""
    if choices.likelihood is not None:
        return LatentScale(True, *choices.likelihood.location_scale(y))
    if choices.ranks:
        return NormalScores.from_values(y)
    # The learned limit on growth applies to the built-in trends, not to kernels of the user.
    is_limited = structure.log and choices.kernels is None
    return Scale.from_values(
        y, structure.log, choices.learned.growth.linear_share(y) if is_limited else 0.0
    )


def build_model(
    choices: StructureChoices, structure: Structure, x: np.ndarray, scale: Scale, y: np.ndarray
) -> GPRegression | LatentGP:
    """Model of a structure for values y (n,) at times x (n,), on `scale`."""
    kernel, noise = build_kernel_and_noise(choices, structure, x, scale, y)
    if choices.likelihood is not None:
        return LatentGP(scale.size**2 * kernel, choices.likelihood, mean=scale.shift)
    return GPRegression(kernel, noise)


def build_density(
    choices: StructureChoices, structure: Structure, x: np.ndarray, scale: Scale, y: np.ndarray
) -> LogMarginal:
    """Log joint density of the hyperparameters and values y (n,) at times x (n,), on `scale`."""
    z = scale.forward(y)
    if choices.kernels is not None:
        prior = _prior_of(*build_kernel_and_noise(choices, structure, x, scale, y))
        return DenseLogMarginal(prior, x, z)
    steps = choices.fine_steps
    totals, times = choices.of_series(x, y), choices.of_series(x, x)
    standardised = _standardised(choices, scale, totals)
    # The cached template of the structure, with the numbers and the priors of this series.
    seasons = tuple(choices.seasons.items())
    prior = _template(
        structure.trend,
        seasons,
        structure.changes,
        choices.change_width,
        choices.step,
        has_noise=choices.likelihood is None and steps is None,
    )
    prior = prior.with_numbers(_fixed_values(choices, structure, times, standardised))
    prior = prior.with_priors(_priors(choices, structure, times, standardised))
    if steps is not None:
        is_period = steps.are_periods(x)
        size = step_size(z[~is_period], list(steps.seasons.values()))
        mixed = MixedPrior(prior, fast_prior(steps, size), steps)
        return DenseLogMarginal(mixed, x, z).with_average_over(is_period)
    if choices.likelihood is None:
        if not choices.takes_filter(len(x)):
            return DenseLogMarginal(prior, x, z, choices.effects)
        states = StatePrior.for_trend(prior, structure.trend, choices.seasons, choices.step)
        return SteadyLogMarginal(states, x, z, choices.effects)
    return LaplaceLogMarginal(
        prior, choices.likelihood, x, z, scale.shift, scale.size, choices.effects
    )


def build_kernel_and_noise(
    choices: StructureChoices, structure: Structure, x: np.ndarray, scale: Scale, y: np.ndarray
) -> tuple[Kernel, dist.Distribution]:
    """Kernel of a structure for standardised values, and prior of the noise variance."""
    if choices.kernels is not None:
        return choices.kernels[structure.trend], default_noise(LOG_NOISE_VARIANCE)
    z = _standardised(choices, scale, y)
    kernel = default_kernel(
        structure.trend, choices.seasons, structure.changes, choices.change_width, choices.step
    )
    priors = Priors(_priors(choices, structure, x, z), choices.step)
    kernel = priors.of_kernel(kernel).at(_fixed_values(choices, structure, x, z))
    return kernel, default_noise(*priors.values[NOISE])


def _standardised(choices: StructureChoices, scale: Scale, y: np.ndarray) -> np.ndarray:
    """Standardised values: on `scale`, or those of y itself if there is a likelihood."""
    if choices.likelihood is None:
        return scale.forward(y)
    return (y - np.mean(y)) / (np.std(y) or 1.0)


def _fixed_values(
    choices: StructureChoices, structure: Structure, x: np.ndarray, z: np.ndarray
) -> dict[str, float]:
    """Hyperparameters fixed from the series: a wide initial level, and the center of the drift."""
    values = {START_VARIANCE: 4.0 * float(np.var(z)) + 10.0 * _step_size(choices, z) ** 2}
    if ALL_TRENDS[structure.trend].has_drift:
        values["trend.drift.center"] = float(np.mean(x))
    return values


def _priors(
    choices: StructureChoices, structure: Structure, x: np.ndarray, z: np.ndarray
) -> dict[str, tuple[float, float]]:
    """Name of a hyperparameter -> location and scale of its logarithm.

    Args:
        choices: Options of the structures.
        structure: The structure.
        x: Times, (n,).
        z: Standardised values, (n,).
    """
    size = _step_size(choices, z)
    priors = priors_of_changes(structure.trend, len(structure.changes), float(np.ptp(x)))
    trend = ALL_TRENDS[structure.trend]
    for name, (location, scale) in choices.learned.priors_of(trend).items():
        # The learned prior of a season applies to each season.
        first, _, rest = name.partition(".")
        names = [f"{s}.{rest}" for s in choices.seasons] if first == "season" else [name]
        if rest == "seasonal.lengthscale":
            # The shape of the shorter season within a longer one.
            names += [f"{s}.periodic.lengthscale" for s in choices.seasons]
        prior = in_units(location, name, size, choices.step), scale
        priors |= dict.fromkeys(names, prior)
    return priors | (dict(choices.priors.values) if choices.priors is not None else {})


def _step_size(choices: StructureChoices, z: np.ndarray) -> float:
    """Typical change of z (n,) per step."""
    return step_size(z, [period / choices.step for period in choices.seasons.values()])


def step_size(z: np.ndarray, seasons: Sequence[float]) -> float:
    """Typical change of z (n,) per step: the smallest RMS of differences at lag 1 and the seasons.

    Differences that are all 0 are skipped, and the result is at least 0.001 sd of z.
    """
    lags = [1, *(round(period) for period in seasons)]
    differences = [z[lag:] - z[:-lag] for lag in lags if len(z) > lag + 2]
    sizes = [np.sqrt(np.mean(np.square(d))) for d in differences if np.any(d)]
    return float(max(min(sizes, default=np.std(z)), 1e-3 * np.std(z)))


def _prior_of(kernel: Kernel, noise: dist.Distribution) -> ProcessPrior:
    """NumPy prior, or a JAX prior if the kernel or its priors lack NumPy formulas."""
    try:
        return NumpyPrior(kernel, noise)
    except NotImplementedError:
        return CompiledPrior(GPRegression(kernel, noise))


@lru_cache(maxsize=256)
def _template(
    trend: str, seasons: tuple, changes: tuple, width: float, step: float, has_noise: bool
) -> NumpyPrior:
    """Prior of a structure without the numbers of a series; cached, as kernels build slowly."""
    kernel = default_kernel(trend, dict(seasons), changes, width, step)
    return NumpyPrior(kernel, default_noise() if has_noise else 0.0)
