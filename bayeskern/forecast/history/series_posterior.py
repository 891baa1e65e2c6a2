"""Posterior of a long series at fixed hyperparameters: new values, components, leave-one-out.

The function is f(x) = phi(x)' w + u(x). Given the coefficients w, the Markov process u at other
times has a mean linear in y - X w, so that f(x) = row @ w + shift + a normal deviation. All moments
below follow from the posterior of w, the row, the shift and the variance of the deviation.
"""

from __future__ import annotations

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
        history: The data with their columns.
        weights: Posterior of w.
        lengthscale: Lengthscale of u.
        ratio: Variance of u in units of the noise variance.
        log_prior: Log prior density of the hyperparameters.
        noise: Noise variance.
    """

    basis: Basis
    history: History
    weights: BasisPosterior
    lengthscale: float
    ratio: float
    log_prior: float
    noise: float

    @cached_property
    def residual(self) -> ResidualFilter:
        """The filter of u + e."""
        return self.history.residual(self.lengthscale, self.ratio)

    @property
    def log_density(self) -> float:
        return self.weights.log_marginal + self.log_prior

    # -- new values --------------------------------------------------------------------------------

    def moments(self, x_new: np.ndarray) -> Moments:
        rows, shift, variance = self._latent(x_new)
        return rows @ self.weights.mean + shift, self.weights.variance(rows) + variance

    def joint(self, x_new: np.ndarray) -> Moments:
        rows, shift, _ = self._latent(x_new)
        half = self.weights.half(rows)
        if self.history.is_future(x_new):
            gaps, known = x_new - self.history.x[-1], self.weights.statistics.state_variance
            own = covariance_after(gaps, self.lengthscale, self.ratio, known)
        else:
            own = self.residual.covariance(x_new)
        return rows @ self.weights.mean + shift, half.T @ half + self.noise * own

    def _latent(self, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (M, m), shift (M,) and variance (M,) of the deviation of f at x_new (M,)."""
        if self.history.is_future(x_new):
            statistics = self.weights.statistics
            decay = np.exp(-(x_new - self.history.x[-1]) / self.lengthscale)
            state = np.outer(decay, statistics.state)
            variance = self.ratio + (statistics.state_variance - self.ratio) * np.square(decay)
        else:
            state, between = self.history.smoothed(self.residual, x_new)
            variance = between.variance
        rows = self.basis.functions(x_new) - state[:, :-1]
        return rows, state[:, -1], self.noise * variance

    # -- observed values ---------------------------------------------------------------------------

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rasmussen and Williams (2006), equations 5.10 to 5.12."""
        # K^-1 y and the diagonal of K^-1, with K the covariance of y.
        weighted, diagonal = np.empty((2, len(self.history.x)))
        own = self.residual.precision_diagonal / self.noise
        for rows, solved in self.history.solved_chunks(self.residual):
            weighted[rows] = (solved[:, -1] - solved[:, :-1] @ self.weights.mean) / self.noise
            known = self.weights.variance(solved[:, :-1]) / np.square(self.noise)
            diagonal[rows] = own[rows] - known
        precision = np.maximum(diagonal, np.finfo(float).tiny)
        residual = weighted / precision
        density = 0.5 * (np.log(precision) - LOG_2PI - precision * np.square(residual))
        return self.history.columns[:, -1] - residual, 1.0 / precision, density

    # -- components --------------------------------------------------------------------------------

    def coefficients(self) -> Moments:
        columns = self.basis.effect_columns
        root = self.weights.root(np.eye(self.basis.size)[columns])
        return self.weights.mean[columns], np.square(root).sum(axis=0)

    def change(self, name: str, ends: np.ndarray) -> tuple[float, float]:
        if name == SHORT_TERM:
            state, _ = self.history.smoothed(self.residual, ends)
            row, shift = np.diff(-state[:, :-1], axis=0), np.diff(state[:, -1])
            contrast = np.array([-1.0, 1.0])
            own = self.noise * contrast @ self.residual.covariance(ends) @ contrast
        else:
            columns = self.basis.of_component(name)
            row, shift, own = np.zeros((1, self.basis.size)), 0.0, 0.0
            row[:, columns] = np.diff(self.basis.functions(ends), axis=0)[:, columns]
        mean = row @ self.weights.mean + shift
        variance = self.weights.variance(row) + max(own, 0.0)
        return float(mean[0]), float(variance[0])

    def components(self, x_new: np.ndarray, level: str) -> dict[str, Moments]:
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
        """A component minus its value where the functions are those of the origin (m,)."""
        columns = self.basis.of_component(name)
        rows = functions[:, columns] - origin[columns]
        half = rows @ self.weights.root(np.eye(self.basis.size)[columns]).T
        return rows @ self.weights.mean[columns], np.square(half).sum(axis=1)

    def _level(self, functions: np.ndarray, level: str) -> Moments:
        """The component of the level plus the averages of all other components except effects."""
        columns, average = self.basis.of_component(level), self._average
        # The averages of the other components are one more function, constant in time.
        others = -average[:-2]
        for name in self.basis.smooth_components:
            if name != level:
                own = self.basis.of_component(name)
                others[own] += self.history.averages[own]
        root = self.weights.root(np.vstack([np.eye(self.basis.size)[columns], others]))
        rows = functions[:, columns]
        mean = rows @ self.weights.mean[columns] + others @ self.weights.mean
        variance = np.square(rows @ root[:, :-1].T + root[:, -1]).sum(axis=1)
        return mean + average[-2], variance + self.noise * self._average_variance

    def _short_term(self, x_new: np.ndarray) -> Moments:
        """u at x_new (M,) minus its average over the data."""
        residual, average = self.residual, self._average
        state, between = self.history.smoothed(residual, x_new, residual.averages)
        state -= average
        mean = state[:, -2] - state[:, :-2] @ self.weights.mean
        covariance = between.averages - (state[:, -1] + average[-1])
        own = between.variance + self._average_variance - 2.0 * self.ratio * covariance
        return mean, self.weights.variance(state[:, :-2]) + self.noise * np.maximum(own, 0.0)

    @cached_property
    def _average(self) -> np.ndarray:
        """Average of u if each column, and then `residual.averages`, were the data: (m + 2,)."""
        return self.history.smoothed_average(self.residual)

    @property
    def _average_variance(self) -> float:
        """Variance of the average of u given y and w, in units of the noise variance."""
        own = self.residual.averages.mean() - self._average[-1]
        return max(self.ratio * float(own), 0.0)
