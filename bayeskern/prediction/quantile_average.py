"""Averaged quantiles of several predictive distributions.

Averages of quantiles (Vincent, 1912) are as sharp as their parts, while mixtures of distributions
with different locations are wider: Lichtendahl, Grushka-Cockayne and Winkler (2013), "Is it better
to average probabilities or quantiles?". Part k is y = T_k(m_k + s_k e), with a transformation T_k
and an error e. The average is y = sum_k w_k T_k(m_k + s_k e), with weights w_k and the same Student
t error e in all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from bayeskern.prediction.mixture import MIN_SD, Quantiles, bisected
from bayeskern.prediction.student_errors import StudentErrors

# Largest absolute error e in a search or an integral.
MAX_ERROR = 1e6


class Transformation(Protocol):
    """A non-decreasing function T from transformed values z to values y."""

    @property
    def is_affine(self) -> bool:
        """True if T(z) = shift + size z."""
        ...

    @property
    def shift(self) -> float:
        """Shift of an affine T."""
        ...

    @property
    def size(self) -> float:
        """Slope of an affine T."""
        ...

    @property
    def atoms(self) -> np.ndarray:
        """Values that T takes on whole intervals of z, (k,)."""
        ...

    def ahead(self, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Forecast T(mean + deviation), (..., m); T may limit growth beyond the mean (m,)."""
        ...


