"""Averages of the quantiles of several predictive distributions.

Averages of quantiles (Vincent, 1912) are as sharp as their parts, where mixtures of distributions
that differ in location are wider: Lichtendahl, Grushka-Cockayne and Winkler (2013), "Is it better
to average probabilities or quantiles?". Each part says y = T(m + s e), with T a transformation; the
average is y = sum_k w_k T_k(m_k + s_k e), with one e of all of them that has Student's t
distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from bayeskern.prediction.mixture import MIN_SD, Quantiles
from bayeskern.prediction.student_errors import StudentErrors

# The tail probability where quadrature ends, and its nodes.
TAIL, NODES = 1e-6, 160
# Errors of scale one lie within this, and halvings until one is known to the last digits.
MAX_ERROR, HALVINGS = 1e6, 64
# Errors of one value that are no further apart are one error.
MIN_TIE = 1e-6


class Transformation(Protocol):
    """A non-decreasing function T of z, by which a value of y is forecast."""

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
        """Size of an affine T."""
        ...

    @property
    def atoms(self) -> np.ndarray:
        """Values that T has at many z, (k,)."""
        ...

    def ahead(self, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """T(mean + deviation), (..., m), where z has that mean."""
        ...


class QuantileAverage(Quantiles):
    """Averaged quantiles of K predictive distributions at m times.

    Args:
        weights: Of the parts, (K,); they sum to one.
        transformations: T of each part.
        means: Means of z, (K, m).
        sds: Standard deviations of z, (K, m).
        errors: The distribution of e; standard normal if None.
        bounds: The least and the largest value that there can be.
        correlation: () -> correlation of the errors at all times, (m, m).
    """

    def __init__(
        self,
        weights,
        transformations: Sequence[Transformation],
        means,
        sds,
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
        return QuantileAverage(
            self.weights,
            self.transformations,
            self.means,
            self.sds,
            errors,
            self.bounds,
            self._correlation,
        )

    def values(self, errors) -> np.ndarray:
        """sum_k w_k T_k(m_k + s_k e) at errors e (..., m), within the bounds."""
        each = zip(self.weights, self.transformations, self.means, self.sds, strict=True)
        (_, first), *others = [
            (weight, transformation.ahead(mean, sd * errors))
            for weight, transformation, mean, sd in each
            if weight > 0.0
        ]
        # About the first, so that a value on which all agree has no rounding error.
        total = first + sum(weight * (value - first) for weight, value in others)
        return np.clip(total, *self.bounds)

    def quantile(self, q) -> np.ndarray:
        """Quantiles for probabilities q: (*q.shape, m)."""
        q = np.asarray(q, float)
        return self.values(self.errors.quantile(q)[..., None] * self.errors.scales)

    def errors_of(self, y) -> np.ndarray:
        """The errors e at which the values are y (m,): (m,).

        A bound, and a rank that is tied, is the value of many errors: of these the root mean square
        under N(0, 1), so that squares of errors have mean 1 where the models are right.
        """
        low = self._errors(y, np.less)
        has_mass = np.isfinite(self.bounds).any() or len(self._atoms) > 0
        return _typical(low, self._errors(y, np.less_equal)) if has_mass else low

    def _errors(self, y, before: Callable) -> np.ndarray:
        """The errors up to which the values lie before y (m,), by bisection: (m,)."""
        limit = np.arcsinh(MAX_ERROR)
        low, high = np.full(np.shape(y), -limit), np.full(np.shape(y), limit)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            is_before = before(self.values(np.sinh(middle)), y)
            low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
        return np.sinh(0.5 * (low + high))

    def below(self, y) -> np.ndarray:
        """The probability of less than y (m,), time by time."""
        return self.errors.below(self._errors(y, np.less) / self.errors.scales)

    @property
    def mean(self) -> np.ndarray:
        """The mean of each value: (m,)."""
        return self._moments[0]

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of each value: (m,)."""
        return self._moments[1]

    @property
    def variance(self) -> np.ndarray:
        """The variance of each value: (m,)."""
        return np.square(self.sd)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, by quadrature where a value is not affine in the error."""
        if np.all(np.isinf(self.bounds)) and all(t.is_affine for t in self.transformations):
            return self._moments_of_line()
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        # Nodes that are dense where the density is high: e = sinh(a v).
        a = np.arcsinh(-self.errors.quantile(TAIL))
        errors = np.sinh(a * nodes)
        weights = weights * np.cosh(a * nodes) * np.exp(self.errors.log_density(errors))
        weights /= weights.sum()
        values = self.values(errors[:, None] * self.errors.scales)
        # About one of the values, so that the mean of a constant is that constant.
        centre = values[NODES // 2]
        mean = centre + weights @ (values - centre)
        # Divided by their size, since squares may overflow.
        size = np.maximum(np.max(np.abs(values - mean), axis=0), MIN_SD)
        return mean, size * np.sqrt(weights @ np.square((values - mean) / size))

    def _moments_of_line(self) -> tuple[np.ndarray, np.ndarray]:
        shifts, sizes = np.array([(t.shift, t.size) for t in self.transformations]).T[:, :, None]
        mean = self.weights @ (shifts + sizes * self.means)
        sd = self.weights @ (sizes * self.sds)
        return mean, sd * self.errors.scales * self.errors.sd

    def log_density(self, y) -> np.ndarray:
        """The log density of values y (m,), time by time; at a bound, the log of its mass."""
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
        """Values with a probability of their own: (k,). Ranks have one scale for all parts."""
        return self.transformations[0].atoms

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the values at all times: (n, m)."""
        rng = np.random.default_rng(seed)
        return self.values(self.errors.sample(self._correlation(), n, rng))


def _typical(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Root mean square of e ~ N(0, 1) in (low, high), (m,) both, with the sign of the middle."""
    above = low + high > 0.0
    # By symmetry: the tail below 0 loses no digits.
    a, b = np.where(above, -high, low), np.where(above, -low, high)
    mass = ndtr(b) - ndtr(a)
    density = np.exp(-0.5 * np.square([a, b])) / np.sqrt(2.0 * np.pi)
    is_wide = (b - a > MIN_TIE) & (mass > 0.0)
    square = 1.0 - (b * density[1] - a * density[0]) / np.where(is_wide, mass, 1.0)
    size = np.where(is_wide, np.sqrt(np.maximum(square, 0.0)), -b)
    return np.where(above, size, -size)
