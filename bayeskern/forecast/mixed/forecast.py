"""Forecast totals from their history and from recent values of finer frequency."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayeskern.forecast.combine.candidates import candidates
from bayeskern.forecast.combine.stacking import combine
from bayeskern.forecast.combine.updating import likely_times
from bayeskern.forecast.data.horizon import steps_ahead
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.fit.rolling import origins_of
from bayeskern.forecast.mixed.aligned import aligned
from bayeskern.forecast.mixed.result import MixedForecast
from bayeskern.forecast.model.configuration import MAX_STEPS, Request, configure
from bayeskern.forecast.model.transformation import is_constant


def forecast_mixed(
    series: Series, also: Any, horizon: int | str, request: Request, seed: int
) -> MixedForecast:
    """Forecast a series of totals that continues in values of finer frequency.

    Args:
        series: Totals over months, quarters or years.
        also: Values over days, business days or months, in a form of `read_series`.
        horizon: Number of totals, or a form of `steps_ahead`, after the last finished period.
        request: Arguments of `forecast`.
        seed: Random seed.

    Raises:
        ValueError: The two series do not fit together, or an option applies to one frequency only.
    """
    _require_supported(series, request)
    pair = aligned(series, read_series(also), request.model.last)
    horizon = steps_ahead(horizon, pair.totals.calendar, MAX_STEPS)
    # Totals are sums of their fine values, and sums are linear: no logarithm and no ranks. The
    # model of two frequencies has no change points, neither given nor searched for.
    model = replace(request.model, log=False, last=None, changes=())
    adjusted, choices = configure(pair.adjusted, horizon, request._replace(model=model))
    steps = pair.fine_steps(horizon)
    choices = replace(choices, fine_steps=steps)
    observed = adjusted.observed
    if is_constant(adjusted.values[observed]):
        raise ValueError(
            f"also= needs totals that vary; those of {series.value_name} are constant per "
            f"{pair.fine.calendar.description} step. Leave out also=."
        )
    x, y = pair.data(steps)
    season = min((round(p / choices.step) for p in choices.seasons.values()), default=1)
    origins = origins_of(adjusted.calendar.steps()[observed], horizon, season)
    fits = candidates(x, y, choices)
    combination = combine(fits, origins, seed, likely_times(adjusted, horizon, choices)[0])
    remarks = (*adjusted.remarks, *(f"also: {remark}" for remark in pair.fine.remarks))
    totals = replace(pair.totals, remarks=remarks)
    return MixedForecast(totals, horizon, choices, combination, seed, pair=pair)


def _require_supported(series: Series, request: Request) -> None:
    """Raise ValueError for the first option that also= excludes."""
    model = request.model
    options = {
        "regressors": series.regressors,
        "holidays": request.holidays,
        "events": request.events,
        "likelihood": request.likelihood,
    }
    names = ("log", "changes", "robust", "kernel", "effect_kernels", "method")
    options |= {f"StructuralModel({name}=...)": getattr(model, name) for name in names}
    # A bound of 0 holds for totals and for their days alike; other bounds do not.
    options |= {
        f"StructuralModel({name}=...) other than 0": bound or None
        for name, bound in (("lower", model.lower), ("upper", model.upper))
        if bound is not None and np.isfinite(bound)
    }
    for name, value in options.items():
        if value is None or value is False:
            continue
        reason = (
            "totals are sums of the finer values, and the logarithm of a sum is not the sum of "
            "the logarithms"
            if name == "StructuralModel(log=...)"
            else "the model of two frequencies does not have it"
        )
        raise ValueError(f"also= excludes {name}: {reason}. Remove one of the two.")
