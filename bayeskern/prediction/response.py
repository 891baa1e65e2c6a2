"""Predictions under a likelihood: draws of new observations, their mean, the chances of classes."""

from __future__ import annotations

from functools import cached_property

import jax
import numpy as np
from numpyro import handlers

from bayeskern.core import validation
from bayeskern.core.tracing import by_one_thread
from bayeskern.prediction.empirical import SampledPrediction


class ResponsePrediction(SampledPrediction):
    """The predictive distribution of observations y at m new points, known by draws of it.

    If y is one of K classes, draws are places in `classes`, 0, ..., K - 1, whatever the labels are.
    `mean`, `variance` and `sd` of two classes are those of y = 0 or 1; of more they are those of
    the indicator of each class, shape (m, K), and quantiles, which are places in `classes`, need
    classes in order.

    Args:
        draws: Draws of y, shape (S, m).
        mean: E[y | x], averaged over draws of the parameters, not over those of y: shape (m,), or
            (m, K) for more than two classes.
        probabilities: The probability of each class, shape (m, K); None if y is a number.
        classes: The labels of the classes, or None.
        ordered: Whether the classes have an order.

    Attributes:
        draws: Draws of y.
        probabilities: The probability of each class, or None.
        classes: The labels of the classes, or None.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.prediction.response import ResponsePrediction
        >>> chances = np.array([[0.8, 0.2], [0.3, 0.7]])
        >>> draws = np.array([[0, 1], [0, 0], [0, 1]])
        >>> prediction = ResponsePrediction(draws, chances[:, 1], chances, ("no", "yes"))
        >>> prediction.most_likely
        array(['no', 'yes'], dtype='<U3')
    """

    def __init__(self, draws, mean, probabilities=None, classes=None, ordered: bool = False):
        super().__init__("y", draws)
        self._mean, self.probabilities, self.classes = np.asarray(mean), probabilities, classes
        self._ordered = ordered

    @cached_property
    def mean(self) -> np.ndarray:
        """E[y | x]: (m,); of more than two classes the chance of each, (m, K)."""
        return self._mean

    @cached_property
    def variance(self) -> np.ndarray:
        """The variance: (m,); of classes p (1 - p)."""
        # Of classes the mean says it all, without the noise of draws.
        return super().variance if self.probabilities is None else self.mean * (1.0 - self.mean)

    @property
    def most_likely(self) -> np.ndarray:
        """The label of the most probable class, shape (m,).

        Raises:
            ValueError: If y is a number, not a class.
        """
        if self.probabilities is None:
            raise ValueError("most_likely is of classes, but y is a number here: take the median.")
        return np.asarray(self.classes)[np.argmax(self.probabilities, axis=1)]

    def quantile(self, q) -> np.ndarray:
        """Quantiles of the draws, as those of `SampledPrediction`.

        Raises:
            ValueError: If y is one of more than two classes without an order.
        """
        if self.probabilities is not None and self.mean.ndim > 1 and not self._ordered:
            raise ValueError(
                f"{self.probabilities.shape[1]} classes without an order have no quantiles, and so "
                "no median or interval. Ask for probabilities, most_likely or to_frame()."
            )
        return super().quantile(q)

    def to_frame(self, level: float = 0.95):
        """A pandas data frame with a row for each point; of classes, a column for each label.

        Args:
            level: The probability of the central interval; of classes it is not used.
        """
        if self.probabilities is None:
            return super().to_frame(level)
        # Here, since pandas takes a while to import.
        import pandas as pd

        return pd.DataFrame(np.asarray(self.probabilities), columns=list(self.classes))

    def __repr__(self) -> str:
        count, *shape = self.draws.shape
        classes = "" if self.classes is None else f", classes {', '.join(map(repr, self.classes))}"
        return f"ResponsePrediction({self.site!r}, {count} draws of shape {tuple(shape)}{classes})"


def from_prior(model, args: tuple, draws: int, seed: int) -> SampledPrediction:
    """Draws of the y that a model returns, with all that it depends on drawn from its prior.

    Raises ValueError, naming the sites, if some are `Free` and have no prior.
    """
    count = validation.positive_integer(draws, "draws")
    keys = jax.random.split(jax.random.key(validation.seed(seed)), count)
    trace = _trace(model, keys[0], args)
    without_prior = [name for name, site in trace.items() if site["type"] == "param"]
    if without_prior:
        raise ValueError(
            f"{', '.join(map(repr, without_prior))} has no prior (Free), so there is none to draw "
            "from. Give it one, or a number."
        )
    y = jax.lax.map(lambda key: _run(model, key, args), keys)
    return SampledPrediction("y", np.asarray(y))


@by_one_thread
def _trace(model, key, args: tuple) -> dict:
    return handlers.trace(handlers.seed(model, key)).get_trace(*args)


@by_one_thread
def _run(model, key, args: tuple):
    return handlers.seed(model, key)(*args)
