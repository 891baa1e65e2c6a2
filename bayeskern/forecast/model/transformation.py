"""The scale that a series is fitted on: standardised as it is, or after the logarithm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr, ndtri

from bayeskern.likelihoods.numpy_likelihoods import NumpyLikelihood

# Zero is a bound where this share of the values lies at it, and none below.
LEAST_ZEROS = 0.05
# From this share of zeros on, ranks say more of a series than its values.
MANY_ZEROS = 0.2
# ... if the series returns from zero so often: one that has stopped is none of them.
MIN_RETURNS = 3
# Logs of the factors above the median forecast, and above the largest value of the series, from
# which a forecast of the logarithm grows in proportion to its error, and not exponentially.
MAX_LOG_ABOVE_MEDIAN, MAX_LOG_ABOVE_LARGEST = 0.5, 1.0
# Logarithms of values beyond this are cut off, so that there is room for sums of them, and errors
# of the log this far beyond.
MAX_LOG, MAX_LOG_EXCESS = 690.0, 1e6
# Sizes beyond which a number among ordinary ones is an error, or 0.
MAX_SIZE, MIN_SIZE = 1e100, 1e-100


@dataclass(frozen=True)
class Scale:
    """y <-> z: z = (g(y) - shift) / size, with g the identity or the logarithm.

    Attributes:
        log: Whether g is the logarithm.
        shift: The mean of g(y) over the series.
        size: The standard deviation of g(y) over the series; 0 for a constant series.
        largest: The largest g(y); infinite where none is known.
        linear_share: The share of a forecast of the logarithm that grows linearly above `largest`.
    """

    log: bool
    shift: float
    size: float
    largest: float = field(default=np.inf, kw_only=True)
    linear_share: float = field(default=0.0, kw_only=True)

    @property
    def is_affine(self) -> bool:
        """Whether `back` is a straight line."""
        return not self.log

    @property
    def atoms(self) -> np.ndarray:
        """Values y with a probability of their own: (k,)."""
        return np.zeros(0)

    @classmethod
    def of(cls, y: np.ndarray, log: bool, linear_share: float = 0.0) -> Scale:
        """The scale on which y has mean 0 and standard deviation 1."""
        g = np.log(y) if log else y
        shift, size, largest = float(np.mean(g)), float(np.std(g)), float(np.max(g))
        return cls(log, shift, size, largest=largest, linear_share=linear_share)

    @property
    def of_differences(self) -> Scale:
        """The scale of differences of g(y), which are logs of factors if g is the logarithm."""
        return replace(self, shift=0.0, largest=np.inf, linear_share=0.0)

    def forward(self, y) -> np.ndarray:
        """y -> z."""
        return ((np.log(y) if self.log else np.asarray(y)) - self.shift) / self.size

    def back(self, z) -> np.ndarray:
        """z -> y."""
        g = self.shift + self.size * np.asarray(z)
        return np.exp(g) if self.log else g

    def ahead(self, mean, deviation) -> np.ndarray:
        """Forecast of y where z has the given mean and deviates from it, (..., m) both.

        The exponential is continued by its tangent, in value and slope, above exp(0.5) times the
        median forecast and above exp(1) times the largest value of the series; a share of it,
        `linear_share`, above that value already. So the mean and the variance are finite, and
        growth that a series has never shown is not exponential.
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

    def log_jacobian(self, y) -> np.ndarray:
        """log |dz/dy| at each y: what turns a density of z into one of y."""
        slope = np.full(np.shape(y), -np.log(self.size))
        return slope - np.log(y) if self.log else slope


def _exponential_up_to(limit, g) -> np.ndarray:
    """exp(g), continued by its tangent above exp(limit)."""
    inside = np.minimum(g, limit)
    excess = np.minimum(g - inside, MAX_LOG_EXCESS)
    return np.exp(np.minimum(inside, MAX_LOG)) * (1.0 + excess)


