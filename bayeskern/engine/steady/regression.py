"""Regression that corrects a steady filter for the first state, effects and missing values.

A first state with covariance P + D, D not necessarily positive, is the steady first state plus an
offset b ~ N(0, D). Given the offset, the coefficients beta of effects and the missing values m, the
innovations are those of the steady filter:

    v = v_y - C theta,    theta = (b, beta, m),    v ~ N(0, F I).

Hence log p(y) and the posterior of theta are those of a linear regression: Rosenberg (1973),
"Random coefficient models"; de Jong (1991), "The diffuse Kalman filter". Missing values have a flat
prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from bayeskern.core.constants import LOG_2PI
from bayeskern.engine.steady.filter import SteadyFilter
from bayeskern.engine.steady.grid import GridData


class SystemSlopes(NamedTuple):
    """Derivatives of the log density.

    Attributes:
        transition: With respect to T, (s, s).
        state_noise: With respect to Q, (s, s).
        noise: With respect to r.
        start: With respect to the covariance of the first state, (s, s).
        variances: With respect to the prior variances of beta, (k,).
    """

    transition: np.ndarray
    state_noise: np.ndarray
    noise: float
    start: np.ndarray
    variances: np.ndarray


def solve_normal(prior: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Posterior of coefficients ~ N(0, prior), given their Gram matrix.

    Args:
        prior: Symmetric, not necessarily positive, (p, p).
        gram: C' C / F, (p, p).

    Returns:
        (I + prior gram)^-1 (p, p), the posterior covariance (p, p), and log det(I + prior gram),
        NaN if the determinant is negative by rounding errors.
    """
    matrix = np.eye(len(gram)) + prior @ gram
    inverse = np.linalg.inv(matrix)
    sign, log_det = np.linalg.slogdet(matrix)
    covariance = inverse @ prior
    return inverse, 0.5 * (covariance + covariance.T), float(log_det) if sign > 0 else np.nan


