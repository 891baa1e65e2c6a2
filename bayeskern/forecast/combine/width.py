"""The scale of the intervals: a prior from many series, updated by the residuals of this one.

A standardised error of a forecast is c e with e ~ N(0, 1) and c^2 ~ inverse gamma. The errors of
forecasts from earlier origins update that prior, each counting for a share, since they go together
and were made at hyperparameters that had seen them. So an error to come has a Student t
distribution: Gelman et al. (2013), "Bayesian data analysis", section 2.6.
"""

from __future__ import annotations

import numpy as np

from bayeskern.forecast.model.learned import Width
from bayeskern.prediction.student_errors import StudentErrors

# Residuals count as no further off than this, in sds: one wild value is no scale.
MAX_RESIDUAL = 5.0


def forecast_errors(width: Width, residuals: np.ndarray, steps: np.ndarray) -> StudentErrors:
    """The posterior of standardised errors, given residuals (N,) of earlier forecasts.

    Args:
        width: The prior.
        residuals: Normal scores of what came true, under the forecasts from earlier origins.
        steps: How many steps ahead the new forecasts are, from 0 on: (m,).
    """
    r = np.clip(residuals, -MAX_RESIDUAL, MAX_RESIDUAL)
    degrees = width.degrees + width.share * len(r)
    squares = width.degrees * np.exp(2.0 * width.log_scale) + width.share * np.sum(r**2)
    through = np.minimum(steps / max(1.0, width.horizon - 1.0), 1.0)
    scales = np.sqrt(squares / degrees) * np.exp(width.widening * through)
    return StudentErrors(scales, float(degrees))
