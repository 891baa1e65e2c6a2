"""Predictions under a likelihood: draws of new observations, their mean, the chances of classes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.sampled import SampledPrediction


class ResponsePrediction(SampledPrediction):
    """The predictive distribution of y at m new points, known by draws of it: (S, m).

    mean: E[y | x], (m,), averaged over draws of the parameters, not over those of y.
    probabilities: (m, K), the chance of each of K `classes`; None where y is no class.
    """

    def __init__(self, draws, mean, probabilities=None, classes=None, name: str = "y"):
        super().__init__(name, draws)
        self._mean, self.probabilities, self.classes = np.asarray(mean), probabilities, classes

    @cached_property
    def mean(self) -> np.ndarray:
        """E[y | x]: (m,)."""
        return self._mean
