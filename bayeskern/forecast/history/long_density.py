"""Log joint density of a long series and its hyperparameters, with gradient and information.

y = X w + u + e, with w ~ N(0, D) for trend, seasons and effects (`basis`), u an Ornstein-Uhlenbeck
process for short-term deviations, and e ~ N(0, noise I). An evaluation takes O(n m^2) for n values
and m functions where the lengthscale of u or the ratio of its variance to the noise is new, and
O(m^3) otherwise (`sufficient_statistics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property
from typing import Self

import numpy as np

from bayeskern.core.threads import one_blas_thread
from bayeskern.forecast.history.basis import VARIANCE, Basis
from bayeskern.forecast.history.coefficient_posterior import CoefficientPosterior
from bayeskern.forecast.history.sufficient_statistics import History, Statistics
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL, NOISE, SHORT_TERM
from bayeskern.gp.time_series.predictive import LOG_2PI
from bayeskern.gp.time_series.prior import LogNormalPrior

# Prior median of the lengthscale of the short-term deviations, in steps, and the scale of its log.
SHORT_TERM_STEPS, SHORT_TERM_SCALE = 20.0, 1.5
# Log of the factor of the variance of the level at a second start of the search.
FAST_LEVEL_LOG_FACTOR = 2.0
# Lower limit of the noise variance, as in `default_noise`.
MIN_NOISE = 1e-8


class LongDensity:
    """log p(y, hyperparameters) of a long series, over unconstrained coordinates z.

    The hyperparameters are least + exp(z): those of the basis, then the lengthscale and the
    variance of the short-term deviations, then the noise variance.

    Attributes:
        x: Sorted times, (n,).
        y: Standardised values, (n,).
        basis: The functions of trend, seasons and effects.
        names: Names of the hyperparameters, d of them.
        priors: Their priors.
        noise_factors: Factors of the noise variance of each value, (n,).
    """

    def __init__(
        self,
        basis: Basis,
        x: np.ndarray,
        y: np.ndarray,
        *,
        step: float,
        priors: Mapping[str, LogNormalPrior] | None = None,
    ):
        """Combine a basis with data.

        Args:
            basis: Functions of trend, seasons and effects.
            x: Sorted times, (n,).
            y: Standardised values, (n,).
            step: Time from one value to the next, for the prior of the short-term lengthscale.
            priors: Priors in place of the default ones, by name.

        Raises:
            ValueError: If a prior is for a hyperparameter that the model does not have, or another
                hyperparameter than the noise has a lower limit.
        """
        self.basis, self.step = basis, step
        lengthscale = LogNormalPrior(float(np.log(SHORT_TERM_STEPS * step)), SHORT_TERM_SCALE)
        variance = LogNormalPrior(VARIANCE, 1.0)
        noise = LogNormalPrior(VARIANCE, 1.0, MIN_NOISE)
        own = f"{SHORT_TERM}.lengthscale", f"{SHORT_TERM}.variance", NOISE
        self.names = (*basis.names, *own)
        default = dict(zip(self.names, (*basis.priors, lengthscale, variance, noise), strict=True))
        unknown = next((name for name in priors or {} if name not in default), None)
        if unknown is not None:
            raise ValueError(
                f"priors: no hyperparameter {unknown!r}; the model has {', '.join(self.names)}."
            )
        self.priors = tuple({**default, **(priors or {})}[name] for name in self.names)
        self._location, self._scale, self._least = np.array(self.priors, float).T
        limited = [n for n, p in zip(self.names[:-1], self.priors, strict=False) if p.least != 0.0]
        if limited:
            raise ValueError(
                f"priors: {limited[0]} has a lower limit, which only {NOISE} may have: take a "
                "LogNormal prior."
            )
        self._take(x, y, np.ones(len(y)))

    def _take(self, x: np.ndarray, y: np.ndarray, noise_factors: np.ndarray) -> None:
        self.x, self.y = np.asarray(x, float), np.asarray(y, float)
        self.noise_factors = noise_factors
        vars(self).pop("history", None)

    @cached_property
    def history(self) -> History:
        """The data with the columns of the basis."""
        columns = np.empty((len(self.y), self.basis.size + 1))
        self.basis.functions(self.x, out=columns[:, :-1])
        columns[:, -1] = self.y
        return History(self.x, columns, self.noise_factors)

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        """The same model and basis, given values y at times x: (n,) both."""
        other = copy(self)
        other._take(x, y, np.ones(len(y)))
        return other

    def with_noise_factors(self, noise_factors: np.ndarray) -> Self:
        """The same model with other factors of the noise variance of each value, (n,)."""
        other, columns = copy(self), self.history.columns
        other._take(self.x, self.y, noise_factors)
        other.history = History(self.x, columns, noise_factors)
        return other

    def threads(self) -> AbstractContextManager:
        """A context in which BLAS takes one thread: the matrices are too small for several."""
        return one_blas_thread()

    @property
    def middle(self) -> np.ndarray:
        """Medians of the priors: (d,)."""
        return self._location

    @property
    def starts(self) -> list[np.ndarray]:
        """Coordinates from which searches begin: the medians, with a slow and with a fast level."""
        fast = self.middle.copy()
        fast[self.names.index(f"{LEVEL}.brownian.variance")] += FAST_LEVEL_LOG_FACTOR
        return [self.middle, fast]

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the components but the effects: trend, seasons, short-term deviations."""
        return (*self.basis.smooth_components, SHORT_TERM)

    @property
    def min_noise(self) -> float:
        """Lower limit of the noise variance."""
        return float(self._least[-1])

    @property
    def effects(self) -> Effects | None:
        """The linear effects of the basis."""
        return self.basis.effects

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        values = self._least + np.exp(z)
        return {name: values[..., i] for i, name in enumerate(self.names)}

    # -- the density -------------------------------------------------------------------------------

    def log_density(self, z: np.ndarray) -> float:
        """Log joint density of y and z at z (d,); -inf where it cannot be computed."""
        with self.threads(), np.errstate(all="ignore"):
            residual = self.residual_parameters(z)
            if not self._is_usable(residual):
                return -np.inf
            posterior = self._coefficients(z, self.history.statistics(*residual))
            return posterior.log_marginal + self._log_prior(z)

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log joint density at z (d,) and its gradient; -inf and zeros where there is none."""
        with self.threads(), np.errstate(all="ignore"):
            residual = self.residual_parameters(z)
            if not self._is_usable(residual):
                return -np.inf, np.zeros(len(z))
            return self._value_and_gradient(z, self.history.statistics(*residual), residual)

    def at_fixed_residual(
        self, z: np.ndarray, statistics: Statistics
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log joint density at z (d,) and its derivatives at fixed statistics.

        Args:
            z: Unconstrained coordinates, (d,).
            statistics: Those at the lengthscale and the ratio of z.

        Returns:
            The density; its gradient (d,) and the expected information (d, d), which leave out how
            the statistics change.
        """
        with np.errstate(all="ignore"):
            posterior, slopes = self._coefficients_and_slopes(z, statistics)
            information = np.diag(1.0 / np.square(self._scale))
            if not np.isfinite(posterior.log_marginal):
                return -np.inf, np.zeros(len(z)), information
            value = posterior.log_marginal + self._log_prior(z)
            gradient = (self._location - z) / np.square(self._scale)
            gradient += slopes[:, :-1] @ posterior.slopes_in_variances
            gradient += slopes[:, -1] * posterior.slope_in_noise
            return value, gradient, information + slopes @ posterior.information @ slopes.T

    def _value_and_gradient(
        self, z: np.ndarray, statistics: Statistics, residual: tuple[float, float]
    ) -> tuple[float, np.ndarray]:
        posterior, slopes = self._coefficients_and_slopes(z, statistics)
        if not np.isfinite(posterior.log_marginal):
            return -np.inf, np.zeros(len(z))
        in_residual = posterior.slopes_in_residual(self.history.slopes(*residual))
        gradient = (self._location - z) / np.square(self._scale)
        gradient += slopes[:, :-1] @ posterior.slopes_in_variances
        # The noise variance is the scale of T, and the denominator of the ratio.
        gradient += slopes[:, -1] * (posterior.slope_in_noise - in_residual[1])
        gradient[-3:-1] += in_residual
        return posterior.log_marginal + self._log_prior(z), gradient

    def _coefficients_and_slopes(
        self, z: np.ndarray, statistics: Statistics
    ) -> tuple[CoefficientPosterior, np.ndarray]:
        """Posterior of the coefficients, and derivatives of log d and the log noise: (d, m + 1)."""
        p, sizes = len(self.basis.names), np.exp(z)
        noise = float(self._least[-1] + sizes[-1])
        variances, in_z = self.basis.variances(sizes[:p])
        slopes = np.zeros((len(z), len(variances) + 1))
        np.divide(in_z, variances, out=slopes[:p, :-1], where=variances > 0.0)
        slopes[-1, -1] = sizes[-1] / noise
        return CoefficientPosterior(statistics, variances, noise), slopes

    def _log_prior(self, z: np.ndarray) -> float:
        standard = (z - self._location) / self._scale
        constant = np.log(self._scale).sum() + 0.5 * len(z) * LOG_2PI
        return float(-0.5 * standard @ standard - constant)

    def residual_parameters(self, z: np.ndarray) -> tuple[float, float]:
        """Lengthscale of the deviations, and the ratio of their variance to that of the noise."""
        lengthscale, variance, noise = self._least[-3:] + np.exp(z[-3:])
        return float(lengthscale), float(variance / noise)

    @staticmethod
    def _is_usable(residual: tuple[float, float]) -> bool:
        """Whether lengthscale and ratio are numbers with which the filter can work."""
        return 0.0 < residual[0] < np.inf and 0.0 <= residual[1] < np.inf

    def _coefficients(self, z: np.ndarray, statistics: Statistics) -> CoefficientPosterior:
        """Posterior of the coefficients at z (d,)."""
        values = self._least + np.exp(z)
        variances, _ = self.basis.variances(values[: len(self.basis.names)])
        return CoefficientPosterior(statistics, variances, float(values[-1]))
