"""Log joint density of a long series and its hyperparameters, with forecasts and components.

y = X w + u + e, with w ~ N(0, D) for trend, seasons and effects (`basis`), u an Ornstein-Uhlenbeck
process for short-term deviations, and e ~ N(0, noise I). An evaluation takes O(n m^2) for n values
and m functions if the lengthscale of u or the ratio of its variance to the noise is new, and O(m^3)
otherwise (`filtered_statistics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property
from typing import Self

import numpy as np

from bayeskern.core.threads import one_blas_thread
from bayeskern.forecast.history.basis import LOG_VARIANCE, Basis, BasisOptions
from bayeskern.forecast.history.basis_posterior import BasisPosterior
from bayeskern.forecast.history.filtered_statistics import FilteredStatistics, History
from bayeskern.forecast.history.series_posterior import SeriesPosterior
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.evidence import Moments
from bayeskern.forecast.model.kernels import LEVEL, NOISE, SHORT_TERM
from bayeskern.gp.time_series.predictive import LOG_2PI, JointPredictive
from bayeskern.gp.time_series.prior import LogNormalPrior


class BasisEvidence:
    """log p(y, hyperparameters) of a long series, over unconstrained coordinates z (d,).

    It has the methods of `NumpyEvidence` that fits and forecasts use. The hyperparameters are
    least + exp(z): those of the basis, then the lengthscale and the variance of the short-term
    deviations, then the noise variance, which alone has a lower limit.

    Attributes:
        basis: The functions of trend, seasons and effects.
        x: Sorted times, (n,).
        y: Standardised values, (n,).
        step: Time from one value to the next.
        names: Names of the hyperparameters, d of them.
        priors: Their priors.
    """

    def __init__(self, basis: Basis, x: np.ndarray, y: np.ndarray, *, step: float):
        """Combine a basis with data.

        Args:
            basis: Functions of trend, seasons and effects.
            x: Sorted times, (n,).
            y: Standardised values, (n,).
            step: Time from one value to the next.
        """
        self.basis, self.step = basis, step
        self.names = (*basis.names, f"{SHORT_TERM}.lengthscale", f"{SHORT_TERM}.variance", NOISE)
        self.priors = (
            *basis.priors,
            # A median of 20 steps.
            LogNormalPrior(float(np.log(20.0 * step)), 1.5),
            LogNormalPrior(LOG_VARIANCE, 1.0),
            # The lower limit is that of `default_noise`.
            LogNormalPrior(LOG_VARIANCE, 1.0, least=1e-8),
        )
        self._location, self._scale, self._least = np.array(self.priors, float).T
        self.x, self.y = np.asarray(x, float), np.asarray(y, float)

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        seasons: Mapping[str, float],
        *,
        step: float,
        end: float,
        unit: float = 1.0,
        effects: Effects | None = None,
        options: BasisOptions | None = None,
    ) -> BasisEvidence:
        """Choose a basis for a series and combine it with the data.

        Args:
            x: Sorted times, (n,).
            y: Standardised values, (n,).
            seasons: Name -> period, in the unit of the times.
            step: Time from one value to the next.
            end: Last time of any forecast.
            unit: Time that plays the part of a year in the priors.
            effects: Linear effects of regressors and holidays.
            options: Size of the basis.
        """
        basis = Basis.of(
            seasons,
            start=float(x[0]),
            end=max(float(end), float(x[-1])),
            center=float(np.mean(x)),
            step=step,
            unit=unit,
            effects=effects,
            options=options or BasisOptions(),
        )
        return cls(basis, x, y, step=step)

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Copy with this model and basis, given values y at times x: (n,) both."""
        other = copy(self)
        other.x, other.y = np.asarray(x, float), np.asarray(y, float)
        vars(other).pop("history", None)
        return other

    @cached_property
    def history(self) -> History:
        """The data with the columns of the basis."""
        columns = np.empty((len(self.y), self.basis.size + 1))
        self.basis.functions(self.x, out=columns[:, :-1])
        columns[:, -1] = self.y
        return History(self.x, columns)

    def threads(self) -> AbstractContextManager:
        """A context in which BLAS takes one thread: the matrices are too small for several."""
        return one_blas_thread()

    @property
    def middle(self) -> np.ndarray:
        """Medians of the priors: (d,)."""
        return self._location

    @property
    def starts(self) -> list[np.ndarray]:
        """Starting points of a search: the prior medians, and a level that changes faster."""
        fast = self.middle.copy()
        fast[self.names.index(f"{LEVEL}.brownian.variance")] += 2.0
        return [self.middle, fast]

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the components other than effects: trend, seasons, short-term deviations."""
        return (*self.basis.smooth_components, SHORT_TERM)

    @property
    def min_noise(self) -> float:
        """Lower limit of the noise variance."""
        return float(self._least[-1])

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        values = self._least + np.exp(z)
        return {name: values[..., i] for i, name in enumerate(self.names)}

    def residual_parameters(self, z: np.ndarray) -> tuple[float, float]:
        """Lengthscale of the deviations, and the ratio of their variance to that of the noise."""
        lengthscale, variance, noise = self._least[-3:] + np.exp(z[-3:])
        return float(lengthscale), float(variance / noise)

    # -- the density -------------------------------------------------------------------------------

    def log_density(self, z: np.ndarray) -> float:
        """Log joint density of y and z at z (d,); -inf where it cannot be computed."""
        with self.threads(), np.errstate(all="ignore"):
            residual = self.residual_parameters(z)
            if not _is_usable(*residual):
                return -np.inf
            posterior = self._posterior_of_basis(z, self.history.statistics(*residual))
            return posterior.log_marginal + self._log_prior(z)

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log joint density at z (d,) and its gradient; -inf and zeros where there is none."""
        with self.threads(), np.errstate(all="ignore"):
            residual = self.residual_parameters(z)
            if not _is_usable(*residual):
                return -np.inf, np.zeros(len(z))
            statistics = self.history.statistics(*residual)
            posterior, slopes = self._posterior_and_slopes(z, statistics)
            if not np.isfinite(posterior.log_marginal):
                return -np.inf, np.zeros(len(z))
            in_residual = posterior.slopes_in_residual(self.history.slopes(*residual))
            gradient = (self._location - z) / np.square(self._scale)
            gradient += slopes[:, :-1] @ posterior.slopes_in_variances
            # The noise variance is the scale of T, and the denominator of the ratio.
            gradient += slopes[:, -1] * (posterior.slope_in_noise - in_residual[1])
            gradient[-3:-1] += in_residual
            return posterior.log_marginal + self._log_prior(z), gradient

    def at_fixed_residual(
        self, z: np.ndarray, statistics: FilteredStatistics
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log joint density at z (d,) and its derivatives at fixed statistics.

        Args:
            z: Unconstrained coordinates, (d,).
            statistics: Those at the lengthscale and the ratio of z.

        Returns:
            The density; its gradient (d,) and the expected information (d, d), both without the
            change of the statistics.
        """
        with np.errstate(all="ignore"):
            posterior, slopes = self._posterior_and_slopes(z, statistics)
            information = np.diag(1.0 / np.square(self._scale))
            if not np.isfinite(posterior.log_marginal):
                return -np.inf, np.zeros(len(z)), information
            value = posterior.log_marginal + self._log_prior(z)
            gradient = (self._location - z) / np.square(self._scale)
            gradient += slopes[:, :-1] @ posterior.slopes_in_variances
            gradient += slopes[:, -1] * posterior.slope_in_noise
            return value, gradient, information + slopes @ posterior.information @ slopes.T

    def _posterior_and_slopes(
        self, z: np.ndarray, statistics: FilteredStatistics
    ) -> tuple[BasisPosterior, np.ndarray]:
        """Posterior of the weights, and derivatives of log d and the log noise: (d, m + 1)."""
        p, sizes = len(self.basis.names), np.exp(z)
        noise = float(self._least[-1] + sizes[-1])
        variances, in_z = self.basis.variances(sizes[:p])
        slopes = np.zeros((len(z), len(variances) + 1))
        np.divide(in_z, variances, out=slopes[:p, :-1], where=variances > 0.0)
        slopes[-1, -1] = sizes[-1] / noise
        return BasisPosterior(statistics, variances, noise), slopes

    def _posterior_of_basis(self, z: np.ndarray, statistics: FilteredStatistics) -> BasisPosterior:
        values = self._least + np.exp(z)
        variances, _ = self.basis.variances(values[: len(self.basis.names)])
        return BasisPosterior(statistics, variances, float(values[-1]))

    def _log_prior(self, z: np.ndarray) -> float:
        standard = (z - self._location) / self._scale
        constant = np.log(self._scale).sum() + 0.5 * len(z) * LOG_2PI
        return float(-0.5 * standard @ standard - constant)

    # -- new values --------------------------------------------------------------------------------

    def moments(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Means and variances of new values at x_new (M,), for each of z (S, d): (S, M) each."""
        x_new, parts = np.asarray(x_new, float), []
        with self.threads():
            functions = self.basis.functions(x_new)
            for posterior in self._posteriors(z):
                mean, variance = posterior.moments(functions, x_new)
                parts.append((mean, variance + posterior.noise))
        means, variances = _stacked(parts)
        return means, variances

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> JointPredictive:
        """Log joint densities at z (S, d), and the joint distribution of new values there.

        Args:
            z: Hyperparameters, (S, d).
            x_new: Sorted times, (M,).
        """
        x_new, parts = np.asarray(x_new, float), []
        with self.threads(), np.errstate(all="ignore"):
            functions = self.basis.functions(x_new)
            for row, posterior in zip(z, self._posteriors(z), strict=True):
                density = posterior.weights.log_marginal + self._log_prior(row)
                parts.append((density, *posterior.joint(functions, x_new), posterior.noise))
        densities, means, covariances, noises = _stacked(parts)
        return JointPredictive(densities, x_new, means, covariances, noises)

    def joint(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Mean (M,) and covariance (M, M) of new values at x_new (M,), at z (d,)."""
        x_new = np.asarray(x_new, float)
        with self.threads():
            (posterior,) = self._posteriors(z[None])
            mean, covariance = posterior.joint(self.basis.functions(x_new), x_new)
        return mean, covariance + posterior.noise * np.eye(len(x_new))

    def rolling(self, z: np.ndarray, counts: Sequence[int], reach: Sequence[int]) -> list[Moments]:
        """Forecasts from earlier origins at the same hyperparameters, by one pass over the data.

        Args:
            z: Hyperparameters, (d,).
            counts: Number of first values known at each origin.
            reach: Number of next values to forecast there.

        Returns:
            Means and variances given only the values before, one pair for each origin.
        """
        residual = self.residual_parameters(z)
        pairs = []
        with self.threads():
            prefixes = self.history.prefixes(*residual, list(counts))
            for count, ahead, statistics in zip(counts, reach, prefixes, strict=True):
                new = slice(count, count + ahead)
                weights = self._posterior_of_basis(z, statistics)
                history = self.history.prefix(count)
                posterior = SeriesPosterior(self.basis, history, weights, *residual)
                mean, variance = posterior.moments(self.history.columns[new, :-1], self.x[new])
                pairs.append((mean, variance + posterior.noise))
        return pairs

    def _posteriors(self, z: np.ndarray) -> Iterator[SeriesPosterior]:
        """Posteriors at each of z (S, d)."""
        for row in z:
            residual = self.residual_parameters(row)
            weights = self._posterior_of_basis(row, self.history.statistics(*residual))
            yield SeriesPosterior(self.basis, self.history, weights, *residual)

    # -- observed values and components ------------------------------------------------------------

    def loo(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given all others, for z (S, d): (S, n)."""
        with self.threads():
            parts = [posterior.loo() for posterior in self._posteriors(z)]
        means, variances, log_densities = _stacked(parts)
        return means, variances, log_densities

    def components(self, z: np.ndarray, x_new: np.ndarray, level: str) -> dict[str, Moments]:
        """Means and variances of every component at x_new (M,), for each of z (S, d): (S, M) each.

        Each component is centred: its average over the data is moved to the component `level`.
        Effects are differences from the absence of an effect and are not centred.
        """
        x_new = np.asarray(x_new, float)
        with self.threads():
            functions = self.basis.functions(x_new)
            parts = [p.components(functions, x_new, level) for p in self._posteriors(z)]
        moments = {}
        for name in parts[0]:
            means, variances = _stacked([part[name] for part in parts])
            moments[name] = means, variances
        return moments

    def changes(self, z: np.ndarray, name: str, ends: np.ndarray) -> Moments:
        """Mean and variance of the change of a component between times (2,), for z (S, d): (S,)."""
        with self.threads():
            means, variances = _stacked([p.change(name, ends) for p in self._posteriors(z)])
        return means, variances

    def coefficients(self, z: np.ndarray) -> Moments:
        """Means and variances of the coefficients of the effects, for z (S, d): (S, k) each."""
        with self.threads():
            means, variances = _stacked([p.effects() for p in self._posteriors(z)])
        return means, variances


def _is_usable(lengthscale: float, ratio: float) -> bool:
    """True for a lengthscale and a ratio that the filter can use."""
    return 0.0 < lengthscale < np.inf and 0.0 <= ratio < np.inf


def _stacked(parts: Sequence[tuple]) -> tuple[np.ndarray, ...]:
    """Tuples of arrays, one for each draw, as a tuple of arrays with the draws along axis 0."""
    return tuple(np.array(part) for part in zip(*parts, strict=True))
