"""Predictions: lazy, equally weighted mixtures of Gaussians at new points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise
from scipy.special import logsumexp, ndtr, ndtri

from bayeskern.core import validation
from bayeskern.core.verdict import Verdict
from bayeskern.protocols import NewValues

if TYPE_CHECKING:
    import pandas as pd

NOT_FACTORED = (
    "the prediction is NaN: the covariance could not be factored for at least one draw of the "
    "hyperparameters, or a point lies outside of the box of a HilbertSpace. Check posterior.trust, "
    "the noise and the points."
)

Moments = Callable[[], tuple[np.ndarray, np.ndarray]]


def central_probabilities(level: float) -> list[float]:
    """Probabilities of the median and of the ends of a central interval."""
    tail = 0.5 * (1.0 - validation.level(level))
    return [0.5, tail, 1.0 - tail]


class Quantiles(ABC):
    """Base class of predictive distributions: sd, median, intervals, draws and table."""

    @property
    @abstractmethod
    def mean(self) -> np.ndarray:
        """The mean."""

    @abstractmethod
    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles for one probability or several."""

    #: (key, n) -> joint draws; None if they are not available.
    _draw: Callable[[jax.Array, int], np.ndarray] | None = None
    #: prediction -> verdict on it; None if it does not come from a posterior.
    check: Callable[[Quantiles], Verdict] | None = None

    @cached_property
    def trust(self) -> Verdict:
        """Verdict on the means and standard deviations at these points, by other draws.

        The predictions are made a second time, with draws of the posterior that were not averaged
        here, or with weighted draws. Computed on first access.
        """
        if self.check is None:
            reason = "This prediction does not come from posterior.predict, so there is no check."
            return Verdict("not assessable", reason)
        return self.check(self)

    # A subclass defines `variance` or `sd`; each default derives one from the other.

    @property
    def variance(self) -> np.ndarray:
        """The variance."""
        return np.square(self.sd)

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation."""
        return np.sqrt(self.variance)

    @property
    def median(self) -> np.ndarray:
        """The median."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Central interval.

        Args:
            level: Probability of the interval, between 0 and 1.

        Returns:
            The lower and the upper end.
        """
        tail = 0.5 * (1.0 - validation.level(level))
        return self.quantile(tail), self.quantile(1.0 - tail)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws at all points.

        Args:
            n: Number of draws.
            seed: Seed of the draws.

        Returns:
            Shape (n, m).

        Raises:
            ValueError: If the prediction has no joint draws.
        """
        if self._draw is None:
            raise ValueError("this prediction has no joint draws.")
        return without_nan(self._draw(jax.random.key(seed), validation.positive_integer(n, "n")))

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Data frame with a row for each point: mean, sd, median, lower and upper.

        Args:
            level: Probability of the central interval (lower, upper).
        """
        import pandas as pd  # slow to import

        return pd.DataFrame(self._columns(level))

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        """Columns of `to_frame`."""
        lower, upper = self.interval(level)
        columns = {"mean": self.mean, "sd": self.sd, "median": self.median}
        return columns | {"lower": lower, "upper": upper}


# Standard deviation that replaces zero.
MIN_SD = 1e-150


class Prediction(Quantiles):
    """Predictive distribution at m points: an equally weighted mixture of S Gaussians.

    There is a Gaussian for each draw of the hyperparameters. The mixture is the distribution of a
    new observation, or of the latent function if predicted with `latent=True`. It is lazy: each
    property is computed on first access, and the mean does not compute variances.

    Args:
        means: () -> means, shape (S, m).
        moments: () -> means and variances, shape (S, m) each.
        draw: (key, n) -> joint draws, shape (n, m).
        component: name -> Prediction of one additive component.
        components: Names of the additive components.

    Attributes:
        components: Names of the additive components.

    Examples:
        >>> import numpy as np
        >>> from bayeskern import Prediction
        >>> means, variances = np.array([[-1.0], [1.0]]), np.array([[1.0], [1.0]])
        >>> prediction = Prediction(lambda: means, lambda: (means, variances))
        >>> prediction.mean, prediction.variance
        (array([0.]), array([2.]))
        >>> lower, upper = prediction.interval(0.9)
        >>> upper.round(2)
        array([2.28])
    """

    #: name -> Prediction of one additive component; None if there are no components.
    _component: Callable[[str], Prediction] | None = None
    components: tuple[str, ...] = ()

    def __init__(
        self,
        means: Callable[[], np.ndarray],
        moments: Moments,
        draw: Callable[[jax.Array, int], np.ndarray] | None = None,
        component: Callable[[str], Prediction] | None = None,
        components: tuple[str, ...] = (),
    ):
        self._means, self._moments, self._draw = means, moments, draw
        self._component, self.components = component, components

    @classmethod
    def of(
        cls,
        means: np.ndarray,
        variances: np.ndarray,
        draw: Callable[[jax.Array, int], np.ndarray] | None = None,
    ) -> Prediction:
        """Prediction from known means and variances, (S, m) each."""
        return cls(partial(_known, means), partial(_known, (means, variances)), draw)

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean at each point, (m,)."""
        computed = self.__dict__.get("parts")
        return np.mean(computed[0] if computed else without_nan(self._means()), axis=0)

    @cached_property
    def variance(self) -> np.ndarray:
        """Variance at each point, (m,): the mean variance plus the variance of the means."""
        means, variances = self.parts
        return np.mean(variances, axis=0) + np.var(means, axis=0)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles at each point, by root finding on the distribution function.

        Args:
            q: One probability or several.

        Returns:
            Shape (m,) for one probability, (len(q), m) for several.
        """
        p = validation.probabilities(q)
        return np.stack([self._quantile(x) for x in p.ravel()]).reshape(*p.shape, -1)

    def cdf(self, x: ArrayLike) -> np.ndarray:
        """Probability of at most x at each point, the distribution function.

        Args:
            x: A number, or one for each point, (m,).

        Returns:
            Shape (m,). For example, 1 - slope.cdf(0) is the probability of a positive slope.
        """
        means, sds = self._gaussians()
        return ndtr((np.asarray(x) - means) / sds).mean(axis=0)

    def component(self, name: str) -> Prediction:
        """Predict one additive component of the latent function.

        Args:
            name: One of `components`.

        Raises:
            ValueError: If the prediction has no component of this name.
        """
        if self._component is None:
            raise ValueError(
                "this prediction has no components; name the terms of a sum of kernels."
            )
        return self._component(name)

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Log predictive density of new values at each point.

        Args:
            y: New values, shape (m,).

        Returns:
            Shape (m,).
        """
        means, variances = self.parts
        values = np.asarray(validation.targets(y, means.shape[1]))
        densities = -0.5 * (np.square(values - means) / variances + np.log(2.0 * np.pi * variances))
        return logsumexp(densities, axis=0) - np.log(len(means))

    @cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the Gaussians, (S, m) each."""
        means, variances = self._moments()
        return without_nan(means), without_nan(variances)

    def _gaussians(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds of the Gaussians, (S, m) each."""
        means, variances = self.parts
        # A component may have zero variance at a point.
        return means, np.maximum(np.sqrt(variances), MIN_SD)

    def _quantile(self, p: float) -> np.ndarray:
        means, sds = self._gaussians()
        quantiles = means + sds * ndtri(p)
        low, high = quantiles.min(axis=0), quantiles.max(axis=0)
        if np.array_equal(low, high):
            return low
        return quantiles_between(
            low, high, p, lambda x, i: ndtr((x - means[:, i]) / sds[:, i]).mean(axis=0)
        )

    def __repr__(self) -> str:
        mean = self.__dict__.get("mean")
        size = f"{mean.size} points" if mean is not None else "lazy"
        return f"Prediction({size}, components={list(self.components)})"


