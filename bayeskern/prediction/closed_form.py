"""Predictions that are known in closed form: distributions of SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import jax
import numpy as np
import scipy

from bayeskern.core import validation
from bayeskern.prediction.mixture import Quantiles, without_nan


class ClosedFormPrediction(Quantiles):
    """The predictive distribution of m new observations, each of a known family.

    It offers what a `Prediction` does. Where there is no mean or no variance, as those of a Student
    t with one degree of freedom, it is infinite.

    Args:
        distribution: A frozen distribution of SciPy, for each observation: shape (m,) or ().
        m: The number of observations.
        draw: (key, n) -> joint draws, shape (n, m).

    Attributes:
        distribution: The distribution, with `pdf` or `pmf`, `cdf` and more.

    Examples:
        >>> from scipy import stats
        >>> from bayeskern.prediction.closed_form import ClosedFormPrediction
        >>> prediction = ClosedFormPrediction(stats.nbinom(3.0, 0.5), 2, draw=None)
        >>> prediction.mean, prediction.median
        (array([3., 3.]), array([2., 2.]))
        >>> print(prediction.distribution.pmf(0).round(3))
        0.125
    """

    def __init__(self, distribution, m: int, draw: Callable[[jax.Array, int], np.ndarray]):
        self.distribution, self._m, self._draw = distribution, m, draw

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean of each observation: (m,)."""
        return self._of_each(self.distribution.mean())

    @cached_property
    def variance(self) -> np.ndarray:
        """The variance of each observation: (m,)."""
        return np.nan_to_num(self._of_each(self.distribution.var()), nan=np.inf, posinf=np.inf)

    def quantile(self, q) -> np.ndarray:
        """Quantiles of each observation.

        Args:
            q: One probability, or several.

        Returns:
            Shape (m,) for one probability, (len(q), m) for several.
        """
        return self._of_each(self.distribution.ppf(validation.probabilities(q)[..., None]))

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the observations.

        Args:
            n: How many draws.
            seed: The same seed gives the same draws.

        Returns:
            Shape (n, m).
        """
        return without_nan(self._draw(jax.random.key(seed), validation.positive_integer(n, "n")))

    def log_density(self, y) -> np.ndarray:
        """The log predictive density, or probability, of new values y (m,), one by one: (m,)."""
        y = np.asarray(validation.targets(y, self._m))
        discrete = isinstance(self.distribution.dist, scipy.stats.rv_discrete)
        return self.distribution.logpmf(y) if discrete else self.distribution.logpdf(y)

    def _of_each(self, values) -> np.ndarray:
        return np.broadcast_to(values, (*np.shape(values)[:-1], self._m)).copy()

    def __repr__(self) -> str:
        return f"ClosedFormPrediction({self.distribution.dist.name}, {self._m} observations)"
