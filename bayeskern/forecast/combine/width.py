"""Scale and tails of the intervals: learned priors, updated by past errors.

A standardised error of a forecast is c e, where e has a Student t distribution. The squared scale
c^2 is that of a normal variance with a conjugate prior (Gelman et al., 2013, "Bayesian data
analysis", section 2.6): the mean of the squared errors of earlier forecasts and of the prior, which
counts as m errors. Older errors count less, so that the scale follows a variance that changes, as
in exponential smoothing of squared errors (J.P. Morgan and Reuters, 1996, "RiskMetrics technical
document", section 5.2). The degrees of freedom of e have a log-normal prior above 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from bayeskern.forecast.model.learned import IntervalWidth
from bayeskern.prediction.student_errors import StudentErrors

# Limits on residuals, in sds, so that one outlier does not set the scale or the degrees.
MAX_RESIDUAL, MAX_TAIL = 5.0, 10.0
# The variance of the errors exists above this number of degrees of freedom.
MIN_DEGREES = 2.0
# Grid of the log of the degrees beyond MIN_DEGREES, and sd of its normal prior.
LOG_DEGREES, LOG_DEGREES_SD = np.linspace(-5.0, 8.0, 66), 1.0
# Information of a past value on the degrees, relative to that of an independent error: errors of
# neighbours are dependent.
TAIL_INFORMATION = 0.2


@dataclass(frozen=True, eq=False)
class PastErrors:
    """Standardised errors of past forecasts.

    Attributes:
        residuals: Normal scores of the observed values under the forecasts, (N,).
        rows: Rows of these values in the series, (N,). Forecasts from several origins share values.
    """

    residuals: np.ndarray
    rows: np.ndarray

    def squared_scale(self, width: IntervalWidth, known: np.ndarray) -> np.ndarray:
        """Squared scale of forecasts made with `known` (m,) values known, from errors on these."""
        square = np.square(np.clip(self.residuals, -MAX_RESIDUAL, MAX_RESIDUAL))
        age = known[:, None] - self.rows
        shares = self._shares * np.where(age > 0, np.exp2(-age / width.half_life), 0.0)
        prior = width.prior_count * np.exp(2.0 * width.log_scale)
        return (prior + shares @ square) / (width.prior_count + shares.sum(axis=1))

    def degrees(self, width: IntervalWidth) -> float:
        """Degrees of freedom, by the posterior mean of their log beyond MIN_DEGREES."""
        distance = LOG_DEGREES - np.log(width.degrees - MIN_DEGREES)
        log_posterior = self._log_likelihoods - 0.5 * np.square(distance / LOG_DEGREES_SD)
        return MIN_DEGREES + float(np.exp(softmax(log_posterior) @ LOG_DEGREES))

    @cached_property
    def _shares(self) -> np.ndarray:
        """One over the number of forecasts of the same value, (N,)."""
        _, inverse, counts = np.unique(self.rows, return_inverse=True, return_counts=True)
        return 1.0 / counts[inverse]

    @cached_property
    def _log_likelihoods(self) -> np.ndarray:
        """Log likelihood of the degrees in LOG_DEGREES, for errors of variance 1."""
        e = np.clip(self.residuals, -MAX_TAIL, MAX_TAIL)
        size = np.sqrt(self._shares @ np.square(e) / max(1.0, self._shares.sum()))
        e = e / size if size > 0.0 else e
        log_likelihoods = []
        for degrees in MIN_DEGREES + np.exp(LOG_DEGREES):
            errors = StudentErrors(np.ones(1), float(degrees))
            density = errors.log_density(errors.sd * e) + np.log(errors.sd)
            log_likelihoods.append(TAIL_INFORMATION * self._shares @ density)
        return np.array(log_likelihoods)


def forecast_errors(
    width: IntervalWidth, past: PastErrors, known: ArrayLike, steps: np.ndarray
) -> StudentErrors:
    """Distribution of standardised errors, given errors of past forecasts.

    Args:
        width: Prior of scale and degrees.
        past: Errors of past forecasts.
        known: Number of values that are known at the origin of the forecasts, () or (m,).
        steps: Steps ahead of the forecasts, counted from 0: (m,).
    """
    counts, inverse = np.unique(known, return_inverse=True)
    scales = np.sqrt(past.squared_scale(width, counts))[inverse]
    # The scale grows over the horizon of the prior, and stays constant beyond it.
    progress = np.minimum(steps / max(1.0, width.horizon - 1.0), 1.0)
    return StudentErrors(scales * np.exp(width.widening * progress), past.degrees(width))
