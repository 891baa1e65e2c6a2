"""Forecast totals from their history and from recent values of finer frequency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import printable_errors
from bayeskern.forecast.combine.candidates import candidates
from bayeskern.forecast.combine.stacking import combine
from bayeskern.forecast.combine.updating import likely_times
from bayeskern.forecast.fit.rolling import origins_of
from bayeskern.forecast.mixed.aligned import aligned
from bayeskern.forecast.mixed.result import MixedForecast
from bayeskern.forecast.model.configuration import MAX_HORIZON, Request, configure
from bayeskern.forecast.model.structural_model import StructuralModel, require_structural_model
from bayeskern.forecast.model.transformation import is_constant
from bayeskern.series.horizon import steps_ahead
from bayeskern.series.reading import read_series
from bayeskern.series.series import Series


@printable_errors()
def forecast_mixed(
    totals: Any,
    recent: Any,
    horizon: int | str,
    *,
    season: float | Sequence[float] | None = None,
    trend: str | None = None,
    model: StructuralModel = StructuralModel(),
    seed: int = 0,
) -> MixedForecast:
    """Forecast monthly totals from their history and from the daily values of the last weeks.

    Totals over quarters or years, and recent values over business days or months, are accepted,
    too. A total is the exact sum of its finer values, and totals and finer values are jointly
    normal. The first step of the forecast is the unfinished period, whose distribution is
    `MixedForecast.nowcast`.

    The structures, their priors and their weights are those of `forecast`, applied to the values as
    given: a total is a sum, and the logarithm of a sum is not the sum of the logarithms.

    Args:
        totals: Totals over months, quarters or years, in a form of `read_series`: a path, a frame
            or a pandas series, or a result of `read_series`.
        recent: Values of the same quantity over days, business days or months, in the same forms.
            They have no gaps, begin right after the last total or before it, reach at least to
            its end, and add up to the totals that they cover, to 0.1 %.
        horizon: Number of totals after the last finished period; or a duration, "6 months", or an
            end, "until 2025-12".
        season: Season of the totals, as in `forecast`.
        trend: Name of a trend, such as "slope", to use this trend only.
        model: Further options. Only `priors`, `last` and bounds of 0 are available.
        seed: Random seed.

    Returns:
        The forecast of the totals.

    Raises:
        ValueError: The two series do not fit together, or an option is not available.
        TypeError: model is not a `StructuralModel`.

    Examples:
        ```python
        months, days = bk.read_series("monthly.csv"), bk.read_series("daily.csv")
        f = bk.forecast_mixed(months, days, 3)
        f.nowcast.interval(0.8)
        ```
    """
    seed = validation.seed(seed)
    require_structural_model(model)
    series = read_series(totals)
    _require_supported(series, model)
    pair = aligned(series, read_series(recent), model.last)
    horizon = steps_ahead(horizon, pair.totals.calendar, MAX_HORIZON)
    # Totals are sums of their fine values, and sums are linear: no logarithm and no ranks. The
    # model of two frequencies has no change points, neither given nor searched for.
    model = replace(model, log=False, last=None, changes=())
    adjusted, choices = configure(pair.adjusted, horizon, Request(model, season, trend))
    steps = pair.fine_steps(horizon)
    choices = replace(choices, fine_steps=steps)
    observed = adjusted.observed
    if is_constant(adjusted.values[observed]):
        raise ValueError(
            f"totals must vary; those of {series.value_name} are constant per "
            f"{pair.fine.calendar.description} step. Use bk.forecast without the recent values."
        )
    x, y = pair.data(steps)
    shortest_season = min((round(p / choices.step) for p in choices.seasons.values()), default=1)
    origins = origins_of(adjusted.calendar.steps()[observed], horizon, shortest_season)
    fits = candidates(x, y, choices)
    combination = combine(fits, origins, seed, likely_times(adjusted, horizon, choices)[0])
    remarks = (*adjusted.remarks, *(f"recent: {remark}" for remark in pair.fine.remarks))
    used = replace(pair.totals, remarks=remarks)
    return MixedForecast(used, horizon, choices, combination, seed, pair=pair)


def _require_supported(totals: Series, model: StructuralModel) -> None:
    """Raise ValueError for the first option that a mixed forecast does not have."""
    names = ("log", "changes", "robust", "kernel", "effect_kernels", "method")
    options = {f"StructuralModel({name}=...)": getattr(model, name) for name in names}
    options["regressors"] = totals.regressors
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
        raise ValueError(f"forecast_mixed excludes {name}: {reason}. Remove it.")
