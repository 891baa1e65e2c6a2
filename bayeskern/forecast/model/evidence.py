"""The evidence of a model of a series: in NumPy where it can be, compiled otherwise."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.components import centered_components
from bayeskern.gp.numpy_evidence import NumpyEvidence
from bayeskern.gp.numpy_predictive import Predictive
from bayeskern.gp.posterior import posterior_covariance
from bayeskern.gp.regression import condition_at, predictive_at
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.constrain import constrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import initial_positions
from bayeskern.inference.optimization.objective import NegativeLogDensity
from bayeskern.prediction.mixture import map_draws

# With more values than this the matrices that NumPy writes out, one for each derivative, take more
# time and memory than compilation.
MOST_VALUES = 1500
# Series are filled up to a multiple of this with masked rows, so that series of nearly the same
# length share their compiled functions.
BUCKET = 32


class Evidence(Protocol):
    """log p(y, hyperparameters) of a GPRegression in time, over unconstrained coordinates z (d,).

    Changes of level and slope, and robust noise, ask for more, which `NumpyEvidence` alone has:
    they go with the structures of bayeskern, and those are always in NumPy.

    Attributes:
        names: The names of the hyperparameters, d of them.
        middle: The median of their prior: (d,).
    """

    names: tuple[str, ...]
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

    def predictive(self, z, x_new) -> Predictive:
        """The log density at each of z (S, d), and the joint distribution at x_new, if it is known.

        x_new: sorted, (m,). It is known where it is normal and takes no code to be compiled.
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


def evidence_of(model: GPRegression, x: np.ndarray, y: np.ndarray, rows: int = 0) -> Evidence:
    """The evidence of a model given values y at times x: (n,) both. rows: as in `bound`."""
    in_numpy = NumpyEvidence.of(model, x, y) if len(y) <= MOST_VALUES else None
    return CompiledEvidence(bound(model, x, y, rows)) if in_numpy is None else in_numpy


def bound(model: GPRegression, x: np.ndarray, y: np.ndarray, rows: int = 0) -> Target:
    """The target of a model of values y at times x: (n,) both.

    They are filled up to `rows`, if those are more, and to a multiple of BUCKET.
    """
    n = len(x)
    size = -(-max(n, rows) // BUCKET) * BUCKET
    X, Y, mask = np.zeros(size), np.zeros(size), np.arange(size) < n
    X[:n], Y[:n] = x, y
    return BoundModel.of(model, (X, Y, mask), {}).target()


def latent_target(model: LatentGP, x: np.ndarray, y: np.ndarray) -> Target:
    """The target of a model of observations y at times x: (n,) both, f integrated out."""
    return BoundModel.of(replace(model, integrate=True), (x[:, None], y), {}).target()


class CompiledEvidence:
    """The evidence for any kernel, prior and length, by JAX."""

    def __init__(self, target: Target):
        self.target = target
        self.names = tuple(target.coordinates)
        self._objective = NegativeLogDensity(target, jacobian=True)

    def given(self, x, y) -> CompiledEvidence:
        return CompiledEvidence(bound(self.target.model, x, y))

    @property
    def middle(self) -> np.ndarray:
        return np.asarray(initial_positions(self._objective, 1, 0)[0])

    def log_density(self, z) -> float:
        return -float(_value(self._objective, z))

    def value_and_gradient(self, z) -> tuple[float, np.ndarray]:
        value, gradient = _value_and_gradient(self._objective, z)
        return -float(value), -np.asarray(gradient)

    def values(self, z) -> dict[str, np.ndarray]:
        z = np.asarray(z)
        sites = constrain(self.target, z.reshape(1, -1, z.shape[-1]))
        return {name: v.reshape((*z.shape[:-1], *v.shape[2:])) for name, v in sites.items()}

    def moments(self, z, x_new) -> tuple[np.ndarray, np.ndarray]:
        return self._predict(z, x_new).parts

    def predictive(self, z, x_new) -> Predictive:
        return Predictive.unknown(np.array([self.log_density(z_one) for z_one in z]))

    def joint(self, z, x_new, noise_factors=1.0) -> tuple[np.ndarray, np.ndarray]:
        if np.any(np.not_equal(noise_factors, 1.0)):
            raise NotImplementedError("robust noise has no compiled form.")
        mean, covariance = _joint(
            self.target.model, self.values(z), self.target.args, x_new[:, None]
        )
        return np.asarray(mean), np.asarray(covariance)

    def rolling(self, z, counts, reach) -> list[tuple[np.ndarray, np.ndarray]]:
        X, y, observed = (np.asarray(a) for a in self.target.args)
        x, y = X[observed].reshape(-1), y[observed]
        pairs = []
        for n, k in zip(counts, reach, strict=True):
            means, variances = self.given(x[:n], y[:n]).moments(z[None], x[n : n + k])
            pairs.append((means[0], variances[0]))
        return pairs

    def components(self, z, x_new, level: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        model, data = self.target.model, self.target.args
        parts = centered_components(model, self.values(z), data, x_new[:, None], level)
        return {name: part.parts for name, part in parts.items()}

    def loo(self, z) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        observed = np.asarray(self.target.args[2])
        parts = _loo(self.target.model, self.values(z), self.target.args)
        return tuple(np.asarray(part)[:, observed] for part in parts)

    def changes(self, z, name: str, ends) -> tuple[np.ndarray, np.ndarray]:
        model, data = self.target.model, self.target.args
        return tuple(map(np.asarray, _changes(model, self.values(z), data, ends[:, None], name)))

    def threads(self):
        return nullcontext()

    def _predict(self, z, x_new):
        return self.target.model.predictive(self.values(z), self.target.args, x_new[:, None])


@eqx.filter_jit
def _loo(model, draws, data):
    return map_draws(lambda draw: tuple(condition_at(model, draw, data).loo()), draws)


@eqx.filter_jit
def _changes(model, draws, data, ends, name):
    def change(draw):
        at_ends = predictive_at(model, data, True, name, draw, ends)
        K = posterior_covariance(at_ends.gp, at_ends.part, ends)
        return jnp.diff(at_ends.mean())[0], K[0, 0] + K[1, 1] - 2.0 * K[0, 1]

    return map_draws(change, draws)


@eqx.filter_jit
def _joint(model, draw, data, x_new):
    at_new = predictive_at(model, data, True, None, draw, x_new)
    covariance = posterior_covariance(at_new.gp, at_new.part, x_new)
    return at_new.mean(), covariance + model.at(draw).noise * jnp.eye(len(x_new))


@eqx.filter_jit
def _value(objective, z):
    return objective(z)


@eqx.filter_jit
def _value_and_gradient(objective, z):
    return jax.value_and_grad(objective)(z)
