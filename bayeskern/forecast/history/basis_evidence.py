"""Log joint density of a long series and its hyperparameters, and predictions.

y = X w + u + e, with w ~ N(0, D) for trend, seasons and effects (`basis`), u an Ornstein-Uhlenbeck
process for short-term deviations, and e ~ N(0, noise I). With n values and m functions, the first
evaluation at a given lengthscale of u and ratio of its variance to the noise variance takes
O(n m^2); further evaluations at the same two values take O(m^3) (`filtered_statistics`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Self

import numpy as np

from bayeskern.forecast.history.basis import LOG_VARIANCE, Basis, BasisOptions
from bayeskern.forecast.history.basis_posterior import BasisPosterior
from bayeskern.forecast.history.filtered_statistics import FilteredStatistics, History
from bayeskern.forecast.history.series_posterior import SeriesPosterior
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL, NOISE, SHORT_TERM
from bayeskern.gp.time_series.base import Evidence, Moments
from bayeskern.gp.time_series.prior import LogNormalPrior, LogNormalPriors


class BasisEvidence(Evidence):
    """log p(y, hyperparameters) of a long series, at unconstrained z (d,).

    The hyperparameters are those of the basis, the lengthscale and the variance of the short-term
    deviations, and the noise variance, in this order. Only the noise variance has a lower limit.

    Attributes:
        basis: The functions of trend, seasons and effects.
        step: Time step between values.
        prior: Prior of the hyperparameters.
        min_noise: Lower limit of the noise variance.
    """

    def __init__(self, basis: Basis, x: np.ndarray, y: np.ndarray, *, step: float):
        """Combine a basis with data.

        Args:
            basis: Functions of trend, seasons and effects.
            x: Sorted times, (n,).
            y: Standardised values, (n,).
            step: Time step between values.
        """
        self.basis, self.step = basis, step
        # `default_noise` has the same lower limit.
        noise = LogNormalPrior(LOG_VARIANCE, 1.0, least=1e-8)
        self.prior = LogNormalPriors(
            {
                **basis.priors,
                # A median of 20 steps.
                f"{SHORT_TERM}.lengthscale": LogNormalPrior(float(np.log(20.0 * step)), 1.5),
                f"{SHORT_TERM}.variance": LogNormalPrior(LOG_VARIANCE, 1.0),
                NOISE: noise,
            }
        )
        self.names, self.min_noise = self.prior.names, noise.least
        self.middle, self.prior_sd = self.prior.middle, self.prior.prior_sd
        self.component_names = (*basis.smooth_components, SHORT_TERM)
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
            step: Time step between values.
            end: Last time of all forecasts.
            unit: Time unit of the priors of the trend: the longest season, or a step.
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
        clone = copy(self)
        clone.x, clone.y = np.asarray(x, float), np.asarray(y, float)
        vars(clone).pop("history", None)
        return clone

    def with_effects(self, effects: Effects | None) -> Self:
        # The cached `history` holds the columns at the times of the data, which stay the same.
        clone = copy(self)
        clone.basis = self.basis.with_effects(effects)
        return clone

    @cached_property
    def history(self) -> History:
        """The data with the columns of the basis."""
        # In column order, since the filter runs along columns.
        columns = np.empty((len(self.y), self.basis.size + 1), order="F")
        self.basis.functions(self.x, out=columns[:, :-1])
        columns[:, -1] = self.y
        return History(self.x, columns)

    @property
    def starts(self) -> list[np.ndarray]:
        """Starting points of a search: the prior medians, and a faster-changing level."""
        fast = self.middle.copy()
        fast[self.names.index(f"{LEVEL}.brownian.variance")] += 2.0
        return [self.middle, fast]

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self.prior.values(z)

    def residual_parameters(self, z: np.ndarray) -> tuple[float, float]:
        """Lengthscale l of the deviations, and q, their variance over the noise variance."""
        lengthscale, variance, noise = self.prior.each(z)[-3:]
        return float(lengthscale), float(variance / noise)

    # -- the density -------------------------------------------------------------------------------

    def _statistics(self, z: np.ndarray) -> FilteredStatistics | None:
        """Sufficient statistics at z (d,); None if l or q overflows or underflows."""
        lengthscale, ratio = self.residual_parameters(z)
        is_usable = 0.0 < lengthscale < np.inf and 0.0 <= ratio < np.inf
        return self.history.statistics(lengthscale, ratio) if is_usable else None

    def log_density(self, z: np.ndarray) -> float:
        with self.threads(), np.errstate(all="ignore"):
            statistics = self._statistics(z)
            if statistics is None:
                return -np.inf
            posterior, _ = self._posterior_of_basis(z, statistics)
            return posterior.log_marginal + self.prior.log_density(z)

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        with self.threads(), np.errstate(all="ignore"):
            statistics = self._statistics(z)
            if statistics is None:
                return -np.inf, np.zeros(len(z))
            posterior, slopes = self._posterior_of_basis(z, statistics)
            if not np.isfinite(posterior.log_marginal):
                return -np.inf, np.zeros(len(z))
            residual = self.history.slopes(*self.residual_parameters(z))
            residual_slopes = posterior.slopes_in_residual(residual)
            gradient = self._gradient(z, posterior, slopes)
            # The noise variance is also the denominator of the ratio.
            gradient -= slopes[:, -1] * residual_slopes[1]
            gradient[-3:-1] += residual_slopes
            return posterior.log_marginal + self.prior.log_density(z), gradient

    def at_fixed_residual(
        self, z: np.ndarray, statistics: FilteredStatistics
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log joint density at z (d,) and its derivatives at fixed statistics.

        Args:
            z: Unconstrained coordinates, (d,).
            statistics: Sufficient statistics at the lengthscale and the ratio of z.

        Returns:
            Log density, its gradient (d,) and the expected information (d, d), at fixed statistics.
        """
        with np.errstate(all="ignore"):
            posterior, slopes = self._posterior_of_basis(z, statistics)
            information = self.prior.information
            if not np.isfinite(posterior.log_marginal):
                return -np.inf, np.zeros(len(z)), information
            information = information + slopes @ posterior.information @ slopes.T
            value = posterior.log_marginal + self.prior.log_density(z)
            return value, self._gradient(z, posterior, slopes), information

    def _gradient(self, z: np.ndarray, posterior: BasisPosterior, slopes: np.ndarray) -> np.ndarray:
        """Gradient of the log joint density at fixed statistics, (d,)."""
        gradient = slopes[:, :-1] @ posterior.slopes_in_variances
        return self.prior.slope(z) + gradient + slopes[:, -1] * posterior.slope_in_noise

    def _posterior_of_basis(
        self, z: np.ndarray, statistics: FilteredStatistics
    ) -> tuple[BasisPosterior, np.ndarray]:
        """Posterior of w, and derivatives of log variances with respect to z, (d, m + 1).

        The columns are the derivatives of log d_j for all j, and of log noise.
        """
        values, p = self.prior.each(z), len(self.basis.priors)
        variances, variance_slopes = self.basis.variances(values[:p])
        slopes = np.zeros((len(z), len(variances) + 1))
        np.divide(variance_slopes, variances, out=slopes[:p, :-1], where=variances > 0.0)
        slopes[-1, -1] = np.exp(z[-1]) / values[-1]
        return BasisPosterior(statistics, variances, float(values[-1])), slopes

    # -- predictions -------------------------------------------------------------------------------

    def conditioned(self, z: np.ndarray) -> SeriesPosterior:
        statistics = self.history.statistics(*self.residual_parameters(z))
        return self._conditioned(z, self.history, statistics)

    def _conditioned(
        self, z: np.ndarray, history: History, statistics: FilteredStatistics
    ) -> SeriesPosterior:
        """Posterior of a history with these statistics, at z (d,)."""
        weights, _ = self._posterior_of_basis(z, statistics)
        residual, log_prior = self.residual_parameters(z), self.prior.log_density(z)
        return SeriesPosterior(self.basis, history, weights, *residual, log_prior, weights.noise)

    def rolling(
        self, z: np.ndarray, counts: Sequence[int], next_counts: Sequence[int]
    ) -> list[Moments]:
        pairs = []
        with self.threads():
            # One pass over the data serves all origins.
            prefixes = self.history.prefixes(*self.residual_parameters(z), counts)
            for count, next_count, statistics in zip(counts, next_counts, prefixes, strict=True):
                process = self._conditioned(z, self.history.prefix(count), statistics)
                mean, variance = process.moments(self.x[count : count + next_count])
                pairs.append((mean, variance + process.noise))
        return pairs