def _known[T](value: T) -> T:
    return value


def quantiles_between(
    low: np.ndarray, high: np.ndarray, p: ArrayLike, below: Callable
) -> np.ndarray:
    """Quantiles of a mixture at m points, from brackets.

    Args:
        low: Smallest quantile of the parts, (..., m).
        high: Largest quantile of the parts, (..., m).
        p: Probabilities that broadcast with `low` and `high`.
        below: (x, i) -> distribution function of the mixture at x, for the points i.

    Returns:
        Shape (..., m).
    """
    pad = 1e-9 * (1.0 + np.abs(low) + np.abs(high))
    p, i = np.broadcast_arrays(p, np.arange(low.shape[-1]))
    return elementwise.find_root(
        lambda x, p, i: below(x, i) - p, (low - pad, high + pad), args=(p, i)
    ).x


def bisected(
    is_above: Callable[[np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    whole: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Brackets (low, high] of the least x with is_above(x), to the last digit.

    Args:
        is_above: x (m,) -> True for values of at least the least x, (m,).
        low: Values below the least x, (m,).
        high: Values of at least the least x, (m,).
        whole: True for whole numbers x.
    """
    for _ in range(64):
        if whole and np.all(high - low <= 1.0):
            break
        middle = 0.5 * (low + high)
        middle = np.floor(middle) if whole else middle
        above = is_above(middle)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low, high


# -- mixtures over draws of the hyperparameters ----------------------------------------------------


class Mixture(Prediction):
    """Prediction mixed over draws of the hyperparameters, with equal weights.

    Args:
        conditional_at: `conditional_at(draw, X) -> NewValues`, as a pytree such as an
            `eqx.Partial` of a function, whose arrays may change without a new compilation.
        draws: Pytree with the draws along the first axis of its leaves; one draw if there are no
            leaves.
        X_new: Points (m, d), or indices of points (m,); evaluated in chunks.
        n: Number of array elements held for each new point, such as covariances with n data points.
        component: name -> Prediction of one additive component.
        components: Names of the additive components.
    """

    def __init__(
        self,
        conditional_at: Callable[[Any, Any], NewValues],
        draws: Any,
        X_new: jax.Array | np.ndarray,
        n: int,
        component: Callable[[str], Prediction] | None = None,
        components: tuple[str, ...] = (),
    ):
        self._conditional_at, self._draws, self._X_new, self._n = conditional_at, draws, X_new, n
        self._component, self.components = component, components

    def _means(self) -> np.ndarray:
        at = partial(_evaluated, "mean", self._conditional_at, self._draws)
        return chunked(at, self._n, self._X_new)

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        at = partial(_evaluated, "moments", self._conditional_at, self._draws)
        means, variances = chunked(lambda X: jnp.stack(at(X)), self._n, self._X_new)
        return means, variances

    def _draw(self, key: jax.Array, size: int) -> np.ndarray:
        per_draw = -(-size // count_draws(self._draws))
        key, key_order = jax.random.split(key)
        samples = _samples(self._conditional_at, self._draws, self._X_new, key, per_draw)
        return shuffled(samples, key_order, size)


@eqx.filter_jit
def _evaluated(method: str, conditional_at: Callable, draws: Any, X: Any) -> Any:
    """Result of a method of `NewValues` at each draw."""
    return map_draws(lambda draw: getattr(conditional_at(draw, X), method)(), draws)


@eqx.filter_jit
def _samples(conditional_at, draws, X, key, n):
    return map_draws(lambda draw, key: conditional_at(draw, X).sample(key, n), draws, key)


def map_draws(function: Callable, draws: Any, key: jax.Array | None = None) -> Any:
    """Map function(draw) or function(draw, key) over S draws: (S, ...).

    Draws are mapped one at a time, to bound the memory.
    """
    count = count_draws(draws)
    if key is None:
        # Draws without leaves still need an array to map over.
        return jax.lax.map(lambda item: function(item[0]), (draws, jnp.arange(count)))
    return jax.lax.map(lambda item: function(*item), (draws, jax.random.split(key, count)))


def count_draws(draws: Any) -> int:
    """Number of draws; a model without hyperparameters has one empty draw."""
    leaves = jax.tree.leaves(draws)
    return len(leaves[0]) if leaves else 1


# Array elements per chunk of new points, such as covariances with the data.
CHUNK_NUMBERS = 2**24


def chunked(function: Callable, n: int, X_new: jax.Array | np.ndarray) -> np.ndarray:
    """Evaluate a function of new points in chunks.

    Args:
        function: Function of points (m, d), with values (..., m).
        n: Number of array elements that it holds for each point, such as covariances with the data.
        X_new: Points, (m, d), or indices of points (m,).
    """
    size = max(256, CHUNK_NUMBERS // n)
    parts = [np.asarray(function(X_new[i : i + size])) for i in range(0, X_new.shape[0], size)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def shuffled(samples: ArrayLike, key: jax.Array, size: int) -> np.ndarray:
    """Select `size` samples of (parts, number, ...), evenly, in random order."""
    flat = np.asarray(samples)
    flat = flat.reshape(-1, *flat.shape[2:])
    rows = ((np.arange(size) + 0.5) * len(flat) / size).astype(int)
    return flat[rows[np.asarray(jax.random.permutation(key, size))]]


# Predictions average over at most this many evenly thinned draws of the hyperparameters.
MAX_MIXTURE_DRAWS = 200


def thin(draws: dict, most: int = MAX_MIXTURE_DRAWS) -> dict:
    """Thin draws of sites (S, *site) to at most `most`, evenly spaced in their order.

    Draws of a single scalar site are evenly spaced in rank instead, to represent its distribution.
    """
    rows = thinned_rows(draws, most)
    return {name: jnp.asarray(values)[rows] for name, values in draws.items()}


def thinned_rows(draws: dict, most: int) -> np.ndarray:
    """Rows that `thin` keeps."""
    count = len(next(iter(draws.values()), []))
    if count <= most:
        return np.arange(count)
    keep = np.linspace(0, count - 1, most).round().astype(int)
    (first, *others) = draws.values()
    if not others and np.ndim(first) == 1:
        # The middle of each of `most` equal intervals of rank: the extremes would be overweighted.
        middle = ((np.arange(most) + 0.5) * count / most).astype(int)
        keep = np.argsort(first)[middle]
    return keep


def without_nan(array: ArrayLike, reason: str = NOT_FACTORED) -> np.ndarray:
    """Return the array; raise FloatingPointError with the reason if it contains NaN."""
    values = np.asarray(array)
    if np.any(np.isnan(values)):
        raise FloatingPointError(reason)
    return values
