"""Transitions of a state extended by integrals of the process.

The state is (x, z): z(t + d) = G x(t) + keep * z(t) + noise, and x does not depend on z.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayeskern.kernels.state_space.blocks import Repeated, Weighted


class BorderedCovariance(eqx.Module):
    """Covariance matrix of (x, z).

    Attributes:
        inner: Covariance of x.
        cross: Covariance of x and z, shape (s, K).
        corner: Covariance of z, shape (K, K).
    """

    inner: Weighted
    cross: jax.Array
    corner: jax.Array

    def dense(self) -> Float[Array, "sK sK"]:
        """The matrix itself."""
        return jnp.block([[self.inner.dense(), self.cross], [self.cross.T, self.corner]])


class Bordered(eqx.Module):
    """Matrix [[A, 0], [G, diag(keep)]], with the operations of `Repeated`.

    Attributes:
        A: Transition matrix of x.
        G: Coefficients of x in z, shape (K, s).
        keep: Factors of z, shape (K,).
    """

    A: Repeated
    G: jax.Array
    keep: jax.Array

    # Makes NumPy and JAX arrays on the left defer to __rmatmul__.
    __array_ufunc__ = None

    @property
    def T(self) -> BorderedTransposed:
        """Transpose."""
        return BorderedTransposed(self)

    def __matmul__(self, X: Float[Array, " sK *n"]) -> Float[Array, " sK *n"]:
        x, z = self._split(X)
        return jnp.concatenate([self.A @ x, self.G @ x + _scaled(self.keep, z)])

    def __rmatmul__(self, X: Float[Array, "n sK"]) -> Float[Array, "n sK"]:
        return (self.T @ X.T).T

    def slope(self, C: Float[Array, "sK n"], X: Float[Array, "sK n"]) -> Bordered:
        """Derivative of tr(C'M X) with respect to this matrix M."""
        (of_x, of_z), (x, z) = self._split(C), self._split(X)
        return Bordered(self.A.slope(of_x, x), of_z @ x.T, jnp.sum(of_z * z, axis=1))

    def _split(self, X) -> tuple[jax.Array, jax.Array]:
        s = self.G.shape[1]
        return X[:s], X[s:]


class BorderedTransposed(eqx.Module):
    """Transpose [[A', G'], [0, diag(keep)]] of a bordered matrix."""

    matrix: Bordered

    __array_ufunc__ = None

    @property
    def T(self) -> Bordered:
        """Transpose."""
        return self.matrix

    def __matmul__(self, X: Float[Array, " sK *n"]) -> Float[Array, " sK *n"]:
        x, z = self.matrix._split(X)
        return jnp.concatenate(
            [self.matrix.A.T @ x + self.matrix.G.T @ z, _scaled(self.matrix.keep, z)]
        )

    def __rmatmul__(self, X: Float[Array, "n sK"]) -> Float[Array, "n sK"]:
        return (self.matrix @ X.T).T


def _scaled(factors, X):
    """Rows of X (K, ...) times factors (K,)."""
    return factors.reshape(-1, *(1,) * (X.ndim - 1)) * X


def bordered(
    transition: Bordered, noise: BorderedCovariance
) -> tuple[Repeated | Bordered, Weighted | BorderedCovariance]:
    """A transition and its noise covariance, as one block if x has one block.

    Products with one small matrix take less time than products with its parts.
    """
    if transition.A.copies != (1,):
        return transition, noise
    (A,), G = transition.A.blocks, transition.G
    M = jnp.block([[A, jnp.zeros(G.T.shape)], [G, jnp.diag(transition.keep)]])
    return Repeated((M,), (1,)), Weighted((noise.dense(),), (jnp.ones(1),))
