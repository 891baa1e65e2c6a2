"""Likelihoods whose derivatives in a latent function are formulas in NumPy, for forecasts."""

from __future__ import annotations

import re
from abc import abstractmethod
from functools import cache
from typing import ClassVar

import numpy as np

from bayeskern.likelihoods.base import Likelihood
from bayeskern.prediction.response_mixture import Response

# Numbers or arrays of shapes that broadcast together.
Values = np.ndarray | float


class Analytic(Likelihood, Response):
    """Likelihood that forecasts can use: log p(y | f, theta) and its derivatives in NumPy.

    Nothing is compiled. f is the linear predictor under the default link, without `exposure`; y and
    f have shape (n,), or broadcast. theta holds the k unconstrained hyperparameters. Formulas of
    inner loops are class methods: Equinox takes longer to bind a method than to run it.

    Attributes:
        middle: Prior medians of theta, (k,).
        title: Description of the observations.
        scale: Description of f.
        unit: Description of exp(f) if it is not the mean; otherwise "".
    """

    middle: ClassVar[tuple[float, ...]] = ()
    title: ClassVar[str]
    scale: ClassVar[str] = "the logarithm of the mean"
    unit: ClassVar[str] = ""

    @classmethod
    def forecast_name(cls) -> str:
        """Name in `forecast(likelihood=...)`: the name of the class in lower case."""
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def by_name(cls) -> dict[str, Analytic]:
        """All likelihoods that forecasts can use, by the name passed to `forecast`."""
        classes = [c for c in Likelihood.registered() if issubclass(c, Analytic)]
        return {c.forecast_name(): _default(c) for c in classes}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the k hyperparameters, as sites of a `LatentGP`."""
        return tuple(f"likelihood.{name}" for name in self.hyperparameters())

    @classmethod
    @abstractmethod
    def slope(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Derivative of the log density in f."""

    @classmethod
    @abstractmethod
    def curvature(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Minus the second derivative of the log density in f, which may be negative."""

    @classmethod
    def information(cls, f: Values, y: Values, theta: np.ndarray) -> np.ndarray:
        """Non-negative curvature: the curvature itself, or the Fisher information."""
        return cls.curvature(f, y, theta)

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for theta (..., k)."""
        return {}

    @classmethod
    def log_prior(cls, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log prior density of theta, and its gradient (k,)."""
        return 0.0, np.zeros(0)

    @abstractmethod
    def location_scale(self, y: np.ndarray) -> tuple[float, float]:
        """Estimate the location and the standard deviation of f from y."""


@cache
def _default(likelihood: type[Analytic]) -> Analytic:
    """The likelihood with its defaults; one object, so that forecasts with it share a cache."""
    return likelihood()


class Dispersed(Analytic):
    """Likelihood with theta[0] = log a and the prior 1 / sqrt(a) ~ HalfNormal(1)."""

    # The median of a half-normal distribution is 0.674.
    middle: ClassVar = (-2.0 * float(np.log(0.6744897501960817)),)

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        (name, *_) = self.names
        return {name: np.exp(theta[..., 0])}

    @classmethod
    def log_prior(cls, theta: np.ndarray) -> tuple[float, np.ndarray]:
        # log HalfNormal(s) + log |ds / d log a| for s = 1 / sqrt(a).
        log_a = theta[0]
        value = 0.5 * np.log(2.0 / np.pi) - 0.5 * np.exp(-log_a) - np.log(2.0) - 0.5 * log_a
        return float(value), np.array([0.5 * np.exp(-log_a) - 0.5])
