"""Coregionalization: correlated outputs, numbered by a column of the inputs."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import Free, Hyperparameter, hyperparameter
from bayeskern.kernels.base import Kernel


class Coregion(Kernel):
    """Coregionalization kernel of output numbers, k(i, j) = [W W' + diag(kappa)]_ij.

    The points are output numbers 0, 1, ..., in one column, or text in a data frame, of which the
    levels are numbered in their order: each row of the data is a value of one output. The product
    with a kernel of the other columns is the intrinsic coregionalization model, in which all
    outputs have the same lengthscales and are correlated: `RBF().on([0]) *
    Coregion(outputs=2).on([1])`. A sum of such products is the linear model of coregionalization.
    Fix the variance of the other kernel, which only scales W W' + diag(kappa).

    Args:
        outputs: Number of outputs P; static.
        rank: Number of functions R that the outputs share; static.
        weights: Weights W of the shared functions in the outputs, in the units of the outputs:
            shape (P, R). A number, `Free` or a distribution of one number applies to all of them.
            The sign of each column of W is not identified, nor, for R > 1, the rotation of W, as
            in factor analysis.
        kappa: Variance of the independent part of each output, in its squared units, 0 or more:
            shape (P,), or one number for all.

    Raises:
        ValueError: The weights or kappa have another shape; or, on evaluation, a point is not one
            of 0, ..., P - 1. Under `jax.jit` its covariances are NaN instead.

    References:
        Bonilla, Chai and Williams (2008), "Multi-task Gaussian process prediction", equation 1;
        Alvarez, Rosasco and Lawrence (2012), "Kernels for vector-valued functions: a review",
        section 4.2.

    Examples:
        >>> from bayeskern.kernels import RBF, Coregion
        >>> coregion = Coregion(outputs=2, weights=[[1.0], [-2.0]], kappa=[0.5, 0.0])
        >>> print(coregion([0.0, 1.0]))
        [[ 1.5 -2. ]
         [-2.   4. ]]
        >>> kernel = RBF(lengthscale=2.0).on([0]) * coregion.on([1])
        >>> print(kernel([[0.0, 0.0], [0.0, 1.0], [2.0, 1.0]]).round(3))
        [[ 1.5   -2.    -1.213]
         [-2.     4.     2.426]
         [-1.213  2.426  4.   ]]
    """

    offers: ClassVar[tuple[str, ...]] = ("features",)
    sentence: ClassVar[str] = "ties {kernel.outputs} outputs together"
    is_differentiable: ClassVar[bool] = False
    takes_levels: ClassVar[bool] = True
    of_levels: ClassVar[bool] = True

    outputs: int = eqx.field(static=True)
    rank: int = eqx.field(static=True, default=1)
    weights: Hyperparameter = hyperparameter(1.0, constraints.real, scalar=False)
    kappa: Hyperparameter = hyperparameter(1.0, constraints.nonnegative, scalar=False)

    def __post_init__(self):
        # Validated here, before the converters of the fields run: the shapes depend on them.
        self.outputs = validation.positive_integer(self.outputs, "outputs")
        self.rank = validation.positive_integer(self.rank, "rank")
        for name, shape in self._shapes():
            setattr(self, name, _for_each(name, getattr(self, name), shape))

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        i, W = self._outputs_of(X)
        j, V = (i, W) if Z is None else self._outputs_of(Z)
        return W @ V.T + jnp.where(i[:, None] == j, jnp.take(self.kappa, i)[:, None], 0.0)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        i, W = self._outputs_of(X)
        return jnp.sum(W * W, axis=1) + jnp.take(self.kappa, i)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        i, W = self._outputs_of(X)
        return jnp.concatenate([W, jnp.diag(jnp.sqrt(self.kappa))[i]], axis=1)

    def _outputs_of(self, X):
        """Output number of each row, (n,), and its weights, (n, R)."""
        for name, shape in self._shapes():
            if jnp.shape(getattr(self, name)) != shape:
                raise _wrong_shape(name, jnp.shape(getattr(self, name)), shape)
        i, is_valid = validation.whole_numbers(X, self.outputs, "output", "Coregion")
        return i, jnp.where(is_valid[:, None], jnp.take(self.weights, i, axis=0), jnp.nan)

    def _shapes(self):
        return [("weights", (self.outputs, self.rank)), ("kappa", (self.outputs,))]


def _for_each(name: str, value, shape):
    """The hyperparameter with this shape; a single number is repeated."""
    value = hyper.as_hyperparameter(value)
    if hyper.shape(value) == shape:
        return value
    if hyper.shape(value) != ():
        raise _wrong_shape(name, hyper.shape(value), shape)
    if isinstance(value, Distribution):
        return value.expand(shape).to_event(len(shape))
    if isinstance(value, Free):
        return Free(value.init + np.zeros(shape))
    return value + np.zeros(shape)


def _wrong_shape(name: str, actual, expected) -> ValueError:
    return ValueError(
        f"Coregion.{name} has shape {actual}: give it the shape {expected}, or one number for all."
    )
