"""Growth of forecasts of the logarithm, by hand."""

import numpy as np

from bayeskern.forecast.model.transformation import MAX_LOG_ABOVE_LARGEST, MAX_LOG_ABOVE_MEDIAN


def limits_of(median, scale):
    """Logarithms from which the two parts of a forecast are linear, the linear part last."""
    limit = np.minimum(median + MAX_LOG_ABOVE_MEDIAN, scale.largest + MAX_LOG_ABOVE_LARGEST)
    return limit, np.minimum(limit, scale.largest)


def grown(g, median, scale):
    """y where its logarithm is g, and is forecast with that median."""
    exponential, linear = (
        np.where(g < limit, np.exp(np.minimum(g, limit)), np.exp(limit) * (1.0 + g - limit))
        for limit in limits_of(median, scale)
    )
    return (1.0 - scale.linear_share) * exponential + scale.linear_share * linear
