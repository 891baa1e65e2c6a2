"""Fit structures to a series, and drop structures of much lower log joint density."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp

from bayeskern.core.progress import Progress
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.fit.changes import with_change, with_likeliest_change
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.kernels import CHANGING
from bayeskern.forecast.model.structure import Choices, Structure


@dataclass(frozen=True)
class CandidateOptions:
    """Limits on the structures that are fitted and kept.

    Attributes:
        max_log_gap_nats: Largest difference in log joint density from the best structure.
        recent_values: In a longer series, the logarithm or the values are chosen for each trend by
            fits to this number of last values.
        scale_values: The same number for the structure in basis functions.
        max_changes: Largest number of new change points; a random-walk level describes a series
            with more changes better.
        change_margin: Smallest number of values before and after a new change; fewer values may be
            outliers.
        change_starts: Number of structures whose likeliest change is tried.
        cost_power: Power of the number of values in the time of a fit.
        cost_of_rest: Time of Hessians, draws and forecasts from earlier origins, in fits.
        cost_of_search: Time of a search for changes, in fits.
    """

    max_log_gap_nats: float = 15.0
    recent_values: int = 250
    scale_values: int = 3_000
    max_changes: int = 3
    change_margin: int = 5
    change_starts: int = 3
    cost_power: float = 2.3
    cost_of_rest: float = 0.3
    cost_of_search: float = 15.0


def candidates(
    x: np.ndarray, y: np.ndarray, choices: Choices, options: CandidateOptions = CandidateOptions()
) -> list[Fitted]:
    """Likely structures at their modes, best first.

    For a long series, fits to the last values choose the values or their logarithm for each trend.
    The chosen structure of each trend is then fitted to the whole series.

    Args:
        x: Times, (n,).
        y: Values, (n,).
        choices: Options of the compared structures.
        options: Limits on the structures that are kept.

    Raises:
        ValueError: No structure has a finite log joint density.
    """
    if choices.whole_history:
        return [_of_history(x, y, choices, options)]
    structures, start = choices.structures, {}
    # A kernel from the user may depend on absolute time, which the fits to recent values shift; the
    # last of mixed values are fine steps only.
    can_shift = choices.kernels is None and choices.fine_steps is None
    is_long = len(y) > options.recent_values and len(structures) > 1 and can_shift
    cost, count = 1.0, len(structures)
    if is_long:
        cost, count = (len(y) / options.recent_values) ** options.cost_power, len(choices.trends)
    total = cost * count * (1.0 + options.cost_of_rest) + (len(structures) if is_long else 0)
    total += cost * options.cost_of_search if choices.find_changes else 0.0
    with Progress("forecast", total, estimate=is_long) as bar:
        if is_long:
            recent = slice(-options.recent_values, None)
            first = x[recent][0]
            changes = tuple(time - first for time in choices.changes if time > first)
            shifted = [structure._replace(changes=changes) for structure in structures]
            bar_of_recent = partial(bar.advance, 1.0)
            fits = _fit_all(
                shifted, choices, x[recent] - first, y[recent], bar_of_recent, start, options
            )
            likeliest: dict[str, Structure] = {}
            for fitted in fits:
                structure = fitted.structure._replace(changes=choices.changes)
                start[structure] = fitted.mode_by_name
                likeliest.setdefault(structure.trend, structure)
            structures = [*likeliest.values()]
        fits = _fit_all(structures, choices, x, y, partial(bar.advance, cost), start, options)
    if not np.isfinite(fits[0].log_joint):
        raise ValueError(
            "the log density of the values is not finite at the prior medians of the kernel: the "
            "covariance matrix overflows or is not positive definite there. Check the priors and "
            "the time unit."
        )
    return _with_changes(fits, options) if choices.find_changes else fits


def _of_history(
    x: np.ndarray, y: np.ndarray, choices: Choices, options: CandidateOptions
) -> Fitted:
    """Fit to a whole long series; its last part decides on the logarithm."""
    structure = choices.structures[0]
    if len(choices.structures) > 1:
        recent = slice(-options.scale_values, None)
        fits = [Fitted.of(s, choices, x[recent], y[recent]) for s in choices.structures]
        structure = best_first(fits, options.max_log_gap_nats)[0].structure
    return Fitted.of(structure, choices, x, y)


def _fit_all(
    structures: Sequence[Structure],
    choices: Choices,
    x: np.ndarray,
    y: np.ndarray,
    advance: Callable[[], None],
    start: Mapping[Structure, dict[str, float]],
    options: CandidateOptions,
) -> list[Fitted]:
    """Likely structures at their modes, best first, fitted in parallel if faster.

    If some structures take logarithms and others do not, the first structure of each kind is fitted
    first; a kind that these fits rule out is dropped.

    Args:
        structures: Structures to fit.
        choices: Options of the compared structures.
        x: Times, (n,).
        y: Values, (n,).
        advance: Called after each fit.
        start: Structure -> starting hyperparameters by name.
        options: Limits on the structures that are kept.
    """

    def fit(structure: Structure) -> Fitted:
        fitted = Fitted.of(structure, choices, x, y, start.get(structure))
        advance()
        return fitted

    gap = options.max_log_gap_nats
    first = [*{structure.log: structure for structure in reversed(structures)}.values()]
    if len(first) == 1:
        return best_first(side_by_side(fit, structures, len(y)), gap)
    fits = best_first(side_by_side(fit, first, len(y)), gap)
    likely = {fitted.structure.log for fitted in fits}
    others = [s for s in structures if s.log in likely and s not in first]
    return best_first([*fits, *side_by_side(fit, others, len(y))], gap)


def best_first(fits: Iterable[Fitted], max_log_gap_nats: float = np.inf) -> list[Fitted]:
    """Fits within `max_log_gap_nats` of the best, sorted best first."""
    fits = sorted(fits, key=lambda fitted: -fitted.log_joint)
    return [fit for fit in fits if fit.log_joint >= fits[0].log_joint - max_log_gap_nats]


def _with_changes(fits: list[Fitted], options: CandidateOptions) -> list[Fitted]:
    """Fits with and without new change points, added while they gain log evidence."""
    newest = fits
    for _ in range(options.max_changes):
        changed = with_likeliest_change(newest, options.change_margin, options.change_starts)
        if changed is None:
            break
        time = changed.structure.changes[-1]
        # Every structure of the last round gets the change.
        known = changed.structure.trend_and_log
        others = [old for old in newest if old.structure.trend_and_log != known]
        margin = options.change_margin
        fit = partial(with_change, time=time, margin=margin)
        newest = best_first([changed, *side_by_side(fit, others, len(changed.y))])
        if _log_evidence(newest) < _log_evidence(fits):
            break
        fits = best_first([*fits, *newest], options.max_log_gap_nats)
    if any(fitted.structure.changes for fitted in fits):
        return fits
    # Without changes, the forecast is that of a series that was not searched.
    return [fitted for fitted in fits if fitted.structure.trend not in CHANGING] or fits


def _log_evidence(fits: Sequence[Fitted]) -> float:
    """Log marginal likelihood of all structures together, up to a constant."""
    return float(logsumexp([fitted.log_evidence for fitted in fits]))