@dataclass(frozen=True, eq=False)
class NormalScores(Scale):
    """y <-> z by ranks: z is the normal score of y, standardised.

    For values of which many are the same, zeros above all. What is forecast lies within the range
    of the series, with the shares of its values. There is no density of y and so no Jacobian.

    References:
        Blom (1958), "Statistical estimates and transformed beta-variables", on normal scores.

    Attributes:
        ordered: The values of the series, sorted, (n,).
        distinct: Those that differ, sorted, (k,).
        scores: The mean normal score of each of these, (k,).
        origin: The value that `back` subtracts.
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
        """Values that are there twice, and the ends."""
        ordered = self.ordered
        tied = ordered[1:][np.diff(ordered) == 0.0]
        return np.concatenate([tied, ordered[:1], ordered[-1:]]) - self.origin

    @classmethod
    def of(cls, y: np.ndarray, log: bool = False) -> NormalScores:
        """The normal scores of values y (n,)."""
        n = len(y)
        distinct, counts = np.unique(y, return_counts=True)
        ends = np.cumsum(counts)
        sums = np.append(0.0, np.cumsum(ndtri((np.arange(n) + 0.5) / n)))
        scores = (sums[ends] - sums[ends - counts]) / counts
        spread = np.sqrt(counts @ np.square(scores) / n)
        return cls(False, 0.0, 1.0, np.sort(y), distinct, scores / spread)

    @property
    def of_differences(self) -> NormalScores:
        """The scale of differences from the median of the series."""
        return replace(self, origin=float(self.back(0.0)))

    def forward(self, y) -> np.ndarray:
        return np.interp(y, self.distinct, self.scores)

    def back(self, z) -> np.ndarray:
        return np.quantile(self.ordered, ndtr(z), method="hazen") - self.origin

    def log_jacobian(self, y) -> np.ndarray:
        return np.zeros(np.shape(y))


class LatentScale(Scale):
    """That of a latent process seen through a likelihood: f = shift + size z, while y stays y."""

    def forward(self, y) -> np.ndarray:
        return np.asarray(y)

    def log_jacobian(self, y) -> np.ndarray:
        return np.zeros(np.shape(y))


def is_constant(y: np.ndarray) -> bool:
    """Whether y varies by no more than rounding."""
    return bool(np.ptp(y) <= 1e-14 * np.max(np.abs(y)))


def ordinary(y: np.ndarray, labels) -> tuple[np.ndarray, tuple[str, ...]]:
    """The values, those beyond any unit taken for what they must be, and remarks.

    A value beyond MAX_SIZE beside ordinary ones is an error of the data, and is left out (NaN); one
    below MIN_SIZE is 0.

    Args:
        y: Values, (n,).
        labels: () -> their times, as one writes them.

    Raises:
        ValueError: If all values are beyond what can be computed with.
    """
    sizes = np.abs(y)
    huge = sizes > MAX_SIZE
    tiny = (sizes < MIN_SIZE) & (sizes > 0.0)
    middle = np.median(sizes)
    if middle > MAX_SIZE or 0.0 < middle < MIN_SIZE:
        raise ValueError(
            f"the values reach {np.max(sizes):.3g} in size and vary by {np.ptp(y):.3g}, out of "
            "the range that can be computed with; give them in another unit."
        )
    remarks = []
    for which, does in ((huge, "left out as an error"), (tiny, "taken for 0")):
        if which.any():
            row = int(np.argmax(which))
            more = f", and {int(which.sum()) - 1} more," if which.sum() > 1 else ""
            remarks.append(f"the value {y[row]:.3g} at {labels()[row]}{more} is {does}")
    return np.where(huge, np.nan, np.where(tiny, 0.0, y)), tuple(remarks)


def bounds_of(y: np.ndarray, lower: float | None, upper: float | None, labels) -> tuple:
    """The least and the largest value that there can be, and a remark if zero was found to be one.

    lower, upper: None where they are not said; labels: of the times, a function of their number.
    Raises ValueError where a value lies beyond them.
    """
    remark = ()
    zeros = int(np.sum(y == 0.0))
    if lower is None and np.min(y) == 0.0 < np.ptp(y) and zeros >= max(2, LEAST_ZEROS * len(y)):
        lower = 0.0
        remark = (
            f"the series is 0 at {zeros} of {len(y)} times and never less: taken for its lower "
            "bound (StructuralModel(lower=-inf), --lower=-inf, for none)",
        )
    bounds = (-np.inf if lower is None else float(lower), np.inf if upper is None else float(upper))
    beyond = (y < bounds[0]) | (y > bounds[1])
    if beyond.any():
        row = int(np.argmax(beyond))
        raise ValueError(
            f"the value {y[row]:g} at {labels()[row]} lies beyond the bounds {bounds[0]:g} and "
            f"{bounds[1]:g}."
        )
    return bounds, remark


def require_possible(y: np.ndarray, likelihood: NumpyLikelihood, labels) -> None:
    """Raise ValueError naming the first time whose value the likelihood rules out.

    labels: of the times, a function.
    """
    smallest, largest = likelihood.smallest, likelihood.largest
    can_be = (y >= smallest) & (y <= largest)
    if likelihood.whole:
        can_be &= y == np.round(y)
    if not likelihood.takes_ends:
        can_be &= (y > smallest) & (y < largest)
    if not can_be.all():
        row = int(np.argmin(can_be))
        kind = "whole numbers of at least 0"
        if not likelihood.whole:
            kind = f"numbers between {smallest:g} and {largest:g}, not at the ends"
        raise ValueError(
            f"{likelihood.title} are {kind}, and the value at {labels()[row]} is {y[row]:g}."
        )


def require_positive(y: np.ndarray, labels: list[str]) -> None:
    """Raise ValueError naming the first time (one of labels) whose value is not above zero."""
    if not np.all(y > 0):
        row = int(np.argmin(y > 0))
        raise ValueError(
            "the logarithm (StructuralModel(log=True), --log, --positive) needs every value above "
            f"zero, but the value at {labels[row]} is {y[row]:g}. Model the values as they are, or "
            "add a small constant to the series."
        )
