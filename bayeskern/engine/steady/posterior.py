"""Predictions of a structural model at fixed hyperparameters, by a steady filter.

A function of the state is C a_t plus effects. Given theta of `regression`, its posterior mean is
C (a_t - P lambda_t), and the covariance of two values at t <= u is C P L'^(u - t) (I - G_u P) C',
with G_u the information of the observations from place u on: Durbin and Koopman (2012), "Time
series analysis by state space methods", section 4.7. The uncertainty of theta is added. After the
last value, place N, C is multiplied by powers of T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from bayeskern.core.constants import LOG_2PI
from bayeskern.engine.base import ConditionedProcess, Moments
from bayeskern.engine.steady.grid import GridColumns, TimeGrid
from bayeskern.engine.steady.regression import Regression, solve_normal


class StateFunction(NamedTuple):
    """A linear function of the state and of effects.

    Attributes:
        state: C, (s,).
        columns: Mask of the columns, (c,).
    """

    state: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True, eq=False)
class StateReading:
    """A function at q times, given theta.

    Attributes:
        places: Places of the times, at most N, (q,).
        ahead: Steps after place N, (q,).
        states: C, times T^h if h steps ahead, (q, s).
        mean: Posterior means, (q,).
        rows: Derivatives of the means in theta, (q, s + c + g).
        disturbance: C T^h for h = 0, 1, ..., (max(ahead) + 1, s).
    """

    places: np.ndarray
    ahead: np.ndarray
    states: np.ndarray
    mean: np.ndarray
    rows: np.ndarray
    disturbance: np.ndarray


@dataclass(frozen=True, eq=False)
class SteadyPosterior(ConditionedProcess):
    """Posterior of a structural model given values on a grid.

    Attributes:
        regression: The filter, the values and the posterior of theta.
        state_functions: Component name -> its C, (s,); the first has the lines of the trend.
        columns: Lines and effects.
        grid: The grid of the values.
        log_prior: Log prior density of the hyperparameters.
    """

    regression: Regression
    state_functions: Mapping[str, np.ndarray]
    columns: GridColumns
    grid: TimeGrid
    log_prior: float

    # Places, or missing values, that are handled together, so that memory stays bounded.
    chunk: ClassVar[int] = 512

    @property
    def noise(self) -> float:
        return self.regression.filter.system.noise

    @property
    def log_density(self) -> float:
        return self.regression.log_density + self.log_prior

    @cached_property
    def functions(self) -> dict[str, StateFunction]:
        """Component name -> its function of states and effects."""
        no_state = np.zeros(self.regression.states)
        level, *_ = self.state_functions
        none = np.zeros(len(self.columns.are_lines), bool)
        functions = {
            name: StateFunction(state, self.columns.are_lines if name == level else none)
            for name, state in self.state_functions.items()
        }
        for name in dict.fromkeys(self.columns.components):
            functions[name] = StateFunction(no_state, self.columns.of(name))
        return functions

    @property
    def _whole(self) -> StateFunction:
        """f: all components and effects."""
        Z = self.regression.filter.system.observation
        return StateFunction(Z, np.ones(len(self.columns.are_lines), bool))

    # -- linear functions of the state -------------------------------------------------------------

    def _states_ahead(self, state: np.ndarray, count: int) -> np.ndarray:
        """C T^h for h = 0, ..., count: (count + 1, s)."""
        rows = np.empty((count + 1, len(state)))
        rows[0] = state
        for h in range(count):
            rows[h + 1] = rows[h] @ self.regression.filter.system.transition
        return rows

    def _gained(self, states_ahead: np.ndarray) -> np.ndarray:
        """Variance due to disturbances after place N, of values h steps after it: (m,).

        states_ahead: C T^h for h = 0, ..., m - 1, (m, s).
        """
        weighted = states_ahead @ self.regression.filter.system.state_noise
        return np.append(0.0, np.cumsum(np.sum(weighted * states_ahead, axis=1))[:-1])

    def _gained_jointly(self, states_ahead: np.ndarray) -> np.ndarray:
        """Covariance due to disturbances after place N: (m, m). Arguments as in `_gained`."""
        products = states_ahead @ self.regression.filter.system.state_noise @ states_ahead.T
        covariance, m = np.zeros_like(products), len(products)
        # Sums along the diagonals, which are lags.
        for h in range(1, m):
            covariance[h, 1:] = covariance[h - 1, :-1] + products[h - 1, :-1]
        return covariance

    def _core(self, reading: StateReading) -> tuple[np.ndarray, np.ndarray]:
        """C P V^-T and C (I - P G) V at the places of a reading: (q, s) each."""
        steady = self.regression.filter
        of_covariance = steady.adjoint_readout(reading.states @ steady.covariance)
        left = self.regression.data.size - reading.places
        gained = steady.gram_times(of_covariance, left)
        return of_covariance, steady.readout(reading.states) - gained

    def _read(self, function: StateFunction, x: np.ndarray) -> StateReading:
        """A function at times x (q,)."""
        regression, steady = self.regression, self.regression.filter
        data, s, c = regression.data, regression.states, len(function.columns)
        theta, missing, N = regression.mean, data.missing, data.size
        index = self.grid.places(x)
        places, ahead = np.minimum(index, N), np.maximum(index - N, 0)
        states_ahead = self._states_ahead(function.state, int(ahead.max()))
        states = states_ahead[ahead]
        past = np.flatnonzero(index < N)
        smoothed = np.stack([function.state, function.state @ steady.covariance])

        def responses(series: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
            """C (a_t - P lambda_t) of series (N, m) at the places: (q, m)."""
            rows = smoothed if len(past) else smoothed[:0]
            innovations, predicted, last = steady.forward(series, start, rows[:1])
            values = states @ last
            if len(past):
                _, slopes = steady.backward(innovations, rows[1:])
                values[past] = (predicted - slopes)[places[past], 0]
            return values

        columns = self.columns.at(x) * function.columns
        mean = responses(regression.completed, theta[:s, None])[:, 0]
        mean = mean + columns @ theta[s : s + c]
        rows = np.zeros((len(x), len(theta)))
        rows[:, s : s + c] = columns - responses(data.columns)
        rows[:, s + c :] = (steady.readout(states) @ regression.after(missing).T).real
        for start in range(0, len(missing) if len(past) else 0, self.chunk):
            chunk = np.arange(start, min(start + self.chunk, len(missing)))
            impulses = np.zeros((N, len(chunk)))
            impulses[missing[chunk], chunk - start] = 1.0
            rows[:, s + c + chunk] = responses(impulses)
        reading = StateReading(places, ahead, states, mean, rows, states_ahead)
        _, core = self._core(reading)
        rows[:, :s] = steady.from_coordinates(core * steady.powers(places))
        return reading

    def _moments(self, function: StateFunction, x: np.ndarray) -> Moments:
        """Means and variances of a function at times x (q,): (q,) each."""
        if not len(x):
            return np.zeros(0), np.zeros(0)
        reading = self._read(function, x)
        mean, variance = self._given_theta(reading)
        variance += np.sum((reading.rows @ self.regression.covariance) * reading.rows, axis=1)
        return mean, np.maximum(variance, 0.0)

    def _given_theta(self, reading: StateReading) -> Moments:
        """Means and variances of a reading given theta, (q,) each."""
        of_covariance, core = self._core(reading)
        variance = np.real(np.sum(of_covariance * core, axis=1))
        return reading.mean, variance + self._gained(reading.disturbance)[reading.ahead]

    def _joint(self, function: StateFunction, x: np.ndarray) -> tuple[StateReading, np.ndarray]:
        """A function at times x (q,), and its covariance given theta, (q, q)."""
        reading, steady = self._read(function, x), self.regression.filter
        of_covariance, core = self._core(reading)
        places, ahead = reading.places, reading.ahead
        covariance = np.empty((len(x), len(x)))
        for place in np.unique(places):
            here, earlier = np.flatnonzero(places == place), np.flatnonzero(places <= place)
            powers = steady.powers(place - places[earlier])
            columns = np.real((of_covariance[earlier] * powers) @ core[here].T)
            covariance[np.ix_(earlier, here)] = columns
            covariance[np.ix_(here, earlier)] = columns.T
        gained = self._gained_jointly(reading.disturbance)
        return reading, covariance + gained[np.ix_(ahead, ahead)]

    # -- new values --------------------------------------------------------------------------------

    def moments(self, x_new: np.ndarray) -> Moments:
        return self._moments(self._whole, x_new)

    def joint(self, x_new: np.ndarray) -> Moments:
        if not len(x_new):
            return np.zeros(0), np.zeros((0, 0))
        reading, covariance = self._joint(self._whole, x_new)
        rows = reading.rows
        return reading.mean, covariance + rows @ self.regression.covariance @ rows.T

    def elements(self, x_new: np.ndarray, values: Sequence[np.ndarray]) -> Moments:
        # All effects are linear: `SteadyLogMarginal` takes no others.
        are_effects = ~self.columns.are_lines
        function = self._whole._replace(columns=self.columns.are_lines)
        reading, covariance = self._joint(function, x_new)
        m, picked = len(x_new), self.regression.states + np.flatnonzero(are_effects)
        rows = np.vstack([reading.rows, np.eye(reading.rows.shape[1])[picked]])
        total = rows @ self.regression.covariance @ rows.T
        total[:m, :m] += covariance
        return np.append(reading.mean, self.regression.mean[picked]), total

    def rolling(self, ends: np.ndarray, times: Sequence[np.ndarray]) -> list[Moments]:
        """Moments of values at `times` given the values before each of e places.

        Missing values are replaced by their means given all values.

        Args:
            ends: The places, increasing, from 1 to N, (e,).
            times: Times at or after each place, (q_i,) each.
        """
        regression, steady, data = self.regression, self.regression.filter, self.regression.data
        s, c = regression.states, data.columns.shape[1]
        series = data.filled.copy()
        series[data.missing, 0] += regression.mean[s + c :]
        innovations, states, information = steady.at_ends(series, ends)
        parts = np.split(innovations, ends)[:-1]
        products = np.cumsum([part.T @ part[:, 1:] for part in parts], axis=0) / steady.variance
        indices = [self.grid.places(x) - end for x, end in zip(times, ends, strict=True)]
        reach = max(int(ahead.max()) for ahead in indices)
        states_ahead = self._states_ahead(steady.system.observation, reach)
        known = np.sum((states_ahead @ steady.covariance) * states_ahead, axis=1)
        known += self._gained(states_ahead) + self.noise
        pairs = []
        for i, (end, x, ahead) in enumerate(zip(ends.tolist(), times, indices, strict=True)):
            gram = np.empty((s + c, s + c))
            gram[:s, :s], gram[:s, s:] = steady.gram(end), information[i, :, 1:]
            gram[s:, :s], gram[s:, s:] = information[i, :, 1:].T, products[i, 1:]
            right = np.append(information[i, :, 0], products[i, 0])
            _, covariance, _ = solve_normal(regression.prior, gram)
            to_state = np.hstack([steady.power(end), -states[i, :, 1:]])
            rows = states_ahead[ahead] @ to_state
            rows[:, s:] += self.columns.at(x)
            mean = states_ahead[ahead] @ states[i, :, 0] + rows @ (covariance @ right)
            pairs.append((mean, known[ahead] + np.sum((rows @ covariance) * rows, axis=1)))
        return pairs

    # -- observed values ---------------------------------------------------------------------------

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given all others: (n,) each.

        Rasmussen and Williams (2006), equations 5.10 to 5.12, with K the covariance of the values.
        """
        regression, data = self.regression, self.regression.data
        weighted = regression.weighted_residuals[data.places]
        precision = np.concatenate(
            [
                regression.precision_diagonal(data.places[start : start + self.chunk])
                for start in range(0, len(data.places), self.chunk)
            ]
        )
        precision = np.maximum(precision, np.finfo(float).tiny)
        residual = weighted / precision
        density = 0.5 * (np.log(precision) - LOG_2PI - precision * np.square(residual))
        return data.values - residual, 1.0 / precision, density

    # -- components --------------------------------------------------------------------------------

    def coefficients(self) -> Moments:
        picked = self.regression.states + np.flatnonzero(~self.columns.are_lines)
        return self.regression.mean[picked], np.diag(self.regression.covariance)[picked]

    def change(self, name: str, ends: np.ndarray) -> tuple[float, float]:
        reading, covariance = self._joint(self.functions[name], ends)
        covariance = covariance + reading.rows @ self.regression.covariance @ reading.rows.T
        contrast = np.array([-1.0, 1.0])
        return float(contrast @ reading.mean), max(float(contrast @ covariance @ contrast), 0.0)

    def components(
        self, x_new: np.ndarray, level: str, merged: Sequence[str] = ()
    ) -> dict[str, Moments]:
        if merged:
            raise NotImplementedError("components on a grid are not merged.")
        seasons = [name for name in self.state_functions if name != level]
        moments = {}
        for name, function in self.functions.items():
            state = np.zeros(self.regression.states)
            if name in seasons:
                state = -function.state
            elif name == level:
                state = sum((self.functions[season].state for season in seasons), state)
            moments[name] = self._moments_with_average(function, state, x_new)
        return moments

    def _moments_with_average(
        self, function: StateFunction, averaged: np.ndarray, x: np.ndarray
    ) -> Moments:
        """Moments of a function at times x (q,), plus the average over the data of another.

        averaged: The other function, of the state only, (s,).
        """
        if not len(x) or not averaged.any():
            return self._moments(function, x)
        data, steady = self.regression.data, self.regression.filter
        other = StateFunction(averaged, np.zeros_like(function.columns))
        times = self.grid.times(data.size)[data.places]
        mine, its = self._read(function, x), self._read(other, times)
        of_covariance, core = self._core(mine)
        of_other, other_core = self._core(its)
        # Sums over data before place t of l^(t - u), and from t on of l^(u - t) core_u.
        before, after = np.zeros((2, data.size + 1, len(averaged)), complex)
        known, roots = np.zeros(data.size), steady.eigenvalues
        known[data.places], after[data.places] = 1.0, other_core
        for t in range(data.size):
            before[t + 1] = roots * (before[t] + known[t])
            after[-2 - t] += roots * after[-1 - t]
        own = of_other * (before[its.places] * other_core + after[its.places])
        variance = np.real(own.sum())
        sums = of_other[0] * before[mine.places] * core + of_covariance * after[mine.places]
        cross = np.real(sums.sum(axis=1))
        n = len(times)
        mean, variances = self._given_theta(mine)
        row = its.rows.mean(axis=0)
        rows = mine.rows + row
        variances = variances + 2.0 * cross / n + variance / n**2
        variances += np.sum((rows @ self.regression.covariance) * rows, axis=1)
        return mean + its.mean.mean(), np.maximum(variances, 0.0)
