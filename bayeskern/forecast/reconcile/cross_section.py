"""Reconciliation of forecasts of a hierarchy of series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import abbreviated, counted
from bayeskern.core.progress import Progress, hidden_progress
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.reconcile.coupling import (
    Coupling,
    in_rank_order,
    past_errors,
    require_draws,
    root_of_paths,
)
from bayeskern.forecast.reconcile.hierarchy import Hierarchy
from bayeskern.forecast.reconcile.reconciled import CoherentForecast, Reconciled
from bayeskern.forecast.reconcile.weights import (
    MIN_ERRORS,
    RECONCILIATION_METHODS,
    Projector,
)
from bayeskern.forecast.result import Forecast
from bayeskern.series.series import MIN_VALUES, Series


def reconcile(
    forecasts: Mapping[Any, Forecast],
    hierarchy: Any,
    method: str = "wls",
    *,
    nonnegative: bool = False,
    draws: int = 2_000,
    tolerance: float = 1e-6,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Reconciled:
    """Make forecasts of a hierarchy of series add up.

    At each step, joint draws of all base forecasts are projected onto values that add up. The draws
    keep the distribution of each base forecast. A Gaussian copula makes the series dependent, with
    the correlations of past errors at each step ahead.

    Args:
        forecasts: Name of each series -> its forecast: the result of `forecast_many`, or any other
            mapping. All must have the same future times.
        hierarchy: A frame with columns child and parent, or a mapping from child to parent (to a
            list, for several parents); or a frame with a row for each bottom series, its name in
            the last column, such as region and store. In the second form each column is a level,
            whose groups need not be nested, and "total" is the sum of all series.
        method: Weights of the base forecasts. "wls" (minimum trace with a diagonal covariance)
            weights by the spread of each forecast at each step. "mint" adds the correlations of the
            one-step errors, shrunk towards 0 (Schaefer and Strimmer, 2005): better if they are
            strong and well known, otherwise worse. "ols" weights all series equally, "bottom-up"
            uses the bottom series only, and "top-down" splits the forecast of the total in
            proportion to their medians.
        nonnegative: Set negative draws of bottom series to 0 before they are summed.
        draws: Number of joint draws, more than twice the horizon.
        tolerance: Largest difference between a series and the sum of its bottom series, relative to
            the largest value.
        seed: Random seed of the draws.
        progress: Show a progress bar while sums without a forecast are fitted.
        **options: Arguments of `forecast` for sums without a forecast, which are fitted here.

    Returns:
        A mapping from names to coherent forecasts, sums first, with scores by level.

    Raises:
        TypeError: If a forecast is not a `Forecast`.
        ValueError: If the hierarchy has a cycle, a bottom series has no forecast, a forecast is not
            in the hierarchy, the future times differ, or past values do not add up.

    References:
        Panagiotelis, Gamakumara, Athanasopoulos and Hyndman (2023), "Probabilistic forecast
        reconciliation: properties, evaluation and score optimisation", EJOR.

        Wickramasuriya, Athanasopoulos and Hyndman (2019), "Optimal forecast reconciliation for
        hierarchical and grouped time series through trace minimization", JASA.

    Examples:
        ```python
        stores = bk.forecast_many(sales, 28, id="store", time="day", value="units")
        reconciled = bk.reconcile(stores, shops[["region", "store"]])
        reconciled["North"].interval(0.8)
        reconciled.scores
        ```
    """
    method = validation.one_of("method", method, RECONCILIATION_METHODS)
    draws, seed = validation.positive_integer(draws, "draws"), validation.seed(seed)
    tree = Hierarchy.read(hierarchy)
    tree.require_forecasts(forecasts)
    known = {name: forecasts[name] for name in tree.names if name in forecasts}
    _require_alike(known)
    missing = [name for name in tree.upper if name not in known]
    with Progress("sums", len(missing), progress and bool(missing)) as bar:
        for name in missing:
            with hidden_progress():
                horizon = next(iter(known.values())).horizon
                known[name] = forecast(_sum_of(name, tree, known), horizon, **options)
            bar.advance()
    base = [known[name] for name in tree.names]
    _require_sums(tree, base, validation.positive(tolerance, "tolerance", zero=True))
    require_draws(draws, base[0].horizon)
    errors = past_errors(base)
    roots = np.stack([root_of_paths(f.sample(draws, seed)) for f in base])
    coupling = Coupling.from_errors(errors, roots)
    probabilities = (np.arange(draws) + 0.5) / draws
    quantiles = np.stack([f.quantile(probabilities) for f in base], axis=-1)
    joint = in_rank_order(quantiles, coupling.normal_paths(draws, np.random.default_rng(seed)))
    projector = Projector(tree, method, nonnegative)
    for step in range(joint.shape[1]):
        joint[:, step] = projector.coherent(joint[:, step], coupling.one_step)
    series = {
        name: CoherentForecast(name, tree.levels[i], base[i], joint[:, :, i])
        for i, name in enumerate(tree.names)
    }
    return Reconciled(series, method, _notes(missing, errors[:, 0]), projector, coupling, seed)


def _notes(fitted: Sequence[Any], errors: np.ndarray) -> tuple[str, ...]:
    """Remarks on sums that were forecast here and on unknown correlations."""
    notes = []
    if fitted:
        sums = counted(len(fitted), "sum has been", "sums have been")
        notes.append(
            f"{sums} forecast here, because there was no forecast of {abbreviated(fitted)}"
        )
    common = int(np.sum(np.all(np.isfinite(errors), axis=1)))
    if common < MIN_ERRORS:
        notes.append(
            f"the series have {counted(common, 'past error')} in common: the correlations "
            "between series are unknown and taken as 0"
        )
    return tuple(notes)


def _require_alike(forecasts: Mapping[Any, Forecast]) -> None:
    """Raise an error unless all are forecasts at the same regular future times."""
    wrong = next((name for name, f in forecasts.items() if not isinstance(f, Forecast)), None)
    if wrong is not None:
        kind = type(forecasts[wrong]).__name__
        raise TypeError(
            f"forecasts must map names to forecasts of bk.forecast; {wrong!r} is a {kind}."
        )
    first, reference = next(iter(forecasts.items()))
    for name, f in forecasts.items():
        if not f.series.calendar.regular:
            raise ValueError(
                f"forecasts: the times of {name!r} are {f.series.calendar.description}; a "
                "hierarchy needs regular times."
            )
        if f.horizon != reference.horizon:
            raise ValueError(
                f"forecasts must have the same horizon; {first!r} has {reference.horizon} steps "
                f"and {name!r} has {f.horizon}."
            )
        calendars = reference.series.calendar, f.series.calendar
        if not calendars[1].continues(calendars[0]) or calendars[0].tz != calendars[1].tz:
            raise ValueError(
                f"forecasts must have the same times; {first!r} is {calendars[0].description} and "
                f"{name!r} is {calendars[1].description}."
            )
        if not np.array_equal(f.times, reference.times):
            starts = [g.time_labels(g.times[:1])[0] for g in (reference, f)]
            raise ValueError(
                f"forecasts must have the same future times; {first!r} begins at {starts[0]} and "
                f"{name!r} at {starts[1]}. Forecast the series again from the same last time."
            )


def _recent(f: Forecast, count: int) -> np.ndarray:
    """Last `count` values on the grid, NaN where missing or unknown, (count,)."""
    values = f.series.on_grid()[-count:]
    return np.concatenate([np.full(count - len(values), np.nan), values])


def _sum_of(name: Any, tree: Hierarchy, forecasts: Mapping[Any, Forecast]) -> Series:
    """Series of the sum of bottom series, from the first time with values of all."""
    parts = [forecasts[tree.bottom[j]] for j in tree.leaves_of(name)]
    count = min(len(f.series.on_grid()) for f in parts)
    values = np.sum([_recent(f, count) for f in parts], axis=0)
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < MIN_VALUES:
        raise ValueError(
            f"hierarchy: the series of {name!r} have {counted(len(known), 'time')} in common; "
            f"{MIN_VALUES} are needed. Give a forecast of {name!r}."
        )
    first = parts[0].series
    times = first.calendar.grid(0)[-(count - known[0]) :]
    calendar = replace(first.calendar, times=times, remarks=())
    return Series(str(name), first.time_name, first.value_name, values[known[0] :], calendar, ())


def _require_sums(tree: Hierarchy, base: Sequence[Forecast], tolerance: float) -> None:
    """Raise ValueError if past values of a sum differ from those of its bottom series."""
    for i, name in enumerate(tree.upper):
        parts = [base[len(tree.upper) + j] for j in tree.leaves_of(name)]
        count = min(len(f.series.on_grid()) for f in (base[i], *parts))
        total = _recent(base[i], count)
        values = np.array([_recent(f, count) for f in parts])
        sums = values.sum(axis=0)
        known = np.isfinite(total) & np.isfinite(sums)
        size = np.max(np.abs(values).sum(axis=0)[known], initial=0.0)
        gaps = np.where(known, np.abs(total - sums), 0.0)
        wrong = gaps > tolerance * size
        if wrong.any():
            row = int(np.argmax(gaps))
            time = base[i].time_labels(base[i].series.calendar.grid(0)[-count:])[row]
            others = int(wrong.sum()) - 1
            raise ValueError(
                f"hierarchy: {name!r} differs from the sum of its "
                f"{counted(len(parts), 'bottom series')} at {time}: "
                f"{total[row]:.6g} against {sums[row]:.6g}, a difference of {gaps[row]:.3g}"
                f"{f', and at {others} of {known.sum()} times' if others else ''}. Correct the "
                f"values or the hierarchy, or accept differences by tolerance= (it is "
                f"{tolerance:g} of the largest value)."
            )
