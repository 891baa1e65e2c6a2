"""Remarks on a forecast: observations and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeskern.forecast.combine.candidates import CHANGE_MARGIN
from bayeskern.forecast.evaluate.conformal import PastTails
from bayeskern.forecast.show.printing import number_format

if TYPE_CHECKING:
    from bayeskern.forecast.result import Forecast


def remarks_on(f: Forecast) -> tuple[str, ...]:
    """Remarks on the series of a forecast, followed by remarks on the forecast."""
    if not f.parts:
        constant = "the series is constant: the forecast is flat and its interval has no width"
        return (*f.series.remarks, constant)
    remarks, y = list(f.series.remarks), f.series.values[f.series.observed]
    # Ten values barely determine the hyperparameters.
    if len(y) <= 10:
        consequence = "the intervals rest on the priors more than on the series"
        if f.parts[0].draws.is_point:
            consequence = "intervals built on a point estimate may be much too narrow"
        remarks.append(f"with {len(y)} values, {consequence}")
    if f.choices.ranks:
        zeros = int(np.sum(y == 0.0))
        remarks.append(
            f"{zeros} of {len(y)} values are 0: the model is fitted to the ranks of the values, "
            "so that the forecast stays within the range of the observed values"
        )
    if f.choices.find_changes and not f.changes.size:
        searched = len(y) >= 2 * CHANGE_MARGIN
        result = "searched, and none found" if searched else "too few values to search for them"
        remarks.append(f"changes of level and slope: {result}")
    effects = f.choices.effects
    if effects is not None and effects.unseen:
        remarks.append(
            f"{', '.join(effects.unseen)}: not observed in the series, so the forecast assumes no "
            "effect"
        )
    if f.choices.likelihood is not None:
        return tuple(remarks)
    tails, scores = PastTails.of(f), f.past_scores
    if tails is not None and scores is not None:
        test = tails.test(0.8)
        # Intervals that follow past errors, called too wide, held no more of the next values than
        # others (benchmarks.interval_coverage).
        remark = test.remark() if test.is_narrow or not scores.is_adapted else None
        remarks += [remark] if remark else []
    outlier = _outlier(f)
    if outlier:
        advice = (
            "" if f.choices.robust else "; otherwise use StructuralModel(robust=True) (--robust)"
        )
        remarks.append(
            f"{outlier} is far from its leave-one-out prediction: leave it out if it is an error"
            f"{advice}"
        )
    # Larger counts are approximately continuous.
    if np.min(y) >= 0 and np.median(y) <= 10.0 and np.array_equal(y, np.round(y)):
        remarks.append(
            "the values are small counts, but the model is for continuous values: try "
            "likelihood='negative_binomial' (--likelihood negative_binomial)"
        )
    if np.min(y) >= 0 and np.min(f.interval()[0]) < 0:
        advice = "set a bound (StructuralModel(lower=0), --lower 0)"
        if np.min(y) > 0 and f.choices.fine_steps is None:
            advice = "model the logarithm (StructuralModel(log=True), --positive)"
        remarks.append(
            "no value is negative, but the 95 % interval has negative values: if these are "
            f"impossible, {advice}"
        )
    return tuple(remarks)


def _outlier(f: Forecast) -> str | None:
    """Value and time of the largest leave-one-out residual; None if below five sds.

    Fewer than one in a million normal errors exceed five sds.
    """
    fitted = f.parts[0].fitted
    means, variances, _ = fitted.evidence.loo(fitted.mode[None])
    distance = np.abs(fitted.scale.forward(fitted.y) - means[0]) / np.sqrt(variances[0])
    # The finer values of a mixed forecast follow the totals, and their times are not in the series.
    distance = distance[: int(f.series.observed.sum())]
    worst = int(np.argmax(distance))
    if not distance[worst] > 5.0:
        return None
    label = f.time_labels(f.series.times[f.series.observed][[worst]])[0]
    return f"{number_format(fitted.y)(fitted.y[worst])} at {label}"
