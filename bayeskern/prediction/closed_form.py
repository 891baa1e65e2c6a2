"""Predictions in closed form, as SciPy distributions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import numpy as np
import scipy
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.prediction.mixture import Quantiles


class ClosedFormPrediction(Quantiles):
    """Predictive distribution of m new observations, each from a known family.

    The interface is the same as in `Prediction`. An undefined variance, such as the variance of a
    Student t distribution with one degree of freedom, is returned as infinite.

    Args:
        distribution: Frozen SciPy distribution of the observations, of shape (m,), or () if they
            have the same distribution.
        m: Number of observations.
        draw: (key, n) -> joint draws, shape (n, m).

    Attributes:
        distribution: The SciPy distribution, with `pdf` or `pmf`, `cdf` and more.

    Examples:
        >>> from scipy import stats
        >>> from bayeskern.prediction.closed_form import ClosedFormPrediction
        >>> prediction = ClosedFormPrediction(stats.nbinom(3.0, 0.5), 2)
        >>> prediction.mean, prediction.median
        (array([3., 3.]), array([2., 2.]))
        >>> print(prediction.distribution.pmf(0).round(3))
        0.125
    """

    def __init__(
        self,
        distribution: Any,
        m: int,
        draw: Callable[[jax.Array, int], np.ndarray] | None = None,
    ):
        self.distribution, self._m, self._draw = distribution, m, draw

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of each observation, (m,)."""
        return self._of_each(self.distribution.mean())

    @cached_property
    def variance(self) -> np.ndarray:
        """Variance of each observation, (m,)."""
        return np.nan_to_num(self._of_each(self.distribution.var()), nan=np.inf, posinf=np.inf)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles of each observation.

        Args:
            q: One probability or several.

        Returns:
            Shape (m,) for one probability, (len(q), m) for several.
        """
        return self._of_each(self.distribution.ppf(validation.probabilities(q)[..., None]))

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Log predictive density, or log probability if discrete, of y (m,): (m,)."""
        values = np.asarray(validation.targets(y, self._m))
        discrete = isinstance(self.distribution.dist, scipy.stats.rv_discrete)
        return self.distribution.logpmf(values) if discrete else self.distribution.logpdf(values)

    def _of_each(self, values: ArrayLike) -> np.ndarray:
        return np.broadcast_to(values, (*np.shape(values)[:-1], self._m)).copy()

    def __repr__(self) -> str:
        return f"ClosedFormPrediction({self.distribution.dist.name}, {self._m} observations)"