@dataclass(frozen=True, eq=False)
class Regression:
    """Posterior of theta = (b, beta, m).

    Attributes:
        filter: The steady filter.
        data: Values and columns.
        variances: Prior variances of beta, (k,).
    """

    filter: SteadyFilter
    data: GridData
    variances: np.ndarray

    # Columns for the trace in the gradient; with more unknowns it is estimated by as many random
    # signs: Hutchinson (1990). The estimate steers the search for a mode; log densities are exact.
    trace_columns: ClassVar[int] = 8

    @property
    def states(self) -> int:
        """Number of states, s."""
        return len(self.filter.gain)

    @cached_property
    def innovations(self) -> np.ndarray:
        """Innovations of values and columns, (N, 1 + k)."""
        return self.filter.forward(self.data.filled)[0]

    @cached_property
    def _backward(self) -> tuple[np.ndarray, np.ndarray]:
        """-lambda_0 (s, 1 + k) and K0^-1 of values and columns (N, 1 + k)."""
        # K0, the covariance of y with theta = 0, has the root A^-1 with innovations v = A y.
        first, read = self.filter.backward(self.innovations, self.filter.gain[None])
        return -first, self.innovations / self.filter.variance + read[1:, 0]

    def after(self, places: np.ndarray) -> np.ndarray:
        """(l^(N - t - 1) V^-1 K)', responses of the last state to values at places t: (q, s)."""
        powers = self.filter.powers(self.data.size - 1 - places)
        return powers * self.filter.to_coordinates(self.filter.gain)

    def precision(self, places: np.ndarray) -> np.ndarray:
        """Rows of K0^-1 at the missing places, at the columns `places` (q,): (g, q)."""
        missing = self.data.missing
        if not len(missing):
            return np.zeros((0, len(places)))
        lags = np.abs(missing[:, None] - places)
        ends = self.after(missing) @ self.filter.eigen_gram @ self.after(places).T
        return self._precision_by_lag[lags] - ends.real

    @cached_property
    def _precision_by_lag(self) -> np.ndarray:
        """K0^-1 far from the last value, by lag 0, ..., N - 1."""
        steady, N = self.filter, self.data.size
        k, roots = steady.to_coordinates(steady.gain), steady.eigenvalues
        # -Z L^(t - 1) K / F + sum_i Z L^(i - 1) K Z L^(i + t - 1) K / F for lags t > 0.
        weights = (k @ steady.eigen_gram) * roots
        weights -= steady.readout(steady.system.observation) / steady.variance
        by_lag = np.append(0.0, steady.respond(weights * k, N - 1))
        by_lag[0] = 1.0 / steady.variance + (k @ steady.eigen_gram @ k).real
        return by_lag

    @cached_property
    def _of_missing(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Blocks of the normal equations: (g, g), (s + k, g), (g,)."""
        steady, places = self.filter, self.data.missing
        _, weighted = self._backward
        left = self.data.size - 1 - places
        k = np.broadcast_to(steady.to_coordinates(steady.gain), (len(places), self.states))
        # L'^t (Z' / F - L' G K), in the coordinates of V.
        rows = steady.readout(steady.system.observation) / steady.variance
        rows = rows - steady.gram_times(k, left) * steady.eigenvalues
        of_start = -steady.from_coordinates(steady.powers(places) * rows)
        cross = np.vstack([of_start.T, -weighted[places, 1:].T])
        return self.precision(places), cross, -weighted[places, 0]

    @cached_property
    def _normal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Gram and right-hand side of (b, beta), the missing values eliminated.

        Returns:
            Gram (s + k, s + k), right-hand side (s + k,), the solved block of the missing values
            (g, s + k + 1), and the log determinant of their precision.
        """
        s, v, F = self.states, self.innovations, self.filter.variance
        first, _ = self._backward
        gram = np.empty((s + v.shape[1] - 1,) * 2)
        gram[:s, :s] = self.filter.gram(self.data.size)
        gram[:s, s:] = first[:, 1:]
        gram[s:, :s] = first[:, 1:].T
        gram[s:, s:] = v[:, 1:].T @ v[:, 1:] / F
        right = np.append(first[:, 0], v[:, 1:].T @ v[:, 0] / F)
        if not len(self.data.missing):
            return gram, right, np.zeros((0, len(right) + 1)), 0.0
        of_missing, cross, right_of_missing = self._of_missing
        factor = np.linalg.cholesky(of_missing)
        solved = np.linalg.solve(of_missing, np.column_stack([cross.T, right_of_missing]))
        log_det = 2.0 * np.log(np.diag(factor)).sum()
        return gram - cross @ solved[:, :-1], right - cross @ solved[:, -1], solved, log_det

    @cached_property
    def prior(self) -> np.ndarray:
        """Covariance of (b, beta), (s + k, s + k)."""
        s, k = self.states, len(self.variances)
        prior = np.zeros((s + k, s + k))
        prior[:s, :s] = self.filter.system.start - self.filter.covariance
        prior[np.arange(s, s + k), np.arange(s, s + k)] = self.variances
        return prior

    @cached_property
    def _solution(self) -> tuple[np.ndarray, np.ndarray, float]:
        """`solve_normal` for (b, beta)."""
        return solve_normal(self.prior, self._normal[0])

    @property
    def log_density(self) -> float:
        """log p(y)."""
        _, right, solved, log_det_of_missing = self._normal
        _, covariance, log_det = self._solution
        g, F, N = len(self.data.missing), self.filter.variance, self.data.size
        squares = np.square(self.innovations[:, 0]).sum() / F
        if g:
            squares -= self._of_missing[2] @ solved[:, -1]
        value = squares - right @ covariance @ right + N * np.log(F) + (N - g) * LOG_2PI
        return float(-0.5 * (value + log_det + log_det_of_missing))

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean of theta, (s + k + g,)."""
        _, right, solved, _ = self._normal
        known = self._solution[1] @ right
        return np.append(known, solved[:, -1] - solved[:, :-1] @ known)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Posterior covariance of theta, (s + k + g, s + k + g)."""
        solved, known = self._normal[2][:, :-1], self._solution[1]
        if not len(solved):
            return known
        cross = -solved @ known
        of_missing = np.linalg.inv(self._of_missing[0]) - cross @ solved.T
        return np.block([[known, cross.T], [cross, of_missing]])

    @cached_property
    def completed(self) -> np.ndarray:
        """Values without effects, missing ones at their means: (N, 1)."""
        s, k = self.states, len(self.variances)
        y = self.data.filled[:, 0] - self.data.columns @ self.mean[s : s + k]
        y[self.data.missing] += self.mean[s + k :]
        return y[:, None]

    # -- leave-one-out -----------------------------------------------------------------------------

    @cached_property
    def weighted_residuals(self) -> np.ndarray:
        """K^-1 y, with K the covariance of y given the hyperparameters: (N,), 0 where missing."""
        start = self.mean[: self.states, None]
        innovations, _, _ = self.filter.forward(self.completed, start)
        _, read = self.filter.backward(innovations, self.filter.gain[None])
        return innovations[:, 0] / self.filter.variance + read[1:, 0, 0]

    def precision_diagonal(self, places: np.ndarray) -> np.ndarray:
        """Diagonal of K^-1 at places (q,): (q,)."""
        steady, F = self.filter, self.filter.variance
        k = steady.to_coordinates(steady.gain)
        left = self.data.size - 1 - places
        gained = steady.gram_times(np.broadcast_to(k, (len(places), self.states)), left)
        # K0^-1 C: Z L^t / F - K' G L^(t + 1) for the first state.
        of_start = steady.readout(steady.system.observation) / F - gained * steady.eigenvalues
        of_start = steady.from_coordinates(of_start * steady.powers(places))
        row = np.hstack([of_start, self._backward[1][places, 1:], -self.precision(places).T])
        return 1.0 / F + (gained @ k).real - np.sum((row @ self.covariance) * row, axis=1)

    # -- gradient ----------------------------------------------------------------------------------

    def slopes(self) -> SystemSlopes:
        """Derivatives of the log density with respect to the system."""
        steady, s, N = self.filter, self.states, self.data.size
        inverse, known, _ = self._solution
        gram, right, *_ = self._normal
        values, starts, rest = self._residual_series()
        squares = steady.slopes(values, starts)
        # The trace over `rest`, the covariance of b given all other unknowns, has a closed form.
        of_loop = -squares.loop - steady.gram_slope(rest, N)
        of_gain = -squares.gain - of_loop @ steady.system.observation
        trace = 0.5 * float(np.sum(rest * steady.gram(N)))
        of_variance = (squares.value + trace - 0.5 * N) / steady.variance
        residual = right - gram @ (known @ right)
        of_prior = 0.5 * (np.outer(residual, residual) - gram @ inverse)
        of_start = 0.5 * (of_prior + of_prior.T)[:s, :s]
        of_T, of_Q, of_r = steady.slopes_of_system(of_gain, of_variance, -of_start)
        return SystemSlopes(of_loop + of_T, of_Q, of_r, of_start, np.diag(of_prior)[s:])

    def _residual_series(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Series whose squared innovations have the gradient of the log density.

        Returns:
            The completed values, and -C times columns of a root of the posterior covariance of
            (beta, m), (N, c); their first states (s, c); and the covariance of b given all others.
        """
        s, k = self.states, len(self.variances)
        covariance = self.covariance
        if len(covariance) == s:
            return self.completed, self.mean[:s, None], covariance
        others = covariance[s:, s:]
        to_start = np.linalg.solve(others, covariance[s:, :s]).T
        root = np.linalg.cholesky(others)
        if len(root) > self.trace_columns:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(root), self.trace_columns))
            root = root @ signs / np.sqrt(self.trace_columns)
        series = -self.data.columns @ root[:k]
        series[self.data.missing] += root[k:]
        starts = np.column_stack([self.mean[:s], to_start @ root])
        return (
            np.hstack([self.completed, series]),
            starts,
            covariance[:s, :s] - to_start @ covariance[s:, :s],
        )
