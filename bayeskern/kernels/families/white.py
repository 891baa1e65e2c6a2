"""White noise: independent at every observation."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import StateSpace


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
