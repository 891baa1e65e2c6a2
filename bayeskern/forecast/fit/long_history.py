"""Log marginal likelihood of a long series: basis functions plus an Ornstein-Uhlenbeck residual.

y = X w + u + e, with w ~ N(0, D) for trend, seasons and effects (`basis`), u an Ornstein-Uhlenbeck
process for short-term deviations, and e ~ N(0, noise I). An evaluation takes O(n m^2) for n values
and m functions where the lengthscale of u or the ratio of its variance to the noise is new, and
O(m^3) otherwise (`sufficient_statistics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property

import numpy as np

from bayeskern.core.threads import one_blas_thread
from bayeskern.forecast.fit.basis import Basis, BasisOptions
from bayeskern.forecast.fit.coefficient_posterior import CoefficientPosterior
from bayeskern.forecast.fit.long_posterior import SHORT_TERM, LongPosterior
from bayeskern.forecast.fit.long_search import Mode, SearchOptions, find_mode
from bayeskern.forecast.fit.sufficient_statistics import History, Statistics
from bayeskern.forecast.model.effects import Effects
from bayeskern.forecast.model.kernels import LEVEL, NOISE, VARIANCE
from bayeskern.gp.numpy_evidence import LogNormalPrior
from bayeskern.gp.numpy_predictive import LOG_2PI, Predictive

# Prior median of the lengthscale of the short-term deviations, in steps, and the scale of its log.
SHORT_TERM_STEPS, SHORT_TERM_SCALE = 20.0, 1.5
# Lengthscale of a fast trend, as a share of the time that the data span.
FAST_TREND_SHARE = 0.1
# Lower limit of the noise variance, as in `default_noise`.
MIN_NOISE = 1e-8


class BasisEvidence:
    """log p(y, hyperparameters) of a long series, over unconstrained coordinates z.

    The hyperparameters are least + exp(z): those of the basis, then the lengthscale and the
    variance of the short-term deviations, then the noise variance. It offers what the protocol
    `bayeskern.forecast.model.evidence.Evidence` asks for.

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
        """
        self.basis, self.step = basis, step
        lengthscale = LogNormalPrior(float(np.log(SHORT_TERM_STEPS * step)), SHORT_TERM_SCALE)
        variance = LogNormalPrior(VARIANCE, 1.0)
        noise = LogNormalPrior(VARIANCE, 1.0, MIN_NOISE)
        own = f"{SHORT_TERM}.lengthscale", f"{SHORT_TERM}.variance", NOISE
        self.names = (*basis.names, *own)
        default = dict(zip(self.names, (*basis.priors, lengthscale, variance, noise), strict=True))
        self.priors = tuple({**default, **(priors or {})}[name] for name in self.names)
        self._location, self._scale, self._least = np.array(self.priors, float).T
        self._take(x, y, np.ones(len(y)))

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
        priors: Mapping[str, LogNormalPrior] | None = None,
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
            priors: Priors in place of the default ones, by name.
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
            options=options,
        )
        return cls(basis, x, y, step=step, priors=priors)

    def _take(self, x: np.ndarray, y: np.ndarray, noise_factors: np.ndarray) -> None:
        self.x, self.y, self.noise_factors = (
            np.asarray(x, float),
            np.asarray(y, float),
            noise_factors,
        )
        vars(self).pop("history", None)

    @cached_property
    def history(self) -> History:
        """The data with the columns of the basis."""
        columns = np.empty((len(self.y), self.basis.size + 1))
        self.basis.functions(self.x, out=columns[:, :-1])
        columns[:, -1] = self.y
        return History(self.x, columns, self.noise_factors)

    def given(self, x: np.ndarray, y: np.ndarray) -> BasisEvidence:
        """The same model and basis, given values y at times x: (n,) both."""
        other = copy(self)
        other._take(x, y, np.ones(len(y)))
        return other

    def with_noise_factors(self, noise_factors: np.ndarray) -> BasisEvidence:
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
        """Coordinates from which searches begin: the medians, with a slow and with a fast trend.

        With a fast trend its lengthscale is a tenth of the time that the data span.
        """
        places = [i for i, name in enumerate(self.names) if name.startswith(f"{LEVEL}.")]
        place = next(i for i in places if self.names[i].endswith(".lengthscale"))
        fast, span = self.middle.copy(), float(self.x[-1] - self.x[0])
        fast[place] = min(fast[place], np.log(FAST_TREND_SHARE * span))
        return [self.middle, fast]

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the components but the effects: trend, seasons, short-term deviations."""
        return (*self.basis.smooth, SHORT_TERM)

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

    def find_mode(
        self, start: np.ndarray | None = None, options: SearchOptions | None = None
    ) -> Mode:
        """Search for the mode of the joint density.

        Args:
            start: Where to begin, (d,); a coarse search chooses it by default.
            options: Options of the search.
        """
        with self.threads():
            return find_mode(self, start, options or SearchOptions())

    # -- new values --------------------------------------------------------------------------------

    def moments(self, z: np.ndarray, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of new values at x_new (M,), for each of z (S, d): (S, M) each."""
        x_new, parts = np.asarray(x_new, float), []
        with self.threads():
            functions = self.basis.functions(x_new)
            for posterior in self._posteriors(z, self.history.is_future(x_new)):
                mean, variance = posterior.moments(functions, x_new)
                parts.append((mean, variance + posterior.noise))
        return _stacked(parts)

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> Predictive:
        """Log joint densities at z (S, d), and the joint distribution of new values there.

        x_new: Sorted times, (M,).
        """
        x_new, parts = np.asarray(x_new, float), []
        with self.threads(), np.errstate(all="ignore"):
            functions = self.basis.functions(x_new)
            posteriors = self._posteriors(z, self.history.is_future(x_new))
            for z_one, posterior in zip(z, posteriors, strict=True):
                density = posterior.coefficients.log_marginal + self._log_prior(z_one)
                parts.append((density, *posterior.joint(functions, x_new), posterior.noise))
        densities, means, covariances, noises = _stacked(parts)
        return Predictive(densities, x_new, means, covariances, noises)

    def paths(
        self,
        z: np.ndarray,
        x_new: np.ndarray,
        count: int,
        seed: int,
        noise_factors: float | np.ndarray = 1.0,
    ) -> np.ndarray:
        """Joint draws of new values at x_new (M,), from z (d,): (count, M).

        noise_factors: Factors of the noise variance of each new value, (M,).
        """
        rng, x_new = np.random.default_rng(seed), np.asarray(x_new, float)
        with self.threads():
            (posterior,) = self._posteriors(z[None])
            paths = posterior.paths(self.basis.functions(x_new), x_new, count, rng)
        return paths + np.sqrt(posterior.noise * noise_factors) * rng.standard_normal(paths.shape)

    def rolling(
        self, z: np.ndarray, counts: Sequence[int], horizon: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts from earlier origins at the same hyperparameters, by one pass over the data.

        Args:
            z: Hyperparameters, (d,).
            counts: Number of first values known at each origin, K of them.
            horizon: Number of values to forecast after each origin.

        Returns:
            Means and standard deviations of the next values given only those before: (K, horizon)
            each.

        Raises:
            ValueError: If an origin has no value before it, or fewer than `horizon` after it.
        """
        n, counts = len(self.y), [int(count) for count in counts]
        if min(counts) < 1 or max(counts) + horizon > n:
            raise ValueError(
                f"counts must be between 1 and {n - horizon}, which is {n} values less a horizon "
                f"of {horizon}; got {min(counts)} to {max(counts)}. Take a shorter horizon."
            )
        lengthscale, ratio = self.residual_parameters(z)
        means, sds = np.empty((2, len(counts), horizon))
        with self.threads():
            prefixes = self.history.prefixes(lengthscale, ratio, counts)
            for i, (count, statistics) in enumerate(zip(counts, prefixes, strict=True)):
                new = slice(count, count + horizon)
                history = self.history.prefix(count)
                coefficients = self._coefficients(z, statistics)
                posterior = LongPosterior(self.basis, history, coefficients, lengthscale, ratio)
                functions = self.history.columns[new, :-1]
                means[i], variance = posterior.moments(functions, self.x[new])
                sds[i] = np.sqrt(variance + posterior.noise * self.noise_factors[new])
        return means, sds

    def _posteriors(self, z: np.ndarray, interpolate: bool = False) -> Iterator[LongPosterior]:
        """Posteriors at each of z (S, d), their statistics interpolated if that is allowed."""
        pairs = [self.residual_parameters(z_one) for z_one in z]
        if interpolate:
            statistics = self.history.statistics_at(*np.array(pairs).T)
        else:
            statistics = (self.history.statistics(*pair) for pair in pairs)
        for z_one, pair, one in zip(z, pairs, statistics, strict=True):
            yield LongPosterior(self.basis, self.history, self._coefficients(z_one, one), *pair)

    # -- the values themselves, and components -----------------------------------------------------

    def loo(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given all others, for z (S, d): (S, n)."""
        with self.threads():
            return _stacked([posterior.loo() for posterior in self._posteriors(z)])

    def fitted(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the function at the values themselves, for z (d,): (n,) each."""
        with self.threads():
            (posterior,) = self._posteriors(z[None])
            return posterior.fitted()

    def components(
        self, z: np.ndarray, x_new: np.ndarray, level: str
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Means and variances of every component at x_new (M,), for each of z (S, d): (S, M) each.

        Each component is taken minus its average over the data, and the averages go to the one
        called level. Effects are differences from none already and stay as they are.
        """
        x_new = np.asarray(x_new, float)
        with self.threads():
            functions = self.basis.functions(x_new)
            parts = [p.components(functions, x_new, level) for p in self._posteriors(z)]
        return {name: _stacked([part[name] for part in parts]) for name in parts[0]}

    def coefficients(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the coefficients of the effects, for z (S, d): (S, k) each."""
        with self.threads():
            return _stacked([posterior.effects() for posterior in self._posteriors(z)])

    def changes(self, z: np.ndarray, name: str, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the change of a component between times (2,), for z (S, d): (S,)."""
        with self.threads():
            return _stacked([posterior.change(name, ends) for posterior in self._posteriors(z)])


def _stacked(parts: list[tuple]) -> tuple[np.ndarray, ...]:
    """Tuples of arrays, one for each draw, as a tuple of arrays with the draws along axis 0."""
    return tuple(np.array(part) for part in zip(*parts, strict=True))
