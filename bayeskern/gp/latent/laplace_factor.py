"""R = (K + W^-1)^-1 factored, W being the curvature of the log likelihood: Laplace's approximation.

Arrays as in laplace.py: K (C, n, n), f (C, n), W (C, C, n), and (C n, C n) for what joins them.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import block_diag, cho_solve, solve_triangular

from bayeskern.kernels.base import Kernel
from bayeskern.linalg import DenseFactor


class LaplaceFactor(eqx.Module):
    """R = (K + W^-1)^-1, factored."""

    @abstractmethod
    def newton_direction(self, multiply, r):
        """(I - R K) r: what to add to a = K^-1 (f - m) where the gradient in f is r (C, n).

        multiply: v -> K v.
        """

    @abstractmethod
    def logdet(self):
        """log |I + K W|."""


class MatrixFactor(LaplaceFactor):
    """One by which n x n matrices are held."""

    @abstractmethod
    def quadratic_forms(self, V, joint: bool = False):
        """V_c' R_cd V_d for V (C, n, m): its diagonals (C, C, m), or all of it (C, m, C, m)."""


class DiagonalFactor(MatrixFactor):
    """One latent function, W >= 0: the Cholesky factor L of B = I + W^1/2 K W^1/2.

    Rasmussen and Williams (2006), equation 3.26.
    """

    root: jax.Array
    L: jax.Array

    @classmethod
    def compute(cls, K, W) -> DiagonalFactor:
        root = jnp.sqrt(W[0, 0])
        B = jnp.eye(K.shape[-1], dtype=K.dtype) + root[:, None] * K[0] * root
        return cls(root, jnp.linalg.cholesky(B, symmetrize_input=False))

    def newton_direction(self, multiply, r):
        v = self.root * multiply(r)[0]
        return r - self.root * cho_solve((self.L, True), v)

    def quadratic_forms(self, V, joint=False):
        return inner_products(self._whiten(V), joint)

    def _whiten(self, V):
        return solve_triangular(self.L, self.root[:, None] * V[0], lower=True)[None]

    def logdet(self):
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.L)))


class BlockFactor(MatrixFactor):
    """Any W: the Cholesky factor of M = I + L' W L, where K = L L' (with a jitter).

    M is positive definite exactly where K^-1 + W is, so that f^ is a maximum. R = W - W S W with
    the posterior covariance S = L M^-1 L'.
    """

    roots: jax.Array
    W: jax.Array
    M: jax.Array

    @classmethod
    def compute(cls, roots, W) -> BlockFactor:
        """roots: the Cholesky factors of K."""
        P = roots.shape[0] * roots.shape[1]
        eye = jnp.eye(P, dtype=W.dtype)
        C, _, n = W.shape
        joined = jnp.einsum("cji,cdj,djk->cidk", roots, W, roots).reshape(C * n, C * n)
        return cls(roots, W, jnp.linalg.cholesky(eye + joined, symmetrize_input=False))

    def newton_direction(self, multiply, r):
        step = jnp.einsum("cji,cj->ci", self.roots, r)
        step = cho_solve((self.M, True), step.ravel()).reshape(r.shape)
        step = jnp.einsum("cij,cj->ci", self.roots, step)
        return r - jnp.einsum("cdi,di->ci", self.W, step)

    def covariance(self):
        """S: (C n, C n)."""
        T = solve_triangular(self.M, block_diag(*self.roots).T, lower=True)
        return T.T @ T

    def quadratic_forms(self, V, joint=False):
        subscripts = "cin,cdi,dim->cndm" if joint else "cim,cdi,dim->cdm"
        WV = jnp.einsum("dci,cim->cdim", self.W, V)
        LWV = jnp.einsum("dji,cdjm->cdim", self.roots, WV)
        C, n, m = V.shape
        T = jax.vmap(lambda B: solve_triangular(self.M, B, lower=True))(LWV.reshape(C, C * n, m))
        return jnp.einsum(subscripts, V, self.W, V) - inner_products(T, joint)

    def logdet(self):
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.M)))


class NoiseFreeFactor(MatrixFactor):
    """The limit in which f itself is observed: R = K^-1, from the Cholesky factors of K."""

    roots: jax.Array

    def newton_direction(self, multiply, r):
        return jnp.zeros_like(r)

    def quadratic_forms(self, V, joint=False):
        T = jax.vmap(lambda L, B: solve_triangular(L, B, lower=True))(self.roots, V)
        same = jnp.eye(V.shape[0], dtype=V.dtype)
        return inner_products(T, joint) * (same[:, None, :, None] if joint else same[:, :, None])

    def logdet(self):
        return jnp.asarray(jnp.inf)


def repeat_kernels(kernels, C: int) -> tuple[Kernel, ...]:
    """One kernel for each of C latent functions."""
    return kernels if len(kernels) == C else kernels * C


def factorizer(K, concave: bool):
    """How to factor at any W: a function of W (C, C, n)."""
    if concave and K.shape[0] == 1:
        return lambda W: DiagonalFactor.compute(K, W)
    roots = cholesky(K)
    return lambda W: BlockFactor.compute(roots, W)


def cholesky(K):
    """The Cholesky factor of each K: (C, n, n)."""
    return jnp.stack([DenseFactor.compute(K_c).L for K_c in K])


def mul(K, v):
    """K v for each latent function: (C, n)."""
    return (K[0] @ v[0])[None] if K.shape[0] == 1 else jnp.einsum("cij,cj->ci", K, v)


def times(W, V):
    """W V for V (C n, q)."""
    C, _, n = W.shape
    if C == 1:
        return W[0, 0][:, None] * V
    return jnp.einsum("cdi,diq->ciq", W, V.reshape(C, n, -1)).reshape(C * n, -1)


def row_blocks(X, Y, C: int):
    """The C x C block of X' Y at each row: (C, C, n), for X and Y (P, C n)."""
    shape = (X.shape[0], C, -1)
    return jnp.einsum("qci,qdi->cdi", X.reshape(shape), Y.reshape(shape))


def inner_products(T, joint):
    """T_c' T_d for T (C, q, m): its diagonals, or all of it."""
    return jnp.einsum("cqn,dqm->cndm" if joint else "cqm,dqm->cdm", T, T)


def positive_part(W):
    """The curvature with its negative eigenvalues set to 0."""
    if W.shape[0] == 1:
        return jnp.maximum(W, 0.0)
    values, vectors = jnp.linalg.eigh(jnp.moveaxis(W, -1, 0))
    return jnp.einsum("ncd,nd,ned->cen", vectors, jnp.maximum(values, 0.0), vectors)
