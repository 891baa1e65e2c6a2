"""Predictions under a likelihood: draws of new observations, their mean, the chances of classes."""

from __future__ import annotations

from functools import cached_property

import jax
import numpy as np
from numpyro import handlers

from bayeskern.core import validation
from bayeskern.prediction.empirical import SampledPrediction


class ResponsePrediction(SampledPrediction):
    """The predictive distribution of y at m new points, known by draws of it: (S, m).

    mean: E[y | x], (m,), averaged over draws of the parameters, not over those of y.

    Where y is one of K `classes`, draws are their places in `classes`, 0, ..., K - 1, whatever the
    labels are. `probabilities`, (m, K), has the chance of each, `most_likely` the label of the
    likeliest, and `to_frame()` a column for each. Of more than two classes `mean`, `variance` and
    `sd` are those of the indicators of each class, (m, K), and quantiles are places in `classes`,
    which need classes in order (`ordered`): ValueError without. Of two, all are of 0 and 1.
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
        """The label of the likeliest class: (m,). ValueError where y is no class."""
        if self.probabilities is None:
            raise ValueError("most_likely is of classes, but y is a number here: take the median.")
        return np.asarray(self.classes)[np.argmax(self.probabilities, axis=1)]

    def quantile(self, q) -> np.ndarray:
        if self.probabilities is not None and self.mean.ndim > 1 and not self._ordered:
            raise ValueError(
                f"{self.probabilities.shape[1]} classes without an order have no quantiles, and so "
                "no median or interval. Ask for probabilities, most_likely or to_frame()."
            )
        return super().quantile(q)

    def to_frame(self, level: float = 0.95):
        """A pandas data frame with a row for each point.

        Of classes it has their chances, a column for each, named by its label; level is not asked.
        """
        if self.probabilities is None:
            return super().to_frame(level)
        import pandas as pd

        return pd.DataFrame(np.asarray(self.probabilities), columns=list(self.classes))

    def __repr__(self) -> str:
        count, *shape = self.draws.shape
        of = "" if self.classes is None else f", classes {', '.join(map(repr, self.classes))}"
        return f"ResponsePrediction({self.site!r}, {count} draws of shape {tuple(shape)}{of})"


def from_prior(model, args: tuple, draws: int, seed: int) -> SampledPrediction:
    """Draws of y, which a model returns, with all that it depends on drawn from its prior.

    Raises ValueError, naming the sites, where some are `Free` and have none.
    """
    keys = jax.random.split(
        jax.random.key(validation.seed(seed)), validation.positive_integer(draws, "draws")
    )

    def free(key) -> list[str]:
        trace = handlers.trace(handlers.seed(model, key)).get_trace(*args)
        return [name for name, site in trace.items() if site["type"] == "param"]

    if found := free(keys[0]):
        raise ValueError(
            f"{', '.join(map(repr, found))} has no prior (Free), so there is none to draw from. "
            "Give it one, or a number."
        )
    drawn = jax.lax.map(lambda key: handlers.seed(model, key)(*args), keys)
    return SampledPrediction("y", np.asarray(drawn))
