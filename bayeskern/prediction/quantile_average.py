"""Averaged quantiles of several predictive distributions.

Averages of quantiles (Vincent, 1912) are as sharp as their parts, while mixtures of distributions
with different locations are wider: Lichtendahl, Grushka-Cockayne and Winkler (2013), "Is it better
to average probabilities or quantiles?". Part k models y = T_k(m_k + s_k e) with a transformation
T_k; the average is y = sum_k w_k T_k(m_k + s_k e), with a common error e from Student's t
distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from bayeskern.prediction.mixture import MIN_SD, Quantiles
from bayeskern.prediction.student_errors import StudentErrors

# Bound on errors of scale one.
MAX_ERROR = 1e6


class Transformation(Protocol):
    """A non-decreasing function T from z to y."""

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
        """T(mean + deviation) for z of that mean, (..., m)."""
        ...


class QuantileAverage(Quantiles):
    """Averaged quantiles of K predictive distributions at m times.

    Args:
        weights: Weights of the parts, (K,), which sum to one.
        transformations: T of each part.
        means: Means of z, (K, m).
        sds: Standard deviations of z, (K, m).
        errors: Distribution of e; standard normal if None.
        bounds: Lower and upper bound of the values.
        correlation: () -> correlation of the errors at all times, (m, m), for joint draws.
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
        """A copy with another distribution of the error."""
        other = copy(self)
        other.errors = errors
        vars(other).pop("_moments", None)
        return other

    def values(self, errors: np.ndarray) -> np.ndarray:
        """Values sum_k w_k T_k(m_k + s_k e) at errors e (..., m), within the bounds."""
        each = zip(self.weights, self.transformations, self.means, self.sds, strict=True)
        (_, first), *others = [
            (weight, transformation.ahead(mean, sd * errors))
            for weight, transformation, mean, sd in each
            if weight > 0.0
        ]
        # Relative to the first part, so that equal values have no rounding error.
        total = first + sum(weight * (value - first) for weight, value in others)
        return np.clip(total, *self.bounds)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles for probabilities q, (*q.shape, m)."""
        errors = self.errors.quantile(np.asarray(q, float))
        return self.values(errors[..., None] * self.errors.scales)

    def errors_of(self, y: np.ndarray) -> np.ndarray:
        """Errors e at which the values are y (m,): (m,).

        A bound, or a tied rank, is the value of an interval of errors. Their root mean square under
        N(0, 1) is taken, so that squares of errors have mean 1 if the models are right.
        """
        low = self._errors(y, np.less)
        has_mass = np.isfinite(self.bounds).any() or len(self._atoms) > 0
        return _typical(low, self._errors(y, np.less_equal)) if has_mass else low

    def _errors(self, y: np.ndarray, before: Callable) -> np.ndarray:
        """Errors up to which the values lie before y (m,), by bisection: (m,)."""
        limit = np.arcsinh(MAX_ERROR)
        low, high = np.full(np.shape(y), -limit), np.full(np.shape(y), limit)
        # After 64 halvings an error is known to its last digit.
        for _ in range(64):
            middle = 0.5 * (low + high)
            is_before = before(self.values(np.sinh(middle)), y)
            low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
        return np.sinh(0.5 * (low + high))

    def below(self, y: np.ndarray) -> np.ndarray:
        """Probability of less than y (m,) at each time."""
        return self.errors.below(self._errors(y, np.less) / self.errors.scales)

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
        """Mean and standard deviation; by quadrature, unless all values are affine in the error."""
        if np.all(np.isinf(self.bounds)) and all(t.is_affine for t in self.transformations):
            shifts = np.array([t.shift for t in self.transformations])[:, None]
            sizes = np.array([t.size for t in self.transformations])[:, None]
            sd = self.weights @ (sizes * self.sds)
            mean = self.weights @ (shifts + sizes * self.means)
            return mean, sd * self.errors.scales * self.errors.sd
        nodes, weights = np.polynomial.legendre.leggauss(160)
        # Nodes e = sinh(a v) are dense where the density is high, and end at tails of 1e-6.
        a = np.arcsinh(-self.errors.quantile(1e-6))
        errors = np.sinh(a * nodes)
        weights = weights * np.cosh(a * nodes) * np.exp(self.errors.log_density(errors))
        weights /= weights.sum()
        values = self.values(errors[:, None] * self.errors.scales)
        # Relative to one of the values, so that the mean of a constant is that constant.
        centre = values[len(nodes) // 2]
        mean = centre + weights @ (values - centre)
        # Scaled by their size, since squares may overflow.
        size = np.maximum(np.max(np.abs(values - mean), axis=0), MIN_SD)
        return mean, size * np.sqrt(weights @ np.square((values - mean) / size))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log density of values y (m,) at each time; at a bound or an atom, the log of its mass."""
        y = np.asarray(y, float)
        errors, scales = self._errors(y, np.less), self.errors.scales
        step = 1e-5 * np.maximum(1.0, np.abs(errors))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = (self.values(errors + step) - self.values(errors - step)) / (2.0 * step)
            density = self.errors.log_density(errors / scales) - np.log(scales * slope)
            least, largest = self.values(-MAX_ERROR + 0.0 * y), self.values(MAX_ERROR + 0.0 * y)
            beyond = (y < least) | (y > largest) | ~(slope > 0.0)
            density = np.where(beyond, -np.inf, density)
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
        """Values with positive probability, (k,); ranks have one scale for all parts."""
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
            raise ValueError("this prediction has no joint draws.")
        rng = np.random.default_rng(seed)
        return self.values(self.errors.sample(self._correlation(), n, rng))


def _typical(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Root mean square of e ~ N(0, 1) between low and high (m,), with the sign of the middle."""
    above = low + high > 0.0
    # By symmetry in the tail below 0, where no digits are lost.
    a, b = np.where(above, -high, low), np.where(above, -low, high)
    mass = ndtr(b) - ndtr(a)
    density = np.exp(-0.5 * np.square([a, b])) / np.sqrt(2.0 * np.pi)
    # Ends that are closer are one error.
    is_wide = (b - a > 1e-6) & (mass > 0.0)
    square = 1.0 - (b * density[1] - a * density[0]) / np.where(is_wide, mass, 1.0)
    size = np.where(is_wide, np.sqrt(np.maximum(square, 0.0)), -b)
    return np.where(above, size, -size)
