"""State of a forecast as plain values, and the forecast from its state.

The state holds the series, the options, and for each structure the mode and the draws of the
hyperparameters. Covariances are computed again. The log density at each mode is compared with its
value in the file, so that a file is never read with a model other than the fitted one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayeskern.forecast.combine.stacking import Combination, Part
from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.fitted_series import FittedSeries
from bayeskern.forecast.model.effects import Effects, EffectSources
from bayeskern.forecast.model.learned import (
    Growth,
    IntervalWidth,
    Learned,
    Reliability,
    StructureWeights,
)
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.forecast.saved.kernels import from_plain, to_plain
from bayeskern.likelihoods.analytic import Analytic
from bayeskern.series.calendar import Calendar
from bayeskern.series.regressors import Regressors, days_of
from bayeskern.series.series import Series

# Classes whose instances a file stores by the name of the class.
STORED_CLASSES = (
    Calendar, StructureChoices, Effects, EffectSources, Growth, Learned, Origin, Priors, Regressors,
    Reliability, Series, Structure, StructureWeights, IntervalWidth,
)  # fmt: skip


def state_of(f: FittedSeries) -> dict[str, Any]:
    """State of a fitted series, from plain values and instances of `STORED_CLASSES`.

    Raises:
        ValueError: A kernel of the user cannot be saved.
    """
    return {
        "series": f.series,
        "horizon": f.horizon,
        "seed": f.seed,
        "choices": replace(f.choices, kernels=None, effects=None, likelihood=None),
        "kernels": None if f.choices.kernels is None else _plain_kernels(f.choices),
        "effects": _plain_effects(f.choices.effects),
        "likelihood": f.choices.likelihood and f.choices.likelihood.forecast_name(),
        "parts": [_part_state(part) for part in f.parts],
        "origins": () if f.combination is None else f.combination.origins,
    }


def fields_of(state: dict[str, Any], before: FittedSeries | None) -> dict[str, Any]:
    """Fields of a fitted series from its state.

    Args:
        state: The result of `state_of`.
        before: The series at the time of the fit, if `state` is its state after an update.

    Raises:
        ValueError: The structures of this version differ from the saved structures.
    """
    series, likelihood = state["series"], state["likelihood"]
    choices = replace(
        state["choices"],
        kernels=state["kernels"] and {n: from_plain(k) for n, k in state["kernels"].items()},
        effects=_effects(state["effects"]),
        likelihood=None if likelihood is None else Analytic.by_name()[likelihood],
    )
    parts = tuple(_part(s, choices, series, before) for s in state["parts"])
    combination = None
    if before is not None and before.combination is not None:
        # An update changes the structures and their weights, not the earlier origins.
        combination = replace(before.combination, parts=parts)
    elif parts:
        combination = Combination(parts).from_origins(state["origins"])
    return {
        "series": series,
        "horizon": state["horizon"],
        "choices": choices,
        "combination": combination,
        "seed": state["seed"],
    }


def _plain_kernels(choices: StructureChoices) -> dict[str, Any]:
    return {name: to_plain(kernel) for name, kernel in (choices.kernels or {}).items()}


def _plain_effects(effects: Effects | None) -> tuple[Effects, list[Any]] | None:
    if effects is None:
        return None
    sources = effects.sources
    if sources is not None and sources.events is not None:
        # Dates of any type as ISO text.
        events = {
            name: days_of(dates, str(name)).astype(str).tolist()
            for name, dates in sources.events.items()
        }
        sources = sources._replace(events=events)
    plain = replace(effects, kernels=(), sources=sources)
    return plain, [to_plain(kernel) for kernel in effects.kernels]


def _effects(state: tuple[Effects, list[Any]] | None) -> Effects | None:
    if state is None:
        return None
    effects, kernels = state
    return replace(effects, kernels=tuple(from_plain(kernel) for kernel in kernels))


def _part_state(part: Part) -> dict[str, Any]:
    draws, fitted = part.draws, part.fitted
    return {
        "structure": fitted.structure,
        "mode": fitted.mode,
        "log_density": fitted.log_density,
        "curvature": fitted.curvature,
        "log_prior": fitted.log_prior,
        "noise": fitted.dense.noise_state if fitted.choices.robust else None,
        "z": draws.z,
        "log_ratios": draws.log_ratios,
        "next_times": draws.next_times,
        "weight": part.weight,
    }


def _part(
    state: dict[str, Any], choices: StructureChoices, series: Series, before: FittedSeries | None
) -> Part:
    """A structure with its draws and its weight.

    Raises ValueError if its log density at the mode differs from the saved one.
    """
    structure, mode = state["structure"], state["mode"]
    fitted = FittedStructure.at_mode(
        structure, choices, *_data(before.series if before else series), mode,
        state["log_density"], state["curvature"],
    )  # fmt: skip
    x, y = _data(series)
    fitted = replace(fitted, x=x, y=y, log_prior=state["log_prior"])
    if before is not None:
        fitted = replace(fitted, density=fitted.density.given(x, fitted.scale.forward(y)))
    if state["noise"] is not None:
        fitted = replace(fitted, density=fitted.dense.with_noise_factors(*state["noise"]))
    with fitted.density.threads():
        value = fitted.density.log_density(mode)
    if not np.isclose(value, state["log_density"], rtol=1e-8, atol=1e-6):
        raise ValueError(
            f"the structure {structure.trend!r} of this forecast differs from the structure of the "
            f"same name in this version of bayeskern (log density {value:.6g}, saved "
            f"{state['log_density']:.6g}): forecast the series again."
        )
    draws = Draws(fitted, state["z"], state["log_ratios"], state["next_times"])
    return Part(draws, state["weight"])


def _data(series: Series) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of the observed values, (n,) each."""
    observed = series.observed
    return series.calendar.positions(series.times[observed]), series.values[observed]
