"""Estimates of log p(y_i | other observations), with their diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

#: How an observation was left out.
PSIS, MATCHED, REFITTED = "PSIS", "moment matching", "refit"


class Estimates(NamedTuple):
    """Leave-one-out estimates of n observations; each field is (n,).

    Attributes:
        elpd: log p(y_i | other observations).
        in_sample: log p(y_i | all observations).
        khat: Pareto k-hat of the weights. After moment matching or a refit, the larger one of this
            and the k-hat of the weights times p(y_i | draw).
        psis_khat: Pareto k-hat of the weights by PSIS, before moment matching or a refit.
        error: Monte Carlo standard error of `elpd`.
        how: PSIS, MATCHED or REFITTED.
    """

    elpd: np.ndarray
    in_sample: np.ndarray
    khat: np.ndarray
    psis_khat: np.ndarray
    error: np.ndarray
    how: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Estimates of several groups of observations, one after another."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def set(self, row: int, left_out: LeftOut, how: str) -> None:
        """Replace the estimate of one observation."""
        self.elpd[row], self.khat[row], self.error[row] = left_out
        self.how[row] = how


class LeftOut(NamedTuple):
    """Estimate for one observation.

    Attributes:
        elpd: log p(y_i | other observations).
        khat: The larger k-hat of the weights and of the weights times p(y_i | draw).
        error: Monte Carlo standard error of `elpd`.
    """

    elpd: float
    khat: float
    error: float


def log_mean(
    log_weights: np.ndarray, log_values: np.ndarray, efficiency: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log of weighted means, and its standard error by the delta method.

    Args:
        log_weights: Log weights, normalised, (S,) or (S, n).
        log_values: Log values, (S,) or (S, n).
        efficiency: Effective draws per draw.

    Returns:
        Both of shape () or (n,).

    References:
        Vehtari, Gelman and Gabry (2017), section 2.3; Owen (2013), equation 9.9.
    """
    log = np.asarray(logsumexp(log_weights + log_values, axis=0))
    # Weights times relative deviations, in a form that does not overflow.
    relative = np.exp(log_weights + log_values - log) - np.exp(log_weights)
    return log, np.sqrt(np.sum(np.square(relative), axis=0) / efficiency)