class QuantileAverage(Quantiles):
    """Averaged quantiles of K predictive distributions at m times.

    Args:
        weights: Weights of the parts, (K,), which sum to one.
        transformations: T_k of each part.
        means: Means m_k of z, (K, m).
        sds: Standard deviations s_k of z, (K, m).
        errors: Distribution of e; standard normal if None.
        bounds: Lower and upper bounds of the values.
        correlation: () -> correlation of the errors between times, (m, m), for joint draws.
    """

    def __init__(
        self,
        weights: ArrayLike,
        transformations: Sequence[Transformation],
        means: ArrayLike,
        sds: ArrayLike,
        errors: StudentErrors | None = None,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        correlation: Callable[[], np.ndarray] | None = None,
    ):
        self.weights, self.transformations = np.asarray(weights), tuple(transformations)
        self.means, self.sds = np.asarray(means), np.maximum(sds, MIN_SD)
        self.errors = StudentErrors.normal(self.means.shape[1]) if errors is None else errors
        self.bounds, self._correlation = bounds, correlation

    def with_errors(self, errors: StudentErrors) -> QuantileAverage:
        """Copy with another distribution of the error."""
        parts = self.weights, self.transformations, self.means, self.sds
        return QuantileAverage(*parts, errors, self.bounds, self._correlation)

    def values(self, errors: np.ndarray) -> np.ndarray:
        """Values sum_k w_k T_k(m_k + s_k e) at errors e (..., m), within the bounds."""
        parts = zip(self.weights, self.transformations, self.means, self.sds, strict=True)
        (_, first), *others = [
            (weight, transformation.ahead(mean, sd * errors))
            for weight, transformation, mean, sd in parts
            if weight > 0.0
        ]
        # Differences from the first part, so that the average of equal values is exact.
        total = first + sum(weight * (value - first) for weight, value in others)
        return np.clip(total, *self.bounds)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles for probabilities q, (*q.shape, m)."""
        errors = self.errors.quantile(np.asarray(q, float))
        return self.values(errors[..., None] * self.errors.scales)

    def errors_of(self, y: np.ndarray) -> np.ndarray:
        """Errors e at which the values are y (m,): (m,).

        At a bound or a tied rank, an interval of errors has the same value. The root mean square of
        N(0, 1) on the interval is returned, so that squared errors have mean 1 if the models are
        correct.
        """
        low, high = self._range(y)
        return low if high is low else _rms_between(low, high)

    def _range(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest errors at which the values are y (m,): (m,) each."""
        low = self._errors(y, np.less)
        has_mass = np.isfinite(self.bounds).any() or len(self._atoms) > 0
        return low, self._errors(y, np.less_equal) if has_mass else low

    def _errors(self, y: np.ndarray, compare: Callable) -> np.ndarray:
        """Largest errors e with compare(value at e, y), by bisection on arcsinh e: (m,)."""
        limit = np.full(np.shape(y), np.arcsinh(MAX_ERROR))
        low, high = bisected(lambda v: ~compare(self.values(np.sinh(v)), y), -limit, limit)
        return np.sinh(0.5 * (low + high))

    def below(self, y: np.ndarray) -> np.ndarray:
        """Probability of a value less than y (m,) at each time, (m,)."""
        return self.errors.below(self._errors(y, np.less) / self.errors.scales)

    def tails(self, y: np.ndarray) -> np.ndarray:
        """Smaller of the probabilities of a value of at most y (m,) and of at least y: (m,)."""
        low, high = self._range(y)
        at_most = self.errors.below(high / self.errors.scales)
        at_least = self.errors.below(-low / self.errors.scales)
        return np.minimum(at_most, at_least)

    @property
    def mean(self) -> np.ndarray:
        """Mean of each value, (m,)."""
        return self._moments[0]

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each value, (m,)."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation; by quadrature unless the values are affine in e."""
        if np.all(np.isinf(self.bounds)) and all(t.is_affine for t in self.transformations):
            shifts = np.array([t.shift for t in self.transformations])[:, None]
            sizes = np.array([t.size for t in self.transformations])[:, None]
            sd = self.weights @ (sizes * self.sds)
            mean = self.weights @ (shifts + sizes * self.means)
            return mean, sd * self.errors.scales * self.errors.sd
        nodes, weights = np.polynomial.legendre.leggauss(160)
        # Nodes e = sinh(a v), |v| < 1, are dense near 0 and leave out tails of probability 1e-6.
        a = np.arcsinh(-self.errors.quantile(1e-6))
        errors = np.sinh(a * nodes)
        weights = weights * np.cosh(a * nodes) * np.exp(self.errors.log_density(errors))
        weights /= weights.sum()
        values = self.values(errors[:, None] * self.errors.scales)
        # Differences from a central value, so that the mean of a constant is exact.
        centre = values[len(nodes) // 2]
        mean = centre + weights @ (values - centre)
        # Deviations are scaled, since their squares may overflow.
        size = np.maximum(np.max(np.abs(values - mean), axis=0), MIN_SD)
        return mean, size * np.sqrt(weights @ np.square((values - mean) / size))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log density of y (m,) at each time; at a bound or an atom, its log probability."""
        y = np.asarray(y, float)
        errors, scales = self._errors(y, np.less), self.errors.scales
        step = 1e-5 * np.maximum(1.0, np.abs(errors))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = (self.values(errors + step) - self.values(errors - step)) / (2.0 * step)
            density = self.errors.log_density(errors / scales) - np.log(scales * slope)
            least, largest = self.values(-MAX_ERROR + 0.0 * y), self.values(MAX_ERROR + 0.0 * y)
            is_impossible = (y < least) | (y > largest) | ~(slope > 0.0)
            density = np.where(is_impossible, -np.inf, density)
            for bound in np.unique([*self.bounds, *self._atoms]):
                at_bound = y == bound
                if np.any(at_bound):
                    gap = 1e-9 * max(1.0, abs(bound))
                    mass = self.below(np.where(at_bound, bound + gap, y))
                    mass = mass - self.below(np.where(at_bound, bound - gap, y))
                    density = np.where(at_bound, np.log(np.maximum(mass, 1e-300)), density)
        return density

    @property
    def _atoms(self) -> np.ndarray:
        """Values with positive probability, (k,)."""
        # Only rank transformations have atoms, and all parts share one rank transformation.
        return self.transformations[0].atoms

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the values at all times, (n, m).

        Args:
            n: Number of draws.
            seed: Seed of the draws.

        Raises:
            ValueError: If the correlation of the errors is unknown.
        """
        if self._correlation is None:
            raise ValueError(
                "joint draws need the correlation of the errors; this prediction has none."
            )
        rng = np.random.default_rng(seed)
        return self.values(self.errors.sample(self._correlation(), n, rng))


def _rms_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Root mean square of N(0, 1) on [low, high], with the sign of the midpoint: (m,).

    E[e^2 | a < e < b] = 1 - (b phi(b) - a phi(a)) / (Phi(b) - Phi(a)).
    """
    is_positive = low + high > 0.0
    # Intervals are reflected into the lower tail, where ndtr keeps its digits.
    a, b = np.where(is_positive, -high, low), np.where(is_positive, -low, high)
    mass = ndtr(b) - ndtr(a)
    density = np.exp(-0.5 * np.square([a, b])) / np.sqrt(2.0 * np.pi)
    # A narrower interval is treated as a single error.
    is_wide = (b - a > 1e-6) & (mass > 0.0)
    square = 1.0 - (b * density[1] - a * density[0]) / np.where(is_wide, mass, 1.0)
    size = np.where(is_wide, np.sqrt(np.maximum(square, 0.0)), -b)
    return np.where(is_positive, size, -size)
