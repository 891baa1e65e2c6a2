"""The log density of a model of a series, as searches, draws and predictions take it."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.time_series.predictive import JointPredictive
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.target import Target

# Series are filled up to a multiple of this with masked rows, so that series of nearly the same
# length share their compiled functions.
BUCKET_ROWS = 32


class Evidence(Protocol):
    """log p(y, hyperparameters) of a process in time, over unconstrained coordinates z (d,).

    `NumpyEvidence` is the one by covariances, `BasisEvidence` the one by basis functions. Changes
    of level and slope, and robust noise, ask for more, which `NumpyEvidence` alone has.

    Attributes:
        names: The names of the hyperparameters, d of them.
        middle: The median of their prior: (d,).
        component_names: The names of the additive components that are no effects.
    """

    names: tuple[str, ...]
    component_names: tuple[str, ...]
    middle: np.ndarray

    def given(self, x, y) -> Evidence:
        """The same model given other values y at times x, (n,) both."""

    def log_density(self, z) -> float:
        """The log density at z."""

    def value_and_gradient(self, z) -> tuple[float, np.ndarray]:
        """The log density at z, and its gradient (d,)."""

    def values(self, z) -> dict[str, np.ndarray]:
        """The hyperparameters by name, for z (..., d)."""

    def moments(self, z, x_new) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of new values at x_new (m,), for each of z (S, d): (S, m)."""

    def predictive(self, z, x_new) -> JointPredictive:
        """The log density at each of z (S, d), and the joint distribution at x_new, if it is known.

        x_new: sorted, (m,). It is known where it is normal.
        """

    def joint(self, z, x_new, noise_factors=1.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of new values at x_new (m,), for z (d,).

        noise_factors: what the noise variance of each is multiplied by, (m,).
        """

    def rolling(self, z, counts, reach) -> list[tuple[np.ndarray, np.ndarray]]:
        """Means and variances of the `reach` values after the first `counts`, given those."""

    def components(self, z, x_new, level: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Means and variances of every component at x_new, centered, for each of z (S, d)."""

    def loo(self, z) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each value given the others, for z (S, d): (S, n)."""

    def changes(self, z, name: str, ends) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the change of a component between two times, for z (S, d): (S,)."""

    def threads(self):
        """A context for many evaluations."""


def bound(model: GPRegression, x: np.ndarray, y: np.ndarray) -> Target:
    """The target of a model of values y at times x: (n,) both."""
    n = len(x)
    size = -(-n // BUCKET_ROWS) * BUCKET_ROWS
    X, Y, mask = np.zeros(size), np.zeros(size), np.arange(size) < n
    X[:n], Y[:n] = x, y
    return BoundModel.of(model, (X, Y, mask), {}).target()


def latent_target(model: LatentGP, x: np.ndarray, y: np.ndarray) -> Target:
    """The target of a model of observations y at times x: (n,) both, f integrated out."""
    return BoundModel.of(replace(model, integrate=True), (x[:, None], y), {}).target()
