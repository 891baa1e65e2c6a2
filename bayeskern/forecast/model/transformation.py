"""Scales on which a series is modelled: values, logarithms or ranks, standardised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bayeskern.likelihoods.analytic import Analytic

# Absolute value above which a number in a series is an error.
MAX_VALUE = 1e100
# Logarithms of two factors, of the median forecast and of the largest value. Above the smaller
# product, a forecast of the logarithm grows linearly instead of exponentially in its error.
MAX_LOG_ABOVE_MEDIAN, MAX_LOG_ABOVE_LARGEST = 0.5, 1.0


@dataclass(frozen=True)
class Scale:
    """y <-> z: z = (g(y) - shift) / size, with g the identity or the logarithm.

    Attributes:
        log: True if g is the logarithm.
        shift: Mean of g(y) over the series.
        size: Standard deviation of g(y) over the series; 0 for a constant series.
        largest: Largest g(y); infinite if it is unknown.
        linear_share: Share of a forecast of the logarithm that is linear above `largest`.
    """

    log: bool
    shift: float
    size: float
    largest: float = field(default=np.inf, kw_only=True)
    linear_share: float = field(default=0.0, kw_only=True)

    @property
    def is_affine(self) -> bool:
        """True if `back` is a straight line."""
        return not self.log

    @property
    def atoms(self) -> np.ndarray:
        """Values y with positive probability, (k,)."""
        return np.zeros(0)

    @classmethod
    def from_values(cls, y: np.ndarray, log: bool, linear_share: float = 0.0) -> Scale:
        """Scale on which y has mean 0 and standard deviation 1."""
        g = np.log(y) if log else y
        shift, size, largest = float(np.mean(g)), float(np.std(g)), float(np.max(g))
        return cls(log, shift, size, largest=largest, linear_share=linear_share)

    @property
    def of_differences(self) -> Scale:
        """Scale of differences of g(y); `back` returns factors if g is the logarithm."""
        return replace(self, shift=0.0, largest=np.inf, linear_share=0.0)

    def forward(self, y: ArrayLike) -> np.ndarray:
        """y -> z."""
        return ((np.log(y) if self.log else np.asarray(y)) - self.shift) / self.size

    def back(self, z: ArrayLike) -> np.ndarray:
        """z -> y."""
        g = self.shift + self.size * np.asarray(z)
        return np.exp(g) if self.log else g

    def ahead(self, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Forecast of y at z = mean + deviation, (..., m) both.

        With the logarithm, y = exp(g) up to a limit and its tangent above: exp(0.5) times the
        median forecast or exp(1) times the largest value of the series, whichever is smaller. A
        share `linear_share` of y already follows the tangent above the largest value. The mean and
        the variance are thus finite, and exponential growth is not extrapolated beyond the range
        of the series.
        """
        if not self.log:
            return self.back(mean + deviation)
        median = self.shift + self.size * mean
        g = median + self.size * deviation
        limit = np.minimum(median + MAX_LOG_ABOVE_MEDIAN, self.largest + MAX_LOG_ABOVE_LARGEST)
        forecast = _exponential_up_to(limit, g)
        if self.linear_share == 0.0:
            return forecast
        linear = _exponential_up_to(np.minimum(limit, self.largest), g)
        return forecast + self.linear_share * (linear - forecast)

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        """log |dz/dy| at each y, (n,); log p(y) = log p(z) + log |dz/dy|."""
        slope = np.full(np.shape(y), -np.log(self.size))
        return slope - np.log(y) if self.log else slope


def _exponential_up_to(limit: np.ndarray, g: np.ndarray) -> np.ndarray:
    """exp(g), continued by its tangent above exp(limit)."""
    inside = np.minimum(g, limit)
    # Clipped so that neither the values nor their sums overflow.
    excess = np.minimum(g - inside, 1e6)
    return np.exp(np.minimum(inside, 690.0)) * (1.0 + excess)


@dataclass(frozen=True, eq=False)
class NormalScores(Scale):
    """y <-> z by ranks: z is the normal score of y, standardised.

    For series with many equal values, such as zeros. Forecasts lie within the range of the series.
    y has no density, so the log Jacobian is set to 0.

    References:
        Blom (1958), "Statistical estimates and transformed beta-variables", on normal scores.

    Attributes:
        ordered: Values of the series, sorted, (n,).
        distinct: Distinct values, sorted, (k,).
        scores: Standardised mean normal score of each distinct value, (k,).
        origin: Value that `back` subtracts; nonzero for differences.
    """

    ordered: np.ndarray
    distinct: np.ndarray
    scores: np.ndarray
    origin: float = field(default=0.0, kw_only=True)

    @property
    def is_affine(self) -> bool:
        return False

    @property
    def atoms(self) -> np.ndarray:
        """Values that occur at least twice, and the two ends of the range, minus `origin`."""
        ordered = self.ordered
        tied = ordered[1:][np.diff(ordered) == 0.0]
        return np.concatenate([tied, ordered[:1], ordered[-1:]]) - self.origin

    @classmethod
    def from_values(
        cls, y: np.ndarray, log: bool = False, linear_share: float = 0.0
    ) -> NormalScores:
        """Normal scores of values y (n,)."""
        n = len(y)
        distinct, counts = np.unique(y, return_counts=True)
        ends = np.cumsum(counts)
        sums = np.append(0.0, np.cumsum(ndtri((np.arange(n) + 0.5) / n)))
        scores = (sums[ends] - sums[ends - counts]) / counts
        spread = np.sqrt(counts @ np.square(scores) / n)
        return cls(False, 0.0, 1.0, np.sort(y), distinct, scores / spread)

    @property
    def of_differences(self) -> NormalScores:
        """Scale of differences from the median of the series."""
        return replace(self, origin=float(self.back(0.0)))

    def forward(self, y: ArrayLike) -> np.ndarray:
        return np.interp(np.asarray(y), self.distinct, self.scores)

    def back(self, z: ArrayLike) -> np.ndarray:
        return np.quantile(self.ordered, ndtr(z), method="hazen") - self.origin

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(y))


