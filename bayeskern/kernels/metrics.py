"""Lengthscales (a number, a vector, or a full metric) and squared distances."""

from __future__ import annotations

import operator
from functools import reduce

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Array, Float

# Differences are computed directly in up to this many dimensions; in more, the square is expanded
# into matrix products.
MAX_DIRECT_DIMENSIONS = 8


def scale(X: Float[Array, "n d"], lengthscale: ArrayLike) -> Float[Array, "n d"]:
    """Divide the points by a lengthscale.

    The lengthscale is a number, a vector (d,) or a lower triangular matrix L (d, d), which gives
    distances |L^-1 (x - z)|, the metric (L L')^-1.
    """
    shape, d = jnp.shape(lengthscale), X.shape[1]
    if shape not in ((), (1,), (d,), (d, d)):
        raise ValueError(
            f"lengthscale has shape {shape} but the points have {d} dimensions; "
            f"give a number, a vector of {d}, or a lower triangular {d} x {d} matrix."
        )
    if len(shape) == 2:
        return solve_triangular(lengthscale, X.T, lower=True).T
    return X / lengthscale


def require_per_dimension(name: str, value: Array, X: Float[Array, "n d"]) -> Array:
    """Return the value after checking that it is a number or a vector (d,).

    Raises:
        ValueError: The value has another shape.
    """
    if jnp.shape(value) not in ((), (1,), X.shape[1:]):
        raise ValueError(
            f"{name} has shape {jnp.shape(value)} but the points have {X.shape[1]} dimensions; "
            f"give a number or a vector of {X.shape[1]}."
        )
    return value


def center(
    X: Float[Array, "n d"], Z: Float[Array, "m d"] | None = None
) -> tuple[Float[Array, "n d"], Float[Array, "m d"] | None]:
    """Subtract the mean of Z, or of X if Z is None, from X and Z.

    The shift leaves distances and derivatives unchanged, and reduces rounding errors.
    """
    mean = _mean(X if Z is None else Z)
    return X - mean, None if Z is None else Z - mean


def _mean(X):
    return jax.lax.stop_gradient(jnp.mean(X, axis=0))


def squared_distance(
    X: Float[Array, "n d"], Z: Float[Array, "m d"] | None = None
) -> Float[Array, "n m"]:
    """|x - z|^2 of every pair of points; exactly 0 on the diagonal if Z is None."""
    U = _squared_distances(X, X if Z is None else Z)
    if Z is None and X.shape[1] > MAX_DIRECT_DIMENSIONS:
        U = jnp.where(jnp.eye(X.shape[0], dtype=bool), 0.0, U)
    return U


# The derivative d|x-z|^2 = 2 (x-z)'(dx-dz) is computed by matrix products. No temporary is larger
# than the result, and first and second derivatives at x = z are finite and correct.


@jax.custom_jvp
def _squared_distances(X, Z):
    if X.shape[1] <= MAX_DIRECT_DIMENSIONS:
        squares = (jnp.square(X[:, None, i] - Z[None, :, i]) for i in range(X.shape[1]))
        return reduce(operator.add, squares)
    X, Z = X - _mean(Z), Z - _mean(Z)
    U = jnp.sum(X * X, 1)[:, None] + jnp.sum(Z * Z, 1)[None, :] - 2.0 * (X @ Z.T)
    return jnp.maximum(U, 0.0)


@_squared_distances.defjvp
def _squared_distances_jvp(primals, tangents):
    (X, Z), (dX, dZ) = primals, tangents
    U = _squared_distances(X, Z)
    X, Z = X - _mean(Z), Z - _mean(Z)
    # Factors and signs are applied to (n, d) arrays, and X = Z has no branch of its own: reverse
    # mode then needs only matrix products, without n x m temporaries.
    rows, columns = 2.0 * jnp.sum(X * dX, 1), 2.0 * jnp.sum(Z * dZ, 1)
    return U, rows[:, None] + columns[None, :] + dX @ (-2.0 * Z.T) + (-2.0 * X) @ dZ.T
