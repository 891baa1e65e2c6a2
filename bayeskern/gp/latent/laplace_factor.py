"""Factors of R = (K + W^-1)^-1, where W is the curvature of the log likelihood.

Shapes as in `laplace`, for C latent functions at n rows: K (C, n, n), f (C, n), W (C, C, n);
matrices over all latent functions are (C n, C n).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import block_diag, cho_solve, solve_triangular

from bayeskern.linalg import DenseFactor, lapack

Multiply = Callable[[Array], Array]


class LaplaceFactor(eqx.Module):
    """R = (K + W^-1)^-1, factored."""

    @abstractmethod
    def newton_direction(self, multiply: Multiply, r: Array) -> Array:
        """Newton step (I - R K) r in a = K^-1 (f - m), for the gradient r (C, n) in f.

        multiply: The function v -> K v.
        """

    @abstractmethod
    def logdet(self) -> Array:
        """log |I + K W|."""


class DiagonalFactor(LaplaceFactor):
    """R for one latent function with W >= 0, from the Cholesky factor L of B.

    B = I + W^1/2 K W^1/2, and `root` is W^1/2. Rasmussen and Williams (2006), equation 3.26.
    """

    root: Array
    L: Array

    @classmethod
    def compute(cls, K: Array, W: Array) -> DiagonalFactor:
        """Factor B for K (1, n, n) and W (1, 1, n)."""
        root = jnp.sqrt(W[0, 0])
        B = jnp.eye(K.shape[-1], dtype=K.dtype) + root[:, None] * K[0] * root
        return cls(root, jnp.linalg.cholesky(B, symmetrize_input=False))

    def newton_direction(self, multiply: Multiply, r: Array) -> Array:
        v = self.root * multiply(r)[0]
        return r - self.root * cho_solve((self.L, True), v)

    def quadratic_forms(self, V: Array, joint: bool = False) -> Array:
        """Diagonals (C, C, m) of V_c' R_cd V_d for V (C, n, m); if joint, (C, m, C, m)."""
        whitened = solve_triangular(self.L, self.root[:, None] * V[0], lower=True)[None]
        return _inner_products(whitened, joint)

    def logdet(self) -> Array:
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.L)))


class BlockFactor(LaplaceFactor):
    """R for any W, from the Cholesky factor of I + L' W L with K = L L' (jittered).

    I + L' W L is positive definite if and only if K^-1 + W is, that is, if f^ is a maximum.
    R = W - W S W with the posterior covariance S = L (I + L' W L)^-1 L'.

    Attributes:
        roots: L of each latent function, (C, n, n).
        W: Curvature, (C, C, n).
        M: Cholesky factor of I + L' W L, (C n, C n).
    """

    roots: Array
    W: Array
    M: Array

    @classmethod
    def compute(cls, roots: Array, W: Array) -> BlockFactor:
        """Factor I + L' W L for W (C, C, n) and Cholesky factors `roots` (C, n, n)."""
        C, _, n = W.shape
        LWL = jnp.einsum("cji,cdj,djk->cidk", roots, W, roots).reshape(C * n, C * n)
        eye = jnp.eye(C * n, dtype=W.dtype)
        return cls(roots, W, jnp.linalg.cholesky(eye + LWL, symmetrize_input=False))

    def newton_direction(self, multiply: Multiply, r: Array) -> Array:
        # (I - R K) r = r - W S r.
        step = jnp.einsum("cji,cj->ci", self.roots, r)
        step = cho_solve((self.M, True), step.ravel()).reshape(r.shape)
        step = jnp.einsum("cij,cj->ci", self.roots, step)
        return r - jnp.einsum("cdi,di->ci", self.W, step)

    def covariance(self) -> Array:
        """S: (C n, C n)."""
        T = solve_triangular(self.M, block_diag(*self.roots).T, lower=True)
        return T.T @ T

    def quadratic_forms(self, V: Array, joint: bool = False) -> Array:
        """Diagonals (C, C, m) of V_c' R_cd V_d for V (C, n, m); if joint, (C, m, C, m)."""
        subscripts = "cin,cdi,dim->cndm" if joint else "cim,cdi,dim->cdm"
        WV = jnp.einsum("dci,cim->cdim", self.W, V)
        LWV = jnp.einsum("dji,cdjm->cdim", self.roots, WV)
        C, n, m = V.shape
        T = jax.vmap(lambda B: solve_triangular(self.M, B, lower=True))(LWV.reshape(C, C * n, m))
        return jnp.einsum(subscripts, V, self.W, V) - _inner_products(T, joint)

    def logdet(self) -> Array:
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.M)))


