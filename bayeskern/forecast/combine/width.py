"""Scale of the intervals: a learned prior, updated by past errors.

A standardised error of a forecast is c e with e ~ N(0, 1) and an inverse gamma prior on c^2. The
errors of forecasts from earlier origins update the prior. Each error counts as a fraction of an
observation, because the errors are dependent and the hyperparameters were fitted to the same
values. A future error has a Student t distribution: Gelman et al. (2013), "Bayesian data analysis",
section 2.6.
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
    degrees = width.degrees + width.share * len(r)
    squares = width.degrees * np.exp(2.0 * width.log_scale) + width.share * np.sum(r**2)
    # The scale grows over the horizon of the prior, and stays constant beyond it.
    progress = np.minimum(steps / max(1.0, width.horizon - 1.0), 1.0)
    scales = np.sqrt(squares / degrees) * np.exp(width.widening * progress)
    return StudentErrors(scales, float(degrees))
