"""Predictions of several outputs, which share their inputs."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.prediction.mixture import Prediction, Quantiles


class OutputsPrediction(Quantiles):
    """The predictive distribution of k outputs at m points: a `Prediction` with a last axis of k.

    `mean`, `variance`, `sd` and `median` are (m, k), and so is each end of `interval(level)`.

    Args:
        flat: The prediction of the m k values, the outputs of one point following one another.
        outputs: How many outputs there are, k.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> x, Y = np.arange(4.0), np.array([[1.1, 0.1], [2.9, -1.1], [5.2, -1.9], [6.8, -3.1]])
        >>> model = bk.BayesianLinearRegression(prior=10.0, noise=0.04)
        >>> bk.infer(model, x, Y, method="exact").predict([4.0, 5.0]).mean.round(1)
        array([[ 8.8, -4.1],
               [10.8, -5.1]])
    """

    def __init__(self, flat: Prediction, outputs: int):
        self.flat, self.outputs = flat, outputs

    @cached_property
    def mean(self) -> np.ndarray:
        """The means: (m, k)."""
        return self._by_output(self.flat.mean)

    @cached_property
    def variance(self) -> np.ndarray:
        """The variances: (m, k)."""
        return self._by_output(self.flat.variance)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the additive components."""
        return self.flat.components

    def component(self, name: str) -> OutputsPrediction:
        """One additive component of the latent functions, as of a `Prediction`."""
        return OutputsPrediction(self.flat.component(name), self.outputs)

    def quantile(self, q) -> np.ndarray:
        """Quantiles of each output at each point.

        Args:
            q: One probability, or several.

        Returns:
            Shape (m, k) for one probability, (len(q), m, k) for several.
        """
        return self._by_output(self.flat.quantile(q))

    def sample(self, n: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of all outputs at all points.

        Args:
            n: How many draws.
            seed: The same seed gives the same draws.

        Returns:
            Shape (n, m, k).
        """
        return self._by_output(self.flat.sample(n, seed))

    def log_density(self, y) -> np.ndarray:
        """The log predictive density of new values, one by one.

        Args:
            y: New values, shape (m, k).

        Returns:
            Shape (m, k).

        Raises:
            ValueError: If y has another shape.
        """
        y = np.asarray(y)
        if y.shape != self.mean.shape:
            raise ValueError(f"y must have the shape {self.mean.shape}, got {y.shape}.")
        return self._by_output(self.flat.log_density(y.reshape(-1)))

    def to_frame(self, level: float = 0.95):
        """A pandas data frame with a row for each output of each point, named by both.

        Args:
            level: The probability of the central interval (lower, upper).
        """
        # Here, since pandas takes a while to import.
        import pandas as pd

        names = [range(len(self.mean)), range(self.outputs)]
        index = pd.MultiIndex.from_product(names, names=["point", "output"])
        return pd.DataFrame(self.flat._columns(level), index=index)

    def _by_output(self, values) -> np.ndarray:
        return values.reshape(*values.shape[:-1], -1, self.outputs)

    def __repr__(self) -> str:
        return f"OutputsPrediction({self.flat!r}, outputs={self.outputs})"
