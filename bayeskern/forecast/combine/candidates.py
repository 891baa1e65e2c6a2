"""Fit the structures of a series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
from scipy.special import logsumexp

from bayeskern.core.progress import Progress
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.stacking import learned_weights
from bayeskern.forecast.fit.changes import with_change, with_likeliest_change
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.model.kernels import LEVEL
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.forecast.model.trends import CHANGING

# Largest difference in log joint density from the best structure, if
# `StructureChoices.weighed_by_evidence`.
MAX_LOG_GAP_NATS = 15.0
# In a longer series with a dense fit, fits to this number of last values give the starting points,
# and their weights choose the structures that are fitted to all values.
RECENT_VALUES = 250
# Power of the number of values in the time of a fit.
COST_POWER = 2.3
# Time of Hessians, draws and forecasts from earlier origins, and of a search for changes, in fits.
COST_OF_REST, COST_OF_SEARCH = 0.3, 15.0


def candidates(
    x: np.ndarray,
    y: np.ndarray,
    choices: StructureChoices,
    origins: Sequence[Origin] = (),
) -> list[FittedStructure]:
    """Structures at their modes, best first.

    Of a longer series, structures of small weight are left out.

    Args:
        x: Times, (n,).
        y: Values, (n,).
        choices: Options of the compared structures.
        origins: Earlier origins; without them no structure is left out for its weight.

    Raises:
        ValueError: No structure has a finite log joint density.
    """
    structures, start = choices.structures, dict[Structure, dict[str, float]]()
    # A kernel from the user may depend on absolute time, which the fits to recent values shift; the
    # last of mixed values are fine steps only.
    can_shift = choices.kernels is None and choices.fine_steps is None
    is_filtered = choices.takes_filter(len(y))
    is_long = len(y) > RECENT_VALUES and len(structures) > 1 and can_shift
    is_long = is_long and not is_filtered
    cost = (len(y) / RECENT_VALUES) ** COST_POWER if is_long else 1.0
    total = len(structures) * (cost * (1.0 + COST_OF_REST) + is_long)
    total += cost * COST_OF_SEARCH if choices.find_changes else 0.0
    with Progress("forecast", total, estimate=is_long or is_filtered) as bar:
        if is_long:
            start = _recent_modes(x, y, choices, origins, partial(bar.advance, 1.0))
            structures = [*start]
        if is_filtered:
            fits = _fit_on_grid(x, y, choices, origins, partial(bar.advance, cost))
        else:
            fits = _fit_all(structures, choices, x, y, partial(bar.advance, cost), start)
    if choices.weighed_by_evidence:
        fits = best_first(fits, MAX_LOG_GAP_NATS)
    if not np.isfinite(fits[0].log_joint):
        raise ValueError(
            "the log density of the values is not finite at the prior medians of the kernel: the "
            "covariance matrix overflows or is not positive definite there. Check the priors and "
            "the time unit."
        )
    return _with_changes(fits) if choices.find_changes else fits


def _fit_all(
    structures: Sequence[Structure],
    choices: StructureChoices,
    x: np.ndarray,
    y: np.ndarray,
    advance: Callable[[], None],
    start: Mapping[Structure, dict[str, float]] = MappingProxyType({}),
) -> list[FittedStructure]:
    """Structures at their modes, best first, fitted in parallel if faster.

    Args:
        structures: Structures to fit.
        choices: Options of the compared structures.
        x: Times, (n,).
        y: Values, (n,).
        advance: Called after each fit.
        start: Structure -> starting hyperparameters by name.
    """

    def fit(structure: Structure) -> FittedStructure:
        fitted = FittedStructure.from_values(structure, choices, x, y, start.get(structure))
        advance()
        return fitted

    return best_first(side_by_side(fit, structures, len(y)))


def _recent_modes(
    x: np.ndarray,
    y: np.ndarray,
    choices: StructureChoices,
    origins: Sequence[Origin],
    advance: Callable[[], None],
) -> dict[Structure, dict[str, float]]:
    """Structures with enough weight on the last values, with their modes by name.

    Arguments as in `candidates`; advance is called after each fit.
    """
    count, before = RECENT_VALUES, len(y) - RECENT_VALUES
    first = x[before]
    changes = tuple(time - first for time in choices.changes if time > first)
    shifted = [structure._replace(changes=changes) for structure in choices.structures]
    fits = _fit_all(shifted, choices, x[before:] - first, y[before:], advance)
    # An origin needs some of the last values before it.
    origins = [
        origin._replace(count=origin.count - before)
        for origin in origins
        if origin.count - before >= count // 4
    ]
    if not choices.weighed_by_evidence:
        fits = _with_weight(fits, origins)
    return {
        fitted.structure._replace(changes=choices.changes): fitted.mode_by_name for fitted in fits
    }


def _fit_on_grid(
    x: np.ndarray,
    y: np.ndarray,
    choices: StructureChoices,
    origins: Sequence[Origin],
    advance: Callable[[], None],
) -> list[FittedStructure]:
    """Structures with enough weight, best first.

    The seasons and the noise of the first structure are the start for those of other trends; the
    mode of a trend on the first scale is the start on the other one.

    Arguments as in `candidates`; advance is called after each fit.
    """
    first, *others = choices.structures
    fits = _fit_all([first], choices, x, y, advance)
    common = {n: z for n, z in fits[0].mode_by_name.items() if not n.startswith(f"{LEVEL}.")}
    start = {structure: common for structure in others}
    for log in choices.logs:
        structures = [structure for structure in others if structure.log == log]
        fits += _fit_all(structures, choices, x, y, advance, start)
        start = {fit.structure._replace(log=True): fit.mode_by_name for fit in fits}
    fits = [fit for fit in fits if np.isfinite(fit.log_joint)] or fits
    return best_first(_with_weight(fits, origins))


# Structures of a longer series with a smaller weight are left out.
MIN_RECENT_WEIGHT = 0.05


def _with_weight(fits: list[FittedStructure], origins: Sequence[Origin]) -> list[FittedStructure]:
    """Fits whose forecasts from earlier origins give them enough weight; all without origins."""
    if not origins or len(fits) == 1:
        return fits
    past = side_by_side(lambda fitted: fitted.rolling(origins), fits, len(fits[0].y))
    log_densities = np.array([fitted.log_joint for fitted in fits])
    weights = learned_weights(fits, log_densities, origins, past)
    return [fits[i] for i in np.flatnonzero(weights >= MIN_RECENT_WEIGHT)]


def best_first(
    fits: Iterable[FittedStructure], max_log_gap_nats: float = np.inf
) -> list[FittedStructure]:
    """Fits within `max_log_gap_nats` of the best, sorted best first."""
    fits = sorted(fits, key=lambda fitted: -fitted.log_joint)
    return [fit for fit in fits if fit.log_joint >= fits[0].log_joint - max_log_gap_nats]


# Largest number of new change points; a random-walk level describes a series with more changes
# better.
MAX_CHANGES = 3
# Smallest number of values before and after a new change; fewer values may be outliers.
CHANGE_MARGIN = 5
# Number of structures whose likeliest change is tried.
CHANGE_STARTS = 3


def _with_changes(fits: list[FittedStructure]) -> list[FittedStructure]:
    """Fits with and without new change points, added while they gain log evidence."""
    newest = fits
    for _ in range(MAX_CHANGES):
        changed = with_likeliest_change(newest, CHANGE_MARGIN, CHANGE_STARTS)
        if changed is None:
            break
        time = changed.structure.changes[-1]
        # Every structure of the last round gets the change.
        known = changed.structure.trend_and_log
        others = [old for old in newest if old.structure.trend_and_log != known]
        fit = partial(with_change, time=time, margin=CHANGE_MARGIN)
        newest = best_first([changed, *side_by_side(fit, others, len(changed.y))])
        if _log_evidence(newest) < _log_evidence(fits):
            break
        fits = best_first([*fits, *newest], MAX_LOG_GAP_NATS)
    if any(fitted.structure.changes for fitted in fits):
        return fits
    # Without changes, the forecast is that of a series that was not searched.
    return [fitted for fitted in fits if fitted.structure.trend not in CHANGING] or fits


def _log_evidence(fits: Sequence[FittedStructure]) -> float:
    """Log marginal likelihood of all structures together, up to a constant."""
    return float(logsumexp([fitted.log_evidence for fitted in fits]))
