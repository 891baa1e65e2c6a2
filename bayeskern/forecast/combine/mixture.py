"""The predictive distribution of a forecast: a weighted mixture over structures and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from bayeskern.forecast.combine.average import Part
from bayeskern.forecast.combine.responses import ResponseMixture, responses_of
from bayeskern.forecast.combine.volatility import volatility_factors
from bayeskern.forecast.fit.robust import factors_of_new
from bayeskern.forecast.model.transformation import Scale
from bayeskern.prediction.mixture import quantiles_between, without_nan

# Where a part has no variance at all it is a step.
LEAST_SD = 1e-150
# Logarithms of values beyond this are cut off, so that there is room for sums of them.
LARGEST = 690.0
# About the most numbers that are looked at at a time.
BLOCK = 2**14


class Mixture:
    """A mixture of normal and lognormal distributions at m times.

    Attributes:
        weights: Of the S parts, (S,); they sum to one.
        logs: Which of the parts are lognormal: (S,).
        locations: The mean of each part or of its logarithm, (S, m).
        sds: The standard deviation of each part or of its logarithm, (S, m).
        lower, upper: Bounds of the values; what a part has beyond one lies at it.
    """

    lower, upper = -np.inf, np.inf

    def __init__(self, weights, scales: Sequence[Scale], means, variances, paths=None):
        """scales: of the parts; means, variances: of z, (S, m); paths: (i, n, seed) -> (n, m)."""
        shifts, sizes = (np.array([[getattr(s, a)] for s in scales]) for a in ("shift", "size"))
        self.weights, self.logs = weights, np.array([s.log for s in scales])
        self.locations = shifts + sizes * without_nan(means)
        self.sds = sizes * np.sqrt(without_nan(variances))
        self._paths = paths

    @classmethod
    def even(cls, scales: Sequence[Scale], means, variances, paths=None) -> Mixture:
        """The mixture of parts of equal weight."""
        return cls(np.full(len(scales), 1.0 / len(scales)), scales, means, variances, paths)

    def widened(self, factors, weights) -> Mixture:
        """The mixture whose sds are multiplied by factors (k,), which have weights (k,)."""
        wider, k = copy(self), len(factors)
        # Those of this one, where they have been asked for.
        vars(wider).pop("moments", None)
        wider.weights = np.outer(self.weights, weights).ravel()
        wider.logs, wider.locations = (np.repeat(a, k, axis=0) for a in (self.logs, self.locations))
        wider.sds = (self.sds[:, None] * np.reshape(factors, (k, 1))).reshape(wider.locations.shape)

        def paths(i, n, seed):
            middle = self.locations[i // k]
            return middle + factors[i % k] * (self._paths(i // k, n, seed) - middle)

        wider._paths = paths
        return wider

    def within(self, lower: float, upper: float) -> Mixture:
        """The mixture of values of which none is below lower or above upper."""
        bounded = copy(self)
        vars(bounded).pop("moments", None)
        bounded.lower, bounded.upper = lower, upper
        return bounded

    @property
    def _is_bounded(self) -> bool:
        return bool(np.isfinite(self.lower) or np.isfinite(self.upper))

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation of the values: (m,) each."""
        if self._is_bounded:
            return self._bounded_moments()
        mean, variance = self.locations.copy(), self.sds**2
        mean[self.logs] = np.exp(mean[self.logs] + 0.5 * variance[self.logs])
        variance[self.logs] = np.expm1(variance[self.logs]) * mean[self.logs] ** 2
        overall = self.weights @ mean
        return overall, np.sqrt(self.weights @ (variance + np.square(mean - overall)))

    def _bounded_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """By the first two moments of each part between the bounds, and what lies at them."""
        sds, logs = np.maximum(self.sds, LEAST_SD), self.logs[:, None]
        ends = []
        for bound in (self.lower, self.upper):
            log_bound = np.log(bound) if bound > 0.0 else -np.inf
            ends.append((np.where(logs, log_bound, bound) - self.locations) / sds)
        a, b = ends
        first, second = np.where(
            logs,
            _lognormal_between(a, b, np.minimum(self.locations, LARGEST), sds),
            _normal_between(a, b, self.locations, sds),
        )
        for bound, mass in ((self.lower, ndtr(a)), (self.upper, ndtr(-b))):
            if np.isfinite(bound):
                first, second = first + bound * mass, second + bound**2 * mass
        mean = self.weights @ first
        return mean, np.sqrt(np.maximum(self.weights @ second - mean**2, 0.0))

    def quantile(self, q) -> np.ndarray:
        """Quantiles for probabilities q: (*q.shape, m)."""
        q = np.asarray(q, float)
        p = q.reshape(-1, 1)
        by_part = self.locations[:, None] + self.sds[:, None] * ndtri(p)
        if self._is_mixed:
            by_part = np.where(self.logs[:, None, None], _exp(by_part), by_part)
        # The quantile of a mixture lies between the quantiles of its parts.
        low, high = by_part.min(axis=0), by_part.max(axis=0)
        quantiles = low if np.array_equal(low, high) else self._solve(p, low, high)
        if self.logs.all():
            quantiles = _exp(quantiles)
        return np.clip(quantiles, self.lower, self.upper).reshape(*q.shape, -1)

    def _solve(self, p, low, high) -> np.ndarray:
        """The quantiles (k, m) for p (k, 1), which lie between low and high (k, m)."""
        unit = 1.0
        if self._is_mixed:
            # Where lognormal parts reach far beyond normal ones, steps in x would take forever.
            unit = self.sds[~self.logs].max(axis=0)
            low, high = np.arcsinh(low / unit), np.arcsinh(high / unit)

        def values(u, column):
            return np.sinh(u) * unit[column] if self._is_mixed else u

        def below(u, column):
            return self._below(values(u, column), column)

        return values(quantiles_between(low, high, p, below), np.arange(low.shape[1]))

    @property
    def _is_mixed(self) -> bool:
        """Whether normal and lognormal parts stand side by side."""
        return bool(self.logs.any() and not self.logs.all())

    def _below(self, x, column) -> np.ndarray:
        """The probability of less than x, an array, in the column that each of them is in.

        x is a value, or the logarithm of one where all parts are lognormal.
        """
        shape, x = np.shape(x), np.ravel(x)
        column = np.broadcast_to(column, shape).ravel()
        total, log_x = np.zeros(len(x)), x
        if self._is_mixed:
            log_x = np.log(x, where=x > 0.0, out=np.full(len(x), -np.inf))
        # Many parts at a time where there are few values, which bounds the memory.
        size = 1 + BLOCK // len(x)
        for parts in (np.flatnonzero(~self.logs), np.flatnonzero(self.logs)):
            at = log_x if self.logs[parts].any() else x
            for some in np.split(parts, range(size, len(parts), size)):
                distance = at - self.locations[some][:, column]
                distance /= np.maximum(self.sds[some], LEAST_SD)[:, column]
                total += self.weights[some] @ ndtr(distance, out=distance)
        # What was cut off there lies below.
        total = np.where(log_x >= LARGEST, 1.0, total) if self._is_mixed else total
        return total.reshape(shape)

    def log_density(self, y) -> np.ndarray:
        """The log density of values y (m,), time by time; at a bound, the log of its mass."""
        if self._is_bounded:
            return self._bounded_log_density(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_y = np.where(y > 0, np.log(np.where(y > 0, y, 1.0)), np.nan)
            g = np.where(self.logs[:, None], log_y, y)
            sds = np.maximum(self.sds, LEAST_SD)
            densities = -0.5 * np.square((g - self.locations) / sds) - np.log(sds)
            # log |d log y / dy|; a lognormal part rules out what is not above zero.
            densities = np.where(self.logs[:, None], densities - log_y, densities)
            densities = np.where(np.isnan(densities), -np.inf, densities)
            log_weights = np.log(self.weights)[:, None]
        return logsumexp(densities + log_weights, axis=0) - 0.5 * np.log(2.0 * np.pi)

    def _bounded_log_density(self, y) -> np.ndarray:
        y, column = np.asarray(y, float), np.arange(self.locations.shape[1])
        density = self.within(-np.inf, np.inf).log_density(y)
        with np.errstate(divide="ignore"):
            for bound, sign in ((self.lower, 1.0), (self.upper, -1.0)):
                if np.isfinite(bound):
                    x = np.full(len(y), bound)
                    if self.logs.all():
                        x = np.log(np.maximum(x, 0.0))
                    below = self._below(x, column)
                    mass = np.log(below if sign > 0.0 else 1.0 - below)
                    density = np.where(y == bound, mass, density)
                    density = np.where(sign * (y - bound) < 0.0, -np.inf, density)
        return density

    def sample(self, n: int, seed: int) -> np.ndarray:
        """Joint draws of the values at all times: (n, m)."""
        rng = np.random.default_rng(seed)
        # As many from each part as its weight says, the remainder at random.
        ends = np.cumsum(self.weights) * n
        counts = np.diff(np.floor(ends + rng.random()).astype(int), prepend=0)
        counts[-1] += n - counts.sum()
        paths = [
            _exp(path) if self.logs[i] else path
            for i, count in enumerate(counts)
            if count > 0
            for path in [without_nan(self._paths(i, count, seed + i))]
        ]
        return rng.permutation(np.clip(np.concatenate(paths), self.lower, self.upper))


def _normal_between(a, b, mean, sd) -> np.ndarray:
    """The integrals of x and x^2 over mean + sd (a, b), under the normal density: (2, ...)."""
    density = [np.exp(-0.5 * np.square(end)) / np.sqrt(2.0 * np.pi) for end in (a, b)]
    mass = ndtr(b) - ndtr(a)
    fall = density[0] - density[1]
    ends = [np.where(np.isfinite(e), e, 0.0) * d for e, d in zip((a, b), density, strict=True)]
    first = mean * mass + sd * fall
    second = (mean**2 + sd**2) * mass + 2.0 * mean * sd * fall + sd**2 * (ends[0] - ends[1])
    return np.stack([first, second])


def _lognormal_between(a, b, location, sd) -> np.ndarray:
    """The same of exp(x)."""
    moments = [
        _exp(k * location + 0.5 * (k * sd) ** 2) * (ndtr(b - k * sd) - ndtr(a - k * sd))
        for k in (1.0, 2.0)
    ]
    return np.stack(moments)


def _exp(x) -> np.ndarray:
    """The exponential, finite however large x is."""
    return np.exp(np.minimum(x, LARGEST))


def mixture_over(
    parts: Sequence[Part], x_new: np.ndarray, mixed: int, seed: int, robust: bool = False
) -> Mixture | ResponseMixture:
    """The mixture over the draws of all parts at x_new (m,), about `mixed` of them.

    What comes may be more volatile than what was, or less, but for a kernel that was given. robust:
    whether the noise of new values is Student's t.
    """
    weights, fits, zs, moments = _drawn(
        parts, mixed, seed, robust, lambda draws, rows: draws.moments(rows, x_new)
    )
    means, variances = moments
    factors = np.ones(means.shape)
    if robust:
        factors = factors_of_new(means.shape, seed)
        variances = variances + (factors - 1.0) * _noise(fits, zs)

    def paths(i, n, seed):
        scale, evidence = fits[i].scale, fits[i].evidence
        return scale.shift + scale.size * evidence.paths(zs[i], x_new, n, seed, factors[i])

    choices = fits[0].choices
    if choices.likelihood is not None:
        return responses_of(choices.likelihood, weights, fits, zs, moments, paths)
    mixture = Mixture(weights, [f.scale for f in fits], means, variances, paths)
    if choices.kernels is None:
        mixture = mixture.widened(*volatility_factors(len(fits[0].y)))
    return mixture.within(*choices.bounds)


def mixture_of_others(
    parts: Sequence[Part], mixed: int, seed: int, robust: bool = False
) -> Mixture | ResponseMixture:
    """What all other values say of each value that was fitted, over the draws of all parts.

    The hyperparameters are those given all values. robust: as in `mixture_over`.
    """

    def left_out(draws, rows):
        return draws.fitted.evidence.loo(draws.z[rows])[:2]

    weights, fits, zs, moments = _drawn(parts, mixed, seed, robust, left_out)
    means, variances = moments
    if robust:
        own = np.array([f.evidence.noise_factors for f in fits])
        variances = variances + (factors_of_new(means.shape, seed) - own) * _noise(fits, zs)
    choices = fits[0].choices
    if choices.likelihood is not None:
        return responses_of(choices.likelihood, weights, fits, zs, moments)
    mixture = Mixture(weights, [f.scale for f in fits], means, variances)
    return mixture.within(*choices.bounds)


def _drawn(parts: Sequence[Part], mixed: int, seed: int, robust: bool, moments: Callable):
    """Weights (S,), fits and draws of S parts of a mixture, and their moments: (S, m) each."""
    weights, fits, zs, found = [], [], [], []
    for part in parts:
        draws, rows = part.draws, np.zeros(1, int)
        if not draws.is_point:
            count = min(len(draws.z), max(1, int(np.ceil(mixed * part.weight))))
            rows = draws.chosen(count, seed)
        if robust:
            # Each factor of the noise is a part of its own.
            rows = np.repeat(rows, -(-mixed // (len(parts) * len(rows))))
        weights += [part.weight / len(rows)] * len(rows)
        fits += [part.fitted] * len(rows)
        zs += [*draws.z[rows]]
        different, place = np.unique(rows, return_inverse=True)
        found.append([moment[place] for moment in moments(draws, different)])
    together = tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return np.array(weights), fits, zs, together


def _noise(fits, zs) -> np.ndarray:
    """The noise variance of each part: (S, 1)."""
    noise = [float(f.evidence.values(z)["noise"]) for f, z in zip(fits, zs, strict=True)]
    return np.reshape(noise, (-1, 1))
