"""Scale of the intervals: a prior from many series, updated by the residuals of this one.

A standardised error of a forecast is c e with e ~ N(0, 1) and c^2 ~ inverse gamma. The errors of
forecasts from earlier origins update that prior. Each counts for a share of an observation, because
these errors are dependent and their hyperparameters have seen the values. A future error has a
Student t distribution: Gelman et al. (2013), "Bayesian data analysis", section 2.6.
"""

from __future__ import annotations

import numpy as np

from bayeskern.forecast.model.learned import Width
from bayeskern.prediction.student_errors import StudentErrors

# Residuals are clipped here, in sds, so that one outlier does not set the scale.
MAX_RESIDUAL = 5.0


def forecast_errors(width: Width, residuals: np.ndarray, steps: np.ndarray) -> StudentErrors:
    """Posterior of standardised errors, given residuals of earlier forecasts.

    Args:
        width: The prior.
        residuals: Normal scores of the observed values under the forecasts from earlier origins,
            (N,).
        steps: Number of steps ahead of the new forecasts, from 0 on: (m,).
    """
    r = np.clip(residuals, -MAX_RESIDUAL, MAX_RESIDUAL)
    degrees = width.degrees + width.share * len(r)
    squares = width.degrees * np.exp(2.0 * width.log_scale) + width.share * np.sum(r**2)
    through = np.minimum(steps / max(1.0, width.horizon - 1.0), 1.0)
    scales = np.sqrt(squares / degrees) * np.exp(width.widening * through)
    return StudentErrors(scales, float(degrees))