class NoiseFreeFactor(eqx.Module):
    """R = K^-1 for f observed without noise, from the Cholesky factors `roots` of K."""

    roots: Array

    def quadratic_forms(self, V: Array, joint: bool = False) -> Array:
        """Diagonals (C, C, m) of V_c' R_cd V_d for V (C, n, m); if joint, (C, m, C, m)."""
        T = jax.vmap(lambda L, B: solve_triangular(L, B, lower=True))(self.roots, V)
        eye = jnp.eye(V.shape[0], dtype=V.dtype)
        return _inner_products(T, joint) * (eye[:, None, :, None] if joint else eye[:, :, None])


def _inner_products(T: Array, joint: bool) -> Array:
    """Diagonals (C, C, m) of T_c' T_d for T (C, q, m); if joint, (C, m, C, m)."""
    return jnp.einsum("cqn,dqm->cndm" if joint else "cqm,dqm->cdm", T, T)


# -- covariance matrices ---------------------------------------------------------------------------


class LatentCovariance(eqx.Module):
    """Covariance K of the latent functions: products, and factors of (K + W^-1)^-1.

    Attributes:
        contraction: Share of the last decrement. The search for the mode keeps a factor while each
            step reduces the decrement to this share or less. A step takes O(n^2) with an old
            factor, O(n^3) with a new one.
    """

    contraction: ClassVar[float] = 0.1

    @abstractmethod
    def multiply(self, v: Array) -> Array:
        """K v for each latent function: (C, n)."""

    @abstractmethod
    def factorizer(self, concave: bool) -> Callable[[Array], LaplaceFactor]:
        """Function that factors (K + W^-1)^-1 for W (C, C, n); concave: True if W >= 0."""

    @abstractmethod
    def inverse(self, W: Array, concave: bool) -> LatentInverse:
        """R = (K + W^-1)^-1."""

    @abstractmethod
    def half_logdet_tangent(
        self, inverse: LatentInverse, W: Array, d_covariance: LatentCovariance, dW: Array
    ) -> Array:
        """Tangent of 1/2 log |I + K W|."""


class LatentInverse(Protocol):
    """R = (K + W^-1)^-1."""

    def solve(self, v: Array) -> Array:
        """R v: (C, n)."""
        ...


class DenseCovariance(LatentCovariance):
    """Covariance matrices K (C, n, n) of C latent functions."""

    K: Array

    def multiply(self, v: Array) -> Array:
        K = self.K
        return (K[0] @ v[0])[None] if K.shape[0] == 1 else jnp.einsum("cij,cj->ci", K, v)

    def factorizer(self, concave: bool) -> Callable[[Array], LaplaceFactor]:
        if concave and self.K.shape[0] == 1:
            return partial(DiagonalFactor.compute, self.K)
        return partial(BlockFactor.compute, self.roots())

    def roots(self) -> Array:
        """Cholesky factor of each covariance matrix: (C, n, n)."""
        return jnp.stack([DenseFactor.compute(K).L for K in self.K])

    def inverse(self, W: Array, concave: bool) -> DenseInverse:
        return DenseInverse(*dense_inverse(self.K, W, concave))

    def half_logdet_tangent(
        self, inverse: DenseInverse, W: Array, d_covariance: DenseCovariance, dW: Array
    ) -> Array:
        return 0.5 * (
            jnp.sum(inverse.R * _block_diagonal(d_covariance.K)) + jnp.sum(inverse.S * dW)
        )


