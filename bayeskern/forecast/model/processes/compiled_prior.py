"""Prior of a process whose kernel lacks NumPy formulas: JAX computes the Gram matrices."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.engine.prior import Gradient
from bayeskern.gp import GPRegression
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.evaluation import constrain
from bayeskern.inference.search.objective import NegativeLogDensity
from bayeskern.inference.search.starts import initial_positions
from bayeskern.kernels.components import component_names, part_of
from bayeskern.kernels.gram_matrix import padded
from bayeskern.kernels.pairs import Pairs


class CompiledPrior:
    """A `ProcessPrior` for any kernel with any priors of its hyperparameters.

    One reverse pass of automatic differentiation computes the gradient, so that a kernel may have
    many hyperparameters, such as the weights of a network.

    Args:
        model: Kernel, noise and priors; its mean is zero.
    """

    def __init__(self, model: GPRegression):
        # A target needs data; their values do not matter for the density of the hyperparameters.
        self._target = BoundModel.from_model(model, (np.zeros(2), np.zeros(2)), {}).target()
        objective = NegativeLogDensity(self._target, jacobian=True)
        self.middle = np.asarray(initial_positions(objective, 1, 0)[0])
        self.prior_sd = np.ones(len(self.middle))
        self.names = tuple(self._target.coordinates)
        self.component_names = tuple(component_names(model.kernel))

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        z = np.asarray(z)
        sites = constrain(self._target, z.reshape(1, -1, z.shape[-1]))
        return {name: v.reshape((*z.shape[:-1], *v.shape[2:])) for name, v in sites.items()}

    def noise(self, z: np.ndarray) -> float:
        """Variance of the noise at z (d,)."""
        return float(_noise_and_log_density(self._target, z)[0])

    def log_density(self, z: np.ndarray) -> float:
        """log p(z) at z (d,)."""
        return float(_noise_and_log_density(self._target, z)[1])

    def covariance(self, z: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, Gradient]:
        """Kernel with hyperparameters z (d,) at the pairs, and the `Gradient` of weighted sums."""

        def gradient(A, b):
            X, Z = _points(pairs)
            weights = np.zeros((len(X), len(X if Z is None else Z)))
            # No weight for the padding of the points.
            weights[: A.shape[0], : A.shape[1]] = A
            return np.asarray(_gradient(z, self._target, X, Z, weights, b))

        return self._gram(z, pairs, None), gradient

    def components(self, z: np.ndarray, pairs: Pairs) -> dict[str, np.ndarray]:
        """Each component of the kernel with hyperparameters z (d,) at the pairs, by name."""
        return {name: self._gram(z, pairs, name) for name in self.component_names}

    def _gram(self, z: np.ndarray, pairs: Pairs, name: str | None) -> np.ndarray:
        """A component of the kernel at the pairs, or the whole kernel."""
        n, m = len(pairs.s), np.shape(pairs.t)[-1]
        if pairs.s.ndim == 1:
            return np.asarray(_diagonal(self._target, z, padded(pairs.s[:, None]), name))[:n]
        # A copy, because JAX arrays are read-only.
        return np.array(_matrix(self._target, z, *_points(pairs), name))[:n, :m]


def _points(pairs: Pairs) -> tuple[np.ndarray, np.ndarray | None]:
    """Padded points of a Gram matrix; None for columns equal to the rows.

    Z is None rather than a copy of X, because white noise distinguishes points at the same time.
    """
    return padded(pairs.s), None if pairs.are_same else padded(pairs.t.T)


@eqx.filter_jit
def _matrix(target, z, X, Z, name):
    return part_of(_model_at(target, z).kernel, name).evaluate(X, Z)


@eqx.filter_jit
def _diagonal(target, z, X, name):
    return part_of(_model_at(target, z).kernel, name).evaluate_diag(X)


@eqx.filter_jit
def _noise_and_log_density(target, z):
    return _model_at(target, z).noise, target.log_prior(z)


@eqx.filter_jit
@jax.grad
def _gradient(z, target, X, Z, weights, b):
    model = _model_at(target, z)
    sums = jnp.vdot(weights, model.kernel.evaluate(X, Z)) + b * model.noise
    return 0.5 * sums + target.log_prior(z)


def _model_at(target, z) -> GPRegression:
    """The model with hyperparameters z (d,)."""
    return target.model.at(target.constrain(z))
