"""Joint draws of several forecasts, by a Gaussian copula of their distributions.

Draws of each series at each step are put in the rank order of correlated normal errors (Clark et
al., 2004, "The Schaake shuffle"; Wilks, 2015, "Multivariate ensemble model output statistics using
empirical copulas"), so that each forecast keeps its own distribution. Correlations between series
come from the errors of past forecasts at each step ahead, and correlations between steps from the
joint draws of each forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bayeskern.core.formatting import counted
from bayeskern.forecast.combine.stacking import Combination
from bayeskern.forecast.combine.width import MAX_RESIDUAL
from bayeskern.forecast.fit.rolling import MIN_KNOWN_VALUES, Origin
from bayeskern.forecast.reconcile.weights import shrunk_correlation
from bayeskern.forecast.result import Forecast
from bayeskern.prediction.quantile_average import QuantileAverage

# Weight of the correlation at the previous step in the estimate at the next step, as a number of
# independent errors.
PREVIOUS_STEP_WEIGHT = 20.0


@dataclass(frozen=True, eq=False)
class Coupling:
    """Gaussian copula of n forecasts of `horizon` steps.

    Attributes:
        one_step: Shrunk correlation of the one-step errors of different series, (n, n).
        by_step: Correlation of the errors at each step, (horizon, n, n).
        roots: Cholesky factor of the correlation of the errors of each series between steps, with
            rows of norm 1, (n, horizon, horizon).
    """

    one_step: np.ndarray
    by_step: np.ndarray
    roots: np.ndarray

    @classmethod
    def from_errors(cls, errors: np.ndarray, roots: np.ndarray) -> Coupling:
        """Coupling with the correlations of past errors.

        Multi-step errors of series with common trends are more correlated than their one-step
        errors. Errors s steps ahead from T origins count as T / s independent errors; they update
        the correlation at s - 1 steps.

        Args:
            errors: Errors from past origins, (T, horizon, n), NaN where unknown.
            roots: The attribute `roots`.
        """
        known = [rows[np.all(np.isfinite(rows), axis=1)] for rows in np.moveaxis(errors, 1, 0)]
        correlation = shrunk_correlation(known[0])
        one_step, by_step = correlation, [correlation]
        for step, rows in enumerate(known[1:], 2):
            count = len(rows) / step
            if len(rows) > 1 and count >= 1.0:
                estimate = correlation_of(rows)
                weight = count / (count + PREVIOUS_STEP_WEIGHT)
                correlation = weight * estimate + (1.0 - weight) * correlation
            by_step.append(correlation)
        return cls(one_step, np.array(by_step), roots)

    def normal_paths(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of the normal errors, (count, horizon, n).

        At each step, the errors have the correlation `by_step`. Between steps, each series has the
        correlation of its root, exactly if all roots and all `by_step` are equal, otherwise mixed
        with those of correlated series.
        """
        n, horizon, _ = self.roots.shape
        shocks = rng.standard_normal((count, horizon, n))
        paths = np.einsum("dkn,ntk->dtn", shocks, self.roots, optimize=True)
        for step, correlation in enumerate(self.by_step):
            paths[:, step] = paths[:, step] @ square_root(correlation)
        return paths


def correlation_of(errors: np.ndarray) -> np.ndarray:
    """Correlation matrix of errors (T, n); a series without variance is uncorrelated."""
    varies = np.ptp(errors, axis=0) > 0.0
    correlation = np.eye(errors.shape[1])
    if varies.sum() > 1:
        correlation[np.ix_(varies, varies)] = np.corrcoef(errors[:, varies].T)
    return correlation


def square_root(correlation: np.ndarray) -> np.ndarray:
    """Symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(correlation)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def in_rank_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Values (D, ...) rearranged along the first axis to have the ranks of `order`."""
    ranks = np.argsort(np.argsort(order, axis=0), axis=0)
    return np.take_along_axis(np.sort(values, axis=0), ranks, axis=0)


def root_of_paths(paths: np.ndarray) -> np.ndarray:
    """Cholesky factor of the correlation of the normal scores of paths (D, horizon)."""
    from scipy.stats import rankdata  # slow to import

    # Ties share their rank.
    ranks = rankdata(paths, axis=0)
    scores = np.asarray(ndtri(ranks / (len(paths) + 1.0)))
    correlation = correlation_of(scores)
    # Consecutive steps of a smooth path can be equal up to rounding.
    root = np.linalg.cholesky(correlation + 1e-8 * np.eye(len(correlation)))
    return root / np.linalg.norm(root, axis=1, keepdims=True)


def require_draws(draws: int, horizon: int) -> None:
    """Raise ValueError if draws are too few for the correlations between steps."""
    if draws <= 2 * horizon:
        raise ValueError(
            f"draws must be more than twice the horizon of {counted(horizon, 'step')}; got {draws}."
        )


# Largest number of past origins, and the same with a likelihood, which needs an inner optimisation
# for each origin.
MAX_COUPLING_ORIGINS, MAX_COUPLING_ORIGINS_WITH_LIKELIHOOD = 200, 60


def past_errors(forecasts: Sequence[Forecast]) -> np.ndarray:
    """Standardised errors of forecasts from past origins, (origins, horizon, n).

    The latest origin comes first. Errors are limited to five standard deviations, NaN where a value
    or an origin is missing, and 0 for a constant series. The hyperparameters are those of the whole
    series.
    """
    shape = MAX_COUPLING_ORIGINS, forecasts[0].horizon, len(forecasts)
    errors = np.full(shape, np.nan)
    for j, f in enumerate(forecasts):
        if f.combination is None:
            errors[:, :, j] = 0.0
            continue
        max_origins = MAX_COUPLING_ORIGINS
        if f.choices.likelihood is not None:
            max_origins = MAX_COUPLING_ORIGINS_WITH_LIKELIHOOD
        observed = f.series.calendar.steps()[f.series.observed]
        first = max(MIN_KNOWN_VALUES, f.season_in_steps + 2, len(observed) - max_origins)
        origins = []
        for count in range(first, len(observed)):
            steps = observed[count : count + f.horizon] - observed[count - 1] - 1
            if np.any(steps < f.horizon):
                origins.append(Origin(count, steps[steps < f.horizon]))
        if not origins:
            continue
        past = f.combination.from_origins(origins)
        ages = np.concatenate(
            [np.full(len(o.steps), observed[-1] - observed[o.count - 1] - 1) for o in origins]
        )
        recent = ages < MAX_COUPLING_ORIGINS
        scores = np.clip(normal_errors(past), -MAX_RESIDUAL, MAX_RESIDUAL)
        errors[ages[recent], past.ahead.steps[recent], j] = scores[recent]
    return errors


def normal_errors(past: Combination) -> np.ndarray:
    """Errors of past forecasts as normal scores, (N,); mid-ranks for counts."""
    if isinstance(past.past, QuantileAverage):
        return past.residuals
    assert past.past is not None
    y = past.parts[0].fitted.y[past.ahead.rows]
    return np.asarray(ndtri(np.clip(past.past.middle(y), 1e-9, 1.0 - 1e-9)))
