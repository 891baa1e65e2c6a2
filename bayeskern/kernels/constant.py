"""Kernels without coordinates: a level shared by all points, and white noise."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.kernels.state_space.terms import PolynomialTerm


class Constant(Kernel):
    """Constant kernel, k(x, z) = variance: a level shared by all points.

    `k + c` adds Constant(c).

    Args:
        variance: Prior variance of the level, in the squared units of the output; 0 or more.
    """

    offers: ClassVar[tuple[str, ...]] = ("features", "state_space", "means", "numpy_gram")
    sentence: ClassVar[str] = "sets the level"
    depends_on_lag: ClassVar[bool] = True
    takes_levels: ClassVar[bool] = True

    variance: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        return jnp.full((X.shape[0], (X if Z is None else Z).shape[0]), self.variance)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def state_space(self) -> StateSpace:
        return StateSpace((PolynomialTerm(0, self.variance[None]),))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.full((len(X), 1), jnp.sqrt(self.variance))

    @staticmethod
    def numpy_gram(parts, values, pairs):
        return np.asarray(next(values)), lambda w: [lambda: w.total]

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return self.evaluate(X.lower, Z.lower)

    def features_of_means(self, X: Boxes) -> jax.Array:
        return self.features(X.lower, None)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return {(): self}


class White(Kernel):
    """White noise: `variance` on the diagonal of k(X), and 0 elsewhere.

    k(X, Z) is 0 even if Z equals X, because noise at a new observation is independent.

    Args:
        variance: The variance of the noise, in the squared units of the output.

    References:
        Rasmussen and Williams (2006), section 4.2.3.

    Examples:
        >>> from bayeskern.kernels import White
        >>> print(White(0.5)([1.0, 2.0]))
        [[0.5 0. ]
         [0.  0.5]]
    """

    offers: ClassVar[tuple[str, ...]] = ("state_space",)
    sentence: ClassVar[str] = "is noise without memory"
    is_a_function: ClassVar[bool] = False
    takes_levels: ClassVar[bool] = True
    is_differentiable: ClassVar[bool] = False

    variance: Hyperparameter = hyperparameter(1.0)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        if Z is None:
            return self.variance * jnp.eye(X.shape[0], dtype=X.dtype)
        return jnp.zeros((X.shape[0], Z.shape[0]), X.dtype)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        if not X.columns:
            return super().evaluate_means(X, Z)
        raise ValueError(
            f"{self!r} has no mean over an interval: white noise is not a function of a point. "
            "Remove it, and pass its variance as the noise of the model."
        )

    def state_space(self) -> StateSpace:
        return StateSpace((), (self.variance,))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        raise ValueError(
            f"{self!r} has no feature map: white noise is not a function of a point. Remove it, "
            "and pass its variance as the noise of the model."
        )
