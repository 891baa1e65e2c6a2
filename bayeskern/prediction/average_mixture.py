"""Equally weighted mixtures of averaged quantiles, for uncertain regressors.

Each of the S parts is a `QuantileAverage` at the same m times, for one draw of the regressors. The
mixture is p(y) = sum_s p(y | regressors s) / S, the law of total probability.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bayeskern.prediction.mixture import Quantiles
from bayeskern.prediction.quantile_average import QuantileAverage

# Numbers of equally likely values of all parts: at each time, and at most at all times.
VALUES_PER_TIME, MAX_MIXTURE_VALUES = 20_000, 4_000_000


class AverageMixture(Quantiles):
    """Mixture of S averages of quantiles at m times.

    Args:
        parts: The S parts, one after the other, as one average at S m times.
        count: S.
        paths: (n, seed) -> joint draws of the values, (n, m).
    """

    def __init__(self, parts: QuantileAverage, count: int, paths: Callable[[int, int], np.ndarray]):
        self.parts, self.count, self._paths = parts, count, paths

    @property
    def mean(self) -> np.ndarray:
        return self._by_part(self.parts.mean).mean(axis=0)

    @property
    def sd(self) -> np.ndarray:
        within = np.mean(np.square(self._by_part(self.parts.sd)), axis=0)
        return np.sqrt(within + np.var(self._by_part(self.parts.mean), axis=0))

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles for probabilities q, (*q.shape, m), to about 1e-4 in probability."""
        return np.quantile(self._values, np.asarray(q, float), axis=0, method="hazen")

    @cached_property
    def _values(self) -> np.ndarray:
        """Equally likely values at each time, (G S, m)."""
        S, m = self.count, len(self.parts.errors.scales) // self.count
        G = max(16, min(VALUES_PER_TIME, MAX_MIXTURE_VALUES // m) // S)
        # Part s has the quantiles (g + u_s) / G: the probabilities of all parts are evenly spaced.
        offsets = np.random.default_rng(0).permutation((np.arange(S) + 0.5) / S)
        errors = self.parts.errors.quantile((np.arange(G)[:, None] + offsets) / G)
        errors = np.repeat(errors, m, axis=1)
        values = self.parts.values(errors * self.parts.errors.scales)
        return values.reshape(G * S, m)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Probability of a value less than y (m,) at each time, (m,)."""
        return self._by_part(self.parts.below(np.tile(y, self.count))).mean(axis=0)

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Log density of y (m,) at each time; at a bound or an atom, its log probability."""
        densities = self.parts.log_density(np.tile(np.asarray(y, float), self.count))
        return np.asarray(logsumexp(self._by_part(densities), axis=0)) - np.log(self.count)

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the values at all times, (n, m)."""
        return self._paths(n, seed)

    def _by_part(self, values: np.ndarray) -> np.ndarray:
        """Values of all parts (S m,), as (S, m)."""
        return values.reshape(self.count, -1)
