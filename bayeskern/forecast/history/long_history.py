"""Long series by basis functions plus an Ornstein-Uhlenbeck residual: search and forecast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bayeskern.forecast.history.basis import Basis, BasisOptions
from bayeskern.forecast.history.long_density import LongDensity
from bayeskern.forecast.history.long_posterior import LongPosterior
from bayeskern.forecast.history.long_search import Mode, SearchOptions, find_mode
from bayeskern.forecast.model.effects import Effects
from bayeskern.gp.time_series.predictive import JointPredictive
from bayeskern.gp.time_series.prior import LogNormalPrior


class BasisEvidence(LongDensity):
    """Log joint density of a long series, with forecasts and components.

    It offers what the protocol `bayeskern.forecast.model.evidence.Evidence` asks for. The model
    stands in `LongDensity`.
    """

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

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> JointPredictive:
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
        return JointPredictive(densities, x_new, means, covariances, noises)

    def joint(
        self, z: np.ndarray, x_new: np.ndarray, noise_factors: float | np.ndarray = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean (M,) and covariance (M, M) of new values at x_new (M,), at z (d,).

        noise_factors: Factors of the noise variance of each new value, (M,).
        """
        x_new = np.asarray(x_new, float)
        with self.threads():
            (posterior,) = self._posteriors(z[None])
            mean, covariance = posterior.joint(self.basis.functions(x_new), x_new)
        return mean, covariance + posterior.noise * noise_factors * np.eye(len(x_new))

    def rolling(
        self, z: np.ndarray, counts: Sequence[int], reach: Sequence[int]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Forecasts from earlier origins at the same hyperparameters, by one pass over the data.

        Args:
            z: Hyperparameters, (d,).
            counts: Number of first values known at each origin.
            reach: Number of next values to forecast there.

        Returns:
            Means and variances of those given only the values before, one pair for each origin.
        """
        lengthscale, ratio = self.residual_parameters(z)
        pairs = []
        with self.threads():
            prefixes = self.history.prefixes(lengthscale, ratio, list(counts))
            for count, ahead, statistics in zip(counts, reach, prefixes, strict=True):
                new = slice(count, count + ahead)
                history = self.history.prefix(count)
                coefficients = self._coefficients(z, statistics)
                posterior = LongPosterior(self.basis, history, coefficients, lengthscale, ratio)
                mean, variance = posterior.moments(self.history.columns[new, :-1], self.x[new])
                pairs.append((mean, variance + posterior.noise * self.noise_factors[new]))
        return pairs

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
