"""Posterior of a long series at fixed hyperparameters, and its predictions.

The function is f(x) = phi(x)' w + u(x). Given w and y, the mean of the Markov process u is linear
in y - X w, so that f(x) = row @ w + shift + deviation, with a normal deviation independent of w.
All moments follow from the posterior of w, the row, the shift and the variance of the deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskern.forecast.history.basis import Basis
from bayeskern.forecast.history.basis_posterior import BasisPosterior
from bayeskern.forecast.history.filtered_statistics import History
from bayeskern.forecast.history.residual_filter import ResidualFilter, covariance_after
from bayeskern.forecast.model.kernels import SHORT_TERM
from bayeskern.gp.time_series.base import ConditionedProcess, Moments
from bayeskern.gp.time_series.predictive import LOG_2PI


@dataclass(frozen=True, eq=False)
class SeriesPosterior(ConditionedProcess):
    """Posterior of f given y at one choice of the hyperparameters.

    Attributes:
        basis: The functions phi.
        history: The data with the columns of the basis.
        weight_posterior: Posterior of w.
        lengthscale: Lengthscale of u.
        ratio: Variance of u in units of the noise variance.
        log_prior: Log prior density of the hyperparameters.
        noise: Noise variance.
    """

    basis: Basis
    history: History
    weight_posterior: BasisPosterior
    lengthscale: float
    ratio: float
    log_prior: float
    noise: float

    @cached_property
    def residual_filter(self) -> ResidualFilter:
        """Filter of u + e."""
        return self.history.residual(self.lengthscale, self.ratio)

    @property
    def log_density(self) -> float:
        return self.weight_posterior.log_marginal + self.log_prior

    # -- new values --------------------------------------------------------------------------------

    def moments(self, x_new: np.ndarray) -> Moments:
        rows, shift, variance = self._latent(x_new)
        variance = variance + self.weight_posterior.variance(rows)
        return rows @ self.weight_posterior.mean + shift, variance

    def joint(self, x_new: np.ndarray) -> Moments:
        rows, shift, _ = self._latent(x_new)
        half = self.weight_posterior.half(rows)
        covariance = half.T @ half + self._deviation_covariance(x_new)
        return rows @ self.weight_posterior.mean + shift, covariance

    def elements(self, x_new: np.ndarray, values: Sequence[np.ndarray]) -> Moments:
        # All effects are linear: `Basis.of` refuses others.
        rows, shift, _ = self._latent(x_new)
        m, columns = len(x_new), self.basis.effect_columns
        if self.basis.effects is not None:
            rows[:, columns] -= self.basis.effects.rows(x_new)
        rows = np.vstack([rows, np.eye(self.basis.size)[columns]])
        half = self.weight_posterior.half(rows)
        mean, covariance = rows @ self.weight_posterior.mean, half.T @ half
        mean[:m] += shift
        covariance[:m, :m] += self._deviation_covariance(x_new)
        return mean, covariance

    def _deviation_covariance(self, x_new: np.ndarray) -> np.ndarray:
        """Covariance of the deviations at x_new (M,), (M, M)."""
        if not self.history.is_future(x_new):
            return self.noise * self.residual_filter.covariance(x_new)
        gaps = x_new - self.history.x[-1]
        state_variance = self.weight_posterior.statistics.state_variance
        return self.noise * covariance_after(gaps, self.lengthscale, self.ratio, state_variance)

    def _latent(self, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (M, m), shifts (M,) and deviation variances (M,) of f at x_new (M,)."""
        if self.history.is_future(x_new):
            statistics = self.weight_posterior.statistics
            decay = np.exp(-(x_new - self.history.x[-1]) / self.lengthscale)
            state = np.outer(decay, statistics.state)
            variance = self.ratio + (statistics.state_variance - self.ratio) * np.square(decay)
        else:
            state, interpolation = self.history.smoothed(self.residual_filter, x_new)
            variance = interpolation.variance
        rows = self.basis.functions(x_new) - state[:, :-1]
        return rows, state[:, -1], self.noise * variance

    # -- observed values ---------------------------------------------------------------------------

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given all others: (n,) each.

        Rasmussen and Williams (2006), equations 5.10 to 5.12.
        """
        # K^-1 y and the diagonal of K^-1, with K the covariance of y.
        weighted, diagonal = np.empty((2, len(self.history.x)))
        precision_given_w = self.residual_filter.precision_diagonal / self.noise
        for rows, solved in self.history.solved_chunks(self.residual_filter):
            residual = solved[:, -1] - solved[:, :-1] @ self.weight_posterior.mean
            weighted[rows] = residual / self.noise
            explained = self.weight_posterior.variance(solved[:, :-1]) / np.square(self.noise)
            diagonal[rows] = precision_given_w[rows] - explained
        precision = np.maximum(diagonal, np.finfo(float).tiny)
        residual = weighted / precision
        density = 0.5 * (np.log(precision) - LOG_2PI - precision * np.square(residual))
        return self.history.columns[:, -1] - residual, 1.0 / precision, density

    # -- components --------------------------------------------------------------------------------

    def coefficients(self) -> Moments:
        columns = self.basis.effect_columns
        root = self.weight_posterior.root(np.eye(self.basis.size)[columns])
        return self.weight_posterior.mean[columns], np.square(root).sum(axis=0)

    def change(self, name: str, ends: np.ndarray) -> tuple[float, float]:
        if name == SHORT_TERM:
            state, _ = self.history.smoothed(self.residual_filter, ends)
            row, shift = np.diff(-state[:, :-1], axis=0), np.diff(state[:, -1])
            contrast = np.array([-1.0, 1.0])
            deviation = self.noise * contrast @ self.residual_filter.covariance(ends) @ contrast
        else:
            columns = self.basis.of_component(name)
            row, shift, deviation = np.zeros((1, self.basis.size)), 0.0, 0.0
            row[:, columns] = np.diff(self.basis.functions(ends), axis=0)[:, columns]
        mean = row @ self.weight_posterior.mean + shift
        variance = self.weight_posterior.variance(row) + max(deviation, 0.0)
        return float(mean[0]), float(variance[0])

    def components(
        self, x_new: np.ndarray, level: str, merged: Sequence[str] = ()
    ) -> dict[str, Moments]:
        if merged:
            raise NotImplementedError("components of a long series are not merged.")
        functions = self.basis.functions(x_new)
        averages = self.history.averages[:-1]
        seasons = [name for name in self.basis.smooth_components if name != level]
        effects = () if self.basis.effects is None else self.basis.effects.names
        return {
            level: self._level(functions, level),
            **{name: self._part(functions, name, averages) for name in seasons},
            SHORT_TERM: self._short_term(x_new),
            **{name: self._part(functions, name, np.zeros_like(averages)) for name in effects},
        }

    def _part(self, functions: np.ndarray, name: str, origin: np.ndarray) -> Moments:
        """A component minus its value at basis functions `origin` (m,)."""
        columns = self.basis.of_component(name)
        rows = functions[:, columns] - origin[columns]
        half = rows @ self.weight_posterior.root(np.eye(self.basis.size)[columns]).T
        return rows @ self.weight_posterior.mean[columns], np.square(half).sum(axis=1)

    def _level(self, functions: np.ndarray, level: str) -> Moments:
        """The component `level` plus the averages of all other components except effects."""
        columns, average = self.basis.of_component(level), self._average
        # The averages of the other components act as one more function, constant in time.
        other_averages = -average[:-2]
        for name in self.basis.smooth_components:
            if name != level:
                other_columns = self.basis.of_component(name)
                other_averages[other_columns] += self.history.averages[other_columns]
        root = self.weight_posterior.root(
            np.vstack([np.eye(self.basis.size)[columns], other_averages])
        )
        rows = functions[:, columns]
        mean = (
            rows @ self.weight_posterior.mean[columns] + other_averages @ self.weight_posterior.mean
        )
        variance = np.square(rows @ root[:, :-1].T + root[:, -1]).sum(axis=1)
        return mean + average[-2], variance + self.noise * self._average_variance

    def _short_term(self, x_new: np.ndarray) -> Moments:
        """u at x_new (M,) minus its average over the data."""
        residual, average = self.residual_filter, self._average
        state, interpolation = self.history.smoothed(residual, x_new, residual.averages)
        state -= average
        mean = state[:, -2] - state[:, :-2] @ self.weight_posterior.mean
        # Covariance of u with its average given y and w, over q.
        covariance = interpolation.averages - (state[:, -1] + average[-1])
        variance = interpolation.variance + self._average_variance - 2.0 * self.ratio * covariance
        variance = self.noise * np.maximum(variance, 0.0)
        return mean, self.weight_posterior.variance(state[:, :-2]) + variance

    @cached_property
    def _average(self) -> np.ndarray:
        """Averages of smoothed means of u, for columns of X, y and K 1 / n: (m + 2,)."""
        return self.history.smoothed_average(self.residual_filter)

    @property
    def _average_variance(self) -> float:
        """Variance of the average of u given y and w, in units of the noise variance."""
        variance = self.residual_filter.averages.mean() - self._average[-1]
        return max(self.ratio * float(variance), 0.0)