class LatentScale(Scale):
    """Scale of a latent process f = shift + size z; `forward` leaves the observations y as is."""

    def forward(self, y: ArrayLike) -> np.ndarray:
        return np.asarray(y)

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(y))


def is_constant(y: np.ndarray) -> bool:
    """True if y varies by no more than rounding errors."""
    return bool(np.ptp(y) <= 1e-14 * np.max(np.abs(y)))


def plausible_values(
    y: np.ndarray, labels: Callable[[], list[str]]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Replace values of implausible magnitude, and remark on them.

    A value above MAX_VALUE in absolute value is taken as an error and becomes NaN; a value below
    1 / MAX_VALUE becomes 0.

    Args:
        y: Values, (n,).
        labels: () -> times of the values as text, for messages.

    Returns:
        The values, (n,), and the remarks.

    Raises:
        ValueError: The median magnitude is implausible.
    """
    sizes, min_size = np.abs(y), 1.0 / MAX_VALUE
    huge = sizes > MAX_VALUE
    tiny = (sizes < min_size) & (sizes > 0.0)
    median_size = np.median(sizes)
    if median_size > MAX_VALUE or 0.0 < median_size < min_size:
        raise ValueError(
            f"most values must lie between {min_size:g} and {MAX_VALUE:g} in absolute value; the "
            f"median is {median_size:.3g}: give them in another unit."
        )
    remarks = []
    for rows, treatment in ((huge, "left out as an error"), (tiny, "taken for 0")):
        if rows.any():
            row = int(np.argmax(rows))
            more = f", and {int(rows.sum()) - 1} more," if rows.sum() > 1 else ""
            remarks.append(f"the value {y[row]:.3g} at {labels()[row]}{more} is {treatment}")
    return np.where(huge, np.nan, np.where(tiny, 0.0, y)), tuple(remarks)


def bounds_of(
    y: np.ndarray, lower: float | None, upper: float | None, labels: Callable[[], list[str]]
) -> tuple[tuple[float, float], tuple[str, ...]]:
    """Smallest and largest possible value, and a remark if 0 was inferred as a bound.

    Args:
        y: Values, (n,).
        lower: Smallest possible value; None to infer it.
        upper: Largest possible value; None for no bound.
        labels: () -> times of the values, for messages.

    Raises:
        ValueError: A value lies beyond a bound.
    """
    remarks = ()
    zeros = int(np.sum(y == 0.0))
    # At least 5 % zeros and no negative value suggest a bound.
    if lower is None and np.min(y) == 0.0 < np.ptp(y) and zeros >= max(2, 0.05 * len(y)):
        lower = 0.0
        remarks = (
            f"the series is 0 at {zeros} of {len(y)} times and never negative: 0 is taken as its "
            "lower bound (StructuralModel(lower=-inf) or --lower=-inf removes it)",
        )
    bounds = (-np.inf if lower is None else float(lower), np.inf if upper is None else float(upper))
    within = (y >= bounds[0]) & (y <= bounds[1])
    require_all(within, y, labels, f"values must lie between {bounds[0]:g} and {bounds[1]:g}")
    return bounds, remarks


def require_possible(y: np.ndarray, likelihood: Analytic, labels: Callable[[], list[str]]) -> None:
    """Raise ValueError for the first value that is impossible under the likelihood."""
    kind = "whole numbers of at least 0"
    if not likelihood.whole:
        kind = f"numbers strictly between {likelihood.smallest:g} and {likelihood.largest:g}"
    possible = likelihood.in_support(y, **dict.fromkeys(likelihood.needs, np.ones(len(y))))
    require_all(possible, y, labels, f"{likelihood.title} must be {kind}")


def require_all(
    possible: np.ndarray, y: np.ndarray, labels: Callable[[], list[str]], requirement: str
) -> None:
    """Raise ValueError, with value and time, for the first y (n,) that is not possible."""
    if not possible.all():
        row = int(np.argmin(possible))
        raise ValueError(f"{requirement}; the value at {labels()[row]} is {y[row]:g}.")
