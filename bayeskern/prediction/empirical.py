"""Predictions represented by draws, for models without a closed form."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.prediction.mixture import Quantiles

if TYPE_CHECKING:
    import pandas as pd

# Draws of an observation if the posterior is a point estimate: one draw of the parameters.
DRAWS_AT_A_POINT = 1000


class SampledPrediction(Quantiles):
    """Predictive distribution of a site, represented by draws.

    The interface is the same as in `Prediction`. Quantiles of whole numbers are whole numbers.

    Args:
        site: Name of the site.
        draws: S draws of the site, shape (S, *site).

    Attributes:
        site: Name of the site.
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

    def __init__(self, site: str, draws: ArrayLike):
        self.site, self.draws = site, np.asarray(draws)
        if self.draws.dtype.kind == "f" and np.isnan(self.draws).any():
            raise FloatingPointError(
                f"the prediction of {site!r} is NaN for at least one draw of the posterior. Check "
                "posterior.trust, and the model at its new arguments."
            )

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean, (*site)."""
        return np.mean(self.draws, axis=0)

    @cached_property
    def variance(self) -> np.ndarray:
        """The variance, (*site)."""
        return np.var(self.draws, axis=0)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles of the draws.

        Args:
            q: One probability or several.

        Returns:
            Shape (*site) for one probability, (len(q), *site) for several.
        """
        method = "linear" if self.draws.dtype.kind == "f" else "inverted_cdf"
        return np.quantile(self.draws, validation.probabilities(q), axis=0, method=method)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws, from concatenated permutations of the S draws.

        Args:
            n: Number of draws.
            seed: Seed of the permutations. The same seed gives the same order of draws at every
                site, so that draws of several sites are joint.

        Returns:
            Shape (n, *site).
        """
        rng, count = np.random.default_rng(seed), len(self.draws)
        rounds = -(-validation.positive_integer(n, "n") // count)
        rows = np.concatenate([rng.permutation(count) for _ in range(rounds)])
        return self.draws[rows[:n]]

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """A pandas data frame with a row for each element of the site.

        Args:
            level: Probability of the central interval (lower, upper).
        """
        import pandas as pd  # slow to import

        shape = self.draws.shape[1:]
        index = pd.MultiIndex.from_tuples(np.ndindex(shape)) if len(shape) > 1 else None
        return pd.DataFrame({k: np.ravel(v) for k, v in self._columns(level).items()}, index=index)

    def __repr__(self) -> str:
        count, *shape = self.draws.shape
        return f"SampledPrediction({self.site!r}, {count} draws of shape {tuple(shape)})"


class Predictions(dict):
    """Predictions of several sites by name: `predictions["y"].mean`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"the model predicts several sites, {', '.join(map(repr, self))}: choose a site, as in "
            f"predictions[{next(iter(self))!r}].{name}"
        )
