"""Predictions of observations: draws, means and class probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike
from numpyro import handlers

from bayeskern.core import validation
from bayeskern.core.tracing import by_one_thread
from bayeskern.prediction.empirical import SampledPrediction

if TYPE_CHECKING:
    import pandas as pd


class ResponsePrediction(SampledPrediction):
    """Predictive distribution of observations y at m new points, represented by draws.

    If y is one of K classes, draws are indices 0, ..., K - 1 into `classes`. For two classes,
    `mean`, `variance` and `sd` describe y = 0 or 1. For more classes, they describe the indicator
    of each class, with shape (m, K); quantiles are indices into `classes`, and exist only for
    ordered classes.

    Args:
        draws: Draws of y, shape (S, m).
        mean: E[y | x], averaged over draws of the parameters (not over draws of y), shape (m,), or
            (m, K) for more than two classes.
        probabilities: Probability of each class, shape (m, K); None if y is a number.
        classes: Labels of the classes, or None.
        ordered: True if the classes have an order.

    Attributes:
        draws: Draws of y.
        probabilities: Probability of each class, or None.
        classes: Labels of the classes, or None.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.prediction.response import ResponsePrediction
        >>> chances = np.array([[0.8, 0.2], [0.3, 0.7]])
        >>> draws = np.array([[0, 1], [0, 0], [0, 1]])
        >>> prediction = ResponsePrediction(draws, chances[:, 1], chances, ("no", "yes"))
        >>> prediction.most_likely
        array(['no', 'yes'], dtype='<U3')
    """

    def __init__(
        self,
        draws: ArrayLike,
        mean: ArrayLike,
        probabilities: np.ndarray | None = None,
        classes: Sequence | None = None,
        ordered: bool = False,
    ):
        super().__init__("y", draws)
        self._mean, self.probabilities, self.classes = np.asarray(mean), probabilities, classes
        self._ordered = ordered

    @cached_property
    def mean(self) -> np.ndarray:
        """E[y | x], (m,); for more than two classes the probability of each class, (m, K)."""
        return self._mean

    @cached_property
    def variance(self) -> np.ndarray:
        """Variance, (m,); p (1 - p) for a class of probability p."""
        # For classes, from the mean, which has no Monte Carlo error of draws of y.
        return super().variance if self.probabilities is None else self.mean * (1.0 - self.mean)

    @property
    def most_likely(self) -> np.ndarray:
        """Label of the most probable class, shape (m,).

        Raises:
            ValueError: If y is a number, not a class.
        """
        if self.probabilities is None or self.classes is None:
            raise ValueError("most_likely is for classes, and y is a number: use median.")
        return np.asarray(self.classes)[np.argmax(self.probabilities, axis=1)]

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles of the draws, as in `SampledPrediction`.

        Raises:
            ValueError: If y is one of more than two unordered classes.
        """
        if self.probabilities is not None and self.mean.ndim > 1 and not self._ordered:
            raise ValueError(
                f"{self.probabilities.shape[1]} classes without an order have no quantiles, "
                "median or interval. Use probabilities, most_likely or to_frame()."
            )
        return super().quantile(q)

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Data frame with a row for each point; for classes, a column for each label.

        Args:
            level: Probability of the central interval; not used for classes.
        """
        if self.probabilities is None or self.classes is None:
            return super().to_frame(level)
        import pandas as pd  # slow to import

        return pd.DataFrame(np.asarray(self.probabilities), columns=list(self.classes))

    def __repr__(self) -> str:
        count, *shape = self.draws.shape
        classes = "" if self.classes is None else f", classes {', '.join(map(repr, self.classes))}"
        return f"ResponsePrediction({self.site!r}, {count} draws of shape {tuple(shape)}{classes})"


def from_prior(model: Callable, args: tuple[Any, ...], draws: int, seed: int) -> SampledPrediction:
    """Prior predictive draws of y, the return value of a model.

    Args:
        model: A model that returns y.
        args: Arguments of the model.
        draws: Number of draws.
        seed: Seed of the draws.

    Raises:
        ValueError: If some sites are `Free`, without a prior; the message names these sites.
    """
    count = validation.positive_integer(draws, "draws")
    keys = jax.random.split(jax.random.key(validation.seed(seed)), count)
    trace = _trace(model, keys[0], args)
    without_prior = [name for name, site in trace.items() if site["type"] == "param"]
    if without_prior:
        raise ValueError(
            f"{', '.join(map(repr, without_prior))} has no prior (Free) to draw from. Give it a "
            "prior or a number."
        )
    y = jax.lax.map(lambda key: _run(model, key, args), keys)
    return SampledPrediction("y", np.asarray(y))


@by_one_thread
def _trace(model: Callable, key: jax.Array, args: tuple[Any, ...]) -> dict:
    return handlers.trace(handlers.seed(model, key)).get_trace(*args)


@by_one_thread
def _run(model: Callable, key: jax.Array, args: tuple[Any, ...]) -> Any:
    return handlers.seed(model, key)(*args)