class DenseInverse(NamedTuple):
    """R (C n, C n), and S (C, C, n), the C x C posterior covariance at each row."""

    R: Array
    S: Array

    def solve(self, v: Array) -> Array:
        """R v: (C, n)."""
        return (self.R @ v.ravel()).reshape(v.shape)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def dense_inverse(K: Array, W: Array, concave: bool) -> tuple[Array, Array]:
    """R (C n, C n) and S (C, C, n), as in `DenseInverse`."""
    C, n, _ = K.shape
    if C > 1 or not concave:
        factor = BlockFactor.compute(DenseCovariance(K).roots(), W)
        covariance = factor.covariance()
        WS = _multiply_W(W, covariance)
        R = _multiply_W(W, jnp.eye(C * n, dtype=K.dtype)) - _multiply_W(W, WS.T)
        S = jnp.einsum("cidi->cdi", covariance.reshape(C, n, C, n))
        return R, S
    root = jnp.sqrt(W[0, 0])
    inverse = _inverse_of_B(K, W)
    # B^-1 = I - W^1/2 S W^1/2. Where W is 0, S does not affect any result.
    curved = root > 0.0
    S = (1.0 - jnp.diagonal(inverse)) / jnp.where(curved, W[0, 0], 1.0)
    S = jnp.where(curved, S, jnp.diagonal(K[0]))
    return root[:, None] * inverse * root, S[None, None]


@dense_inverse.defjvp
def _dense_inverse_jvp(concave, primals, tangents):
    (K, W), (dK, dW) = primals, tangents
    R, S = dense_inverse(K, W, concave)
    C, K, dK = K.shape[0], _block_diagonal(K), _block_diagonal(dK)
    # A = I - R K, and K A = (K^-1 + W)^-1 is the posterior covariance of all rows.
    A = jnp.eye(K.shape[0], dtype=K.dtype) - R @ K
    covariance = K @ A
    dR = A @ _multiply_W(dW, A.T) - R @ dK @ R
    dS = _row_blocks(A, dK @ A, C) - _row_blocks(covariance, _multiply_W(dW, covariance), C)
    return (R, S), (dR, dS)


def _inverse_of_B(K: Array, W: Array) -> Array:
    """Inverse of B = I + W^1/2 K W^1/2 for K (1, n, n) and W (1, 1, n)."""
    n = K.shape[-1]
    if lapack.is_faster(n):
        shape = jax.ShapeDtypeStruct((n, n), K.dtype)
        root = jnp.sqrt(W[0, 0])
        return jax.pure_callback(_lapack_inverse_of_B, shape, K[0], root, vmap_method="sequential")
    L = DiagonalFactor.compute(K, W).L
    return cho_solve((L, True), jnp.eye(n, dtype=K.dtype))


def _lapack_inverse_of_B(K: Array, root: Array) -> np.ndarray:
    """`_inverse_of_B` for NumPy arrays."""
    K_, root_ = np.asarray(K), np.asarray(root)
    B = root_[:, None] * K_ * root_
    B[np.diag_indices(len(B))] += 1.0
    L = lapack.cholesky(B)
    return np.zeros_like(B) if np.isnan(L[-1, -1]) else lapack.inverse(L)


def _block_diagonal(K: Array) -> Array:
    """Block-diagonal matrix of K (C, n, n): (C n, C n)."""
    return K[0] if K.shape[0] == 1 else block_diag(*K)


def _multiply_W(W: Array, V: Array) -> Array:
    """W V for V (C n, q)."""
    C, _, n = W.shape
    if C == 1:
        return W[0, 0][:, None] * V
    return jnp.einsum("cdi,diq->ciq", W, V.reshape(C, n, -1)).reshape(C * n, -1)


def _row_blocks(X: Array, Y: Array, C: int) -> Array:
    """C x C block of X' Y at each of n rows, (C, C, n), for X and Y (q, C n)."""
    shape = (X.shape[0], C, -1)
    return jnp.einsum("qci,qdi->cdi", X.reshape(shape), Y.reshape(shape))
