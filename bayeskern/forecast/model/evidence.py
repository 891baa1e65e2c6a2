"""Log density of a model of a series, as searches, draws and predictions use it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol, Self

import numpy as np

from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.time_series.predictive import JointPredictive
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.target import Target

Moments = tuple[np.ndarray, np.ndarray]


class Evidence(Protocol):
    """log p(y, hyperparameters) of a process in time, over unconstrained coordinates z (d,).

    `NumpyEvidence` works with covariances, `BasisEvidence` with basis functions. Change points and
    robust noise need further methods, which only `NumpyEvidence` has.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters, d of them."""
        ...

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the additive components other than effects."""
        ...

    @property
    def middle(self) -> np.ndarray:
        """Prior median of z: (d,)."""
        ...

    def given(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Copy of the model given other values y at times x, (n,) both."""
        ...

    def log_density(self, z: np.ndarray) -> float:
        """Log density at z (d,)."""
        ...

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density at z (d,), and its gradient (d,)."""
        ...

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        ...

    def moments(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Means and variances of new values at x_new (m,), for each of z (S, d): (S, m)."""
        ...

    def predictive(self, z: np.ndarray, x_new: np.ndarray) -> JointPredictive:
        """Log density at each of z (S, d), and the joint distribution at sorted times x_new (m,).

        The joint distribution is included only if it is normal.
        """
        ...

    def joint(self, z: np.ndarray, x_new: np.ndarray) -> Moments:
        """Mean (m,) and covariance (m, m) of new values at x_new (m,), for z (d,)."""
        ...

    def rolling(self, z: np.ndarray, counts: Sequence[int], reach: Sequence[int]) -> list[Moments]:
        """Means and variances of the next `reach` values given the first `counts`, by origin."""
        ...

    def components(self, z: np.ndarray, x_new: np.ndarray, level: str) -> dict[str, Moments]:
        """Means and variances of every component at x_new, centred, for each of z (S, d)."""
        ...

    def changes(self, z: np.ndarray, name: str, ends: np.ndarray) -> Moments:
        """Mean and variance of the change of a component between times (2,), for z (S, d): (S,)."""
        ...

    def coefficients(self, z: np.ndarray) -> Moments:
        """Means and variances of the k coefficients of linear effects, for z (S, d): (S, k)."""
        ...

    def loo(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given the others, for z (S, d): (S, n)."""
        ...

    def threads(self) -> AbstractContextManager:
        """Context for many evaluations."""
        ...


def bound(model: GPRegression, x: np.ndarray, y: np.ndarray) -> Target:
    """Target of a model of values y at times x: (n,) both.

    Masked rows pad the series to a multiple of 32, so that series of nearly the same length share
    compiled functions.
    """
    n = len(x)
    size = -(-n // 32) * 32
    X, Y, mask = np.zeros(size), np.zeros(size), np.arange(size) < n
    X[:n], Y[:n] = x, y
    return BoundModel.of(model, (X, Y, mask), {}).target()


def latent_target(model: LatentGP, x: np.ndarray, y: np.ndarray) -> Target:
    """Target of a model of observations y at times x, (n,) both, with f integrated out."""
    return BoundModel.of(replace(model, integrate=True), (x[:, None], y), {}).target()
