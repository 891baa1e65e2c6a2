"""Predictions that are known by draws: what predict returns where there is no closed form."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.core import validation
from bayeskern.prediction.mixture import Quantiles

# How many observations a prediction draws at a point estimate, which has one draw of all else.
DRAWS_AT_A_POINT = 1000


class SampledPrediction(Quantiles):
    """The predictive distribution of one site, known by draws of it.

    It offers what a `Prediction` does. Quantiles of whole numbers are whole numbers.

    Args:
        site: The name of the site.
        draws: S draws of it, shape (S, *site).

    Attributes:
        site: The name of the site.
        draws: The draws.

    Raises:
        FloatingPointError: If a draw is NaN.

    Examples:
        >>> import numpy as np
        >>> from bayeskern.prediction.empirical import SampledPrediction
        >>> prediction = SampledPrediction("y", np.array([[1.0], [2.0], [6.0]]))
        >>> prediction.mean, prediction.median
        (array([3.]), array([2.]))
    """

    def __init__(self, site: str, draws):
        self.site, self.draws = site, np.asarray(draws)
        if self.draws.dtype.kind == "f" and np.isnan(self.draws).any():
            raise FloatingPointError(
                f"the prediction of {site!r} is NaN for at least one draw of the posterior. Look "
                "at posterior.trust, and at what the model does with its new arguments."
            )

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean: (*site)."""
        return np.mean(self.draws, axis=0)

    @cached_property
    def variance(self) -> np.ndarray:
        """The variance: (*site)."""
        return np.var(self.draws, axis=0)

    def quantile(self, q) -> np.ndarray:
        """Quantiles of the draws.

        Args:
            q: One probability, or several.

        Returns:
            Shape (*site) for one probability, (len(q), *site) for several.
        """
        q = validation.probabilities(q)
        method = "linear" if self.draws.dtype.kind == "f" else "inverted_cdf"
        return np.quantile(self.draws, q, axis=0, method=method)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws, taken from the S draws in random order; again once all were taken.

        Args:
            n: How many draws.
            seed: The same seed takes the same draws of every site.

        Returns:
            Shape (n, *site).
        """
        rng, count = np.random.default_rng(seed), len(self.draws)
        rounds = -(-validation.positive_integer(n, "n") // count)
        rows = np.concatenate([rng.permutation(count) for _ in range(rounds)])
        return self.draws[rows[:n]]

    def to_frame(self, level: float = 0.95):
        """A pandas data frame with a row for each number, indexed by its place in the site.

        Args:
            level: The probability of the central interval (lower, upper).
        """
        # Here, since pandas takes a while to import.
        import pandas as pd

        shape = self.draws.shape[1:]
        index = pd.MultiIndex.from_tuples(np.ndindex(shape)) if len(shape) > 1 else None
        return pd.DataFrame({k: np.ravel(v) for k, v in self._columns(level).items()}, index=index)

    def __repr__(self) -> str:
        count, *shape = self.draws.shape
        return f"SampledPrediction({self.site!r}, {count} draws of shape {tuple(shape)})"


class Predictions(dict):
    """The predictions of several sites by name: `predictions["y"].mean`."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"the model predicts several sites, {', '.join(map(repr, self))}: ask one of them, as "
            f"in predictions[{next(iter(self))!r}].{name}"
        )
