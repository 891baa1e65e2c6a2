"""Scale, kernel, model and log density of a structure of a series."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpyro.distributions as dist

from bayeskern.forecast.model.compiled_prior import CompiledPrior
from bayeskern.forecast.model.kernels import (
    NOISE,
    default_kernel,
    default_noise,
    history_kernel,
    in_units,
)
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.structure import Choices, Structure
from bayeskern.forecast.model.transformation import LatentScale, NormalScores, Scale
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.time_series.evidence import NumpyEvidence
from bayeskern.gp.time_series.latent_evidence import NumpyLatentEvidence
from bayeskern.gp.time_series.prior import NumpyPrior, ProcessPrior
from bayeskern.kernels import Kernel


def build_scale(choices: Choices, structure: Structure, y: np.ndarray) -> Scale:
    """Scale on which a structure describes values y (n,)."""
    if choices.likelihood is not None:
        return LatentScale(True, *choices.likelihood.location_scale(y))
    if choices.ranks:
        return NormalScores.of(y)
    # A given kernel determines the growth itself.
    is_learned = structure.log and choices.kernels is None
    return Scale.of(y, structure.log, choices.learned.growth.linear_share(y) if is_learned else 0.0)


def build_model(
    choices: Choices, structure: Structure, x: np.ndarray, scale: Scale, y: np.ndarray
) -> GPRegression | LatentGP:
    """Model of a structure for values y at times x, (n,) both, on their scale."""
    kernel, noise = build_kernel_and_noise(choices, structure, x, scale, y)
    if choices.likelihood is not None:
        return LatentGP(scale.size**2 * kernel, choices.likelihood.model, mean=scale.shift)
    return GPRegression(kernel, noise)


def build_evidence(
    choices: Choices, structure: Structure, x: np.ndarray, scale: Scale, y: np.ndarray
) -> NumpyEvidence:
    """Log density of a structure given values y at times x, (n,) both, on their scale."""
    z = scale.forward(y)
    if choices.kernels is not None:
        prior = _prior_of(*build_kernel_and_noise(choices, structure, x, scale, y))
        return NumpyEvidence(prior, x, z)
    form = structure.trend, tuple(choices.seasons.items()), structure.changes, choices.change_width
    standardised = _standardised(choices, scale, y)
    prior = _template(*form, choices.likelihood is None)
    prior = prior.with_numbers(_numbers(choices, structure, x, standardised))
    prior = prior.with_priors(_priors(choices, structure, standardised))
    if choices.likelihood is None:
        return NumpyEvidence(prior, x, z, choices.effects)
    return NumpyLatentEvidence(
        prior, choices.likelihood, x, z, scale.shift, scale.size, choices.effects
    )


def build_kernel_and_noise(
    choices: Choices, structure: Structure, x: np.ndarray, scale: Scale, y: np.ndarray
) -> tuple[Kernel, dist.Distribution]:
    """Kernel of a structure for standardised values, and prior of the noise variance."""
    if choices.kernels is not None:
        return choices.kernels[structure.trend], default_noise(-1.5)
    if choices.whole_history:
        kernel = history_kernel(choices.seasons, float(np.mean(x)), float(x[0]))
        return kernel, default_noise(-1.5)
    z = _standardised(choices, scale, y)
    kernel = default_kernel(
        structure.trend, choices.seasons, structure.changes, choices.change_width
    )
    priors = Priors(_priors(choices, structure, z), choices.step)
    kernel = priors.of_kernel(kernel).at(_numbers(choices, structure, x, z))
    return kernel, default_noise(*priors.values[NOISE])


def _standardised(choices: Choices, scale: Scale, y: np.ndarray) -> np.ndarray:
    """Values on the scale; with a likelihood, the standardised values."""
    if choices.likelihood is None:
        return scale.forward(y)
    return (y - np.mean(y)) / (np.std(y) or 1.0)


def _numbers(
    choices: Choices, structure: Structure, x: np.ndarray, z: np.ndarray
) -> dict[str, float]:
    """Hyperparameters set from the series: a wide start, and a line through its middle."""
    numbers = {"trend.start.variance": 4.0 * float(np.var(z)) + 10.0 * _step_size(choices, z) ** 2}
    if structure.trend != "slope":
        numbers["trend.drift.center"] = float(np.mean(x))
    return numbers


def _priors(
    choices: Choices, structure: Structure, z: np.ndarray
) -> dict[str, tuple[float, float]]:
    """Name of a hyperparameter -> location and scale of its logarithm, for values z (n,)."""
    size, priors = _step_size(choices, z), {}
    for name, (location, scale) in choices.learned.priors[structure.trend].items():
        # The learned prior of a season applies to each season.
        first, _, rest = name.partition(".")
        names = [f"{s}.{rest}" for s in choices.seasons] if first == "season" else [name]
        located = in_units(location, name, size, choices.step), scale
        priors |= dict.fromkeys(names, located)
    return priors | (dict(choices.priors.values) if choices.priors is not None else {})


def _step_size(choices: Choices, z: np.ndarray) -> float:
    """Size of a step of values z (n,): the sd of differences, or of seasonal differences."""
    lags = [1, *(round(period / choices.step) for period in choices.seasons.values())]
    differences = [z[lag:] - z[:-lag] for lag in lags if len(z) > lag + 2]
    sizes = [np.sqrt(np.mean(np.square(d))) for d in differences if np.any(d)]
    return float(max(min(sizes, default=np.std(z)), 1e-3 * np.std(z)))


def _prior_of(kernel: Kernel, noise: dist.Distribution) -> ProcessPrior:
    """Prior by formulas in NumPy, or by JAX if the kernel or its priors have no such formulas."""
    try:
        return NumpyPrior(kernel, noise)
    except NotImplementedError:
        return CompiledPrior(GPRegression(kernel, noise))


@lru_cache(maxsize=256)
def _template(
    trend: str, seasons: tuple, changes: tuple, width: float, has_noise: bool
) -> NumpyPrior:
    """Prior of a structure of any series, cached because kernels are slow to build."""
    kernel = default_kernel(trend, dict(seasons), changes, width)
    return NumpyPrior(kernel, default_noise() if has_noise else 0.0)
