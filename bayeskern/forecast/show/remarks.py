"""What is noticed about a forecast, for people to read."""

from __future__ import annotations

import numpy as np

from bayeskern.forecast.show.printing import number_format

# With so many values or fewer the hyperparameters are hardly known.
FEW_VALUES = 10
# Whole numbers about this, or below, are told from others by how they vary.
SMALL_COUNTS = 10.0
# A value so many sds from what the others foretell is remarked on: chance makes one in a million.
WILD = 5.0


def remarks_on(f) -> tuple[str, ...]:
    """The remarks on the series of a forecast, and on the forecast itself."""
    if not f.parts:
        constant = "the series is constant: the forecast is flat and its interval has no width"
        return (*f.series.remarks, constant)
    remarks, y = list(f.series.remarks), f.series.values[f.series.observed]
    if len(y) <= FEW_VALUES:
        says = "the intervals rest on the priors more than on the series"
        if f.parts[0].draws.is_point:
            says = "intervals built on a point estimate may be much too narrow"
        remarks.append(f"with {len(y)} values, {says}")
    if f.choices.ranks:
        zeros = int(np.sum(y == 0.0))
        remarks.append(
            f"{zeros} of {len(y)} values are 0: the forecast is made of the ranks of the values, "
            "and stays within their range"
        )
    effects = f.choices.effects
    if effects is not None and effects.unseen:
        remarks.append(
            f"{', '.join(effects.unseen)} falls within the forecast, and not within the series, so "
            "that nothing is known of what it does: taken to do nothing"
        )
    wild = "" if f.choices.likelihood is not None else _wild_value(f)
    if wild:
        advice = "" if f.choices.robust else ", else take StructuralModel(robust=True) (--robust)"
        remarks.append(
            f"{wild} is far from what all other values say of it: leave it out if it is an "
            f"error{advice}"
        )
    if f.choices.likelihood is not None:
        return tuple(remarks)
    if np.min(y) >= 0 and np.median(y) <= SMALL_COUNTS and np.array_equal(y, np.round(y)):
        remarks.append(
            "the values are small counts, and the intervals those of numbers that need not be "
            "whole: likelihood='negative_binomial' (--likelihood negative_binomial) is for counts"
        )
    if np.min(y) >= 0 and np.min(f.interval()[0]) < 0:
        advice = "if none can be, set a bound (StructuralModel(lower=0), --lower 0)"
        if np.min(y) > 0:
            advice = "if none can be, model the logarithm (StructuralModel(log=True), --positive)"
        remarks.append(f"no value is negative, but the 95 % interval reaches there: {advice}")
    return tuple(remarks)


def _wild_value(f) -> str:
    """The value that is furthest from what the others foretell, with its time, if it is far."""
    fitted = f.leading
    means, variances, _ = fitted.evidence.loo(fitted.mode[None])
    distance = np.abs(fitted.scale.forward(fitted.y) - means[0]) / np.sqrt(variances[0])
    worst = int(np.argmax(distance))
    if not distance[worst] > WILD:
        return ""
    label = f.time_labels(f.series.times[f.series.observed][[worst]])[0]
    return f"{number_format(fitted.y)(fitted.y[worst])} at {label}"
