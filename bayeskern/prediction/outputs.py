"""Predictions of several outputs at common inputs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.prediction.mixture import Prediction, Quantiles

if TYPE_CHECKING:
    import pandas as pd


class OutputsPrediction(Quantiles):
    """Predictive distribution of k outputs at m points, with the outputs as last axis.

    `mean`, `variance`, `sd`, `median` and each end of `interval(level)` are (m, k).

    Args:
        flat: Prediction of the m k values, ordered by point, then by output.
        outputs: Number of outputs, k.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> x, Y = np.arange(4.0), np.array([[1.1, 0.1], [2.9, -1.1], [5.2, -1.9], [6.8, -3.1]])
        >>> model = bk.BayesianLinearRegression(prior_sd=10.0, noise_variance=0.04)
        >>> bk.infer(model, x, Y, method="exact").predict([4.0, 5.0]).mean.round(1)
        array([[ 8.8, -4.1],
               [10.8, -5.1]])
    """

    def __init__(self, flat: Prediction, outputs: int):
        self.flat, self.outputs = flat, outputs

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean, (m, k)."""
        return self._by_output(self.flat.mean)

    @cached_property
    def variance(self) -> np.ndarray:
        """The variance, (m, k)."""
        return self._by_output(self.flat.variance)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the additive components."""
        return self.flat.components

    def component(self, name: str) -> OutputsPrediction:
        """Predict one additive component of the latent functions."""
        return OutputsPrediction(self.flat.component(name), self.outputs)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles of each output at each point.

        Args:
            q: One probability or several.

        Returns:
            Shape (m, k) for one probability, (len(q), m, k) for several.
        """
        return self._by_output(self.flat.quantile(q))

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of all outputs at all points.

        Args:
            n: Number of draws.
            seed: Seed of the draws.

        Returns:
            Shape (n, m, k).
        """
        return self._by_output(self.flat.sample(n, seed))

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Log predictive density of each new value.

        Args:
            y: New values, shape (m, k).

        Returns:
            Shape (m, k).

        Raises:
            ValueError: If y has another shape.
        """
        values = np.asarray(y)
        if values.shape != self.mean.shape:
            raise ValueError(f"y must have the shape {self.mean.shape}; got {values.shape}.")
        return self._by_output(self.flat.log_density(values.reshape(-1)))

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Data frame with a row for each output of each point.

        Args:
            level: Probability of the central interval (lower, upper).
        """
        import pandas as pd  # slow to import

        names = [range(len(self.mean)), range(self.outputs)]
        index = pd.MultiIndex.from_product(names, names=["point", "output"])
        return pd.DataFrame(self.flat._columns(level), index=index)

    def _by_output(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(*values.shape[:-1], -1, self.outputs)

    def __repr__(self) -> str:
        return f"OutputsPrediction({self.flat!r}, outputs={self.outputs})"
