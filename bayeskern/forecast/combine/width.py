"""Scale of the intervals: a learned prior, updated by past errors.

A standardised error of a forecast is c e, where e has a Student t distribution. The squared scale
c^2 is that of a normal variance with a conjugate prior (Gelman et al., 2013, "Bayesian data
analysis", section 2.6): the mean of the squared errors of forecasts from earlier origins and of the
prior, which counts as m errors. The degrees of freedom of e are learned separately, because new
events make the tails heavy however well the scale is known.
"""

from __future__ import annotations

import numpy as np

from bayeskern.forecast.model.learned import Width
from bayeskern.prediction.student_errors import StudentErrors

# Limit on residuals, in sds, so that one outlier does not set the scale.
MAX_RESIDUAL = 5.0


def forecast_errors(width: Width, residuals: np.ndarray, steps: np.ndarray) -> StudentErrors:
    """Distribution of standardised errors, given residuals of past forecasts.

    Args:
        width: Prior of the scale.
        residuals: Normal scores of the observed values under the forecasts from earlier origins,
            (N,).
        steps: Steps ahead of the new forecasts, counted from 0: (m,).
    """
    r = np.clip(residuals, -MAX_RESIDUAL, MAX_RESIDUAL)
    m = width.prior_count
    square = (m * np.exp(2.0 * width.log_scale) + np.sum(r**2)) / (m + len(r))
    # The scale grows over the horizon of the prior, and stays constant beyond it.
    progress = np.minimum(steps / max(1.0, width.horizon - 1.0), 1.0)
    scales = np.sqrt(square) * np.exp(width.widening * progress)
    return StudentErrors(scales, width.degrees)
