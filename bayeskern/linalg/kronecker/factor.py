"""Covariance matrices on full grids, K = K_1 x K_2 x ... + noise I.

K_g is the n_g x n_g Gram matrix of axis g, and x the Kronecker product. The eigendecompositions
K_g = V_g diag(l_g) V_g' give K = V diag(l_1 x l_2 x ... + noise) V' with V = V_1 x V_2 x ..., in
O(sum n_g^3 + n sum n_g) time for n = n_1 n_2 ... cells. Saatci (2011),
"Scalable inference for structured Gaussian process models", chapter 5; Wilson, Gilboa, Nehorai and
Cunningham (2014), "Fast kernel learning for multidimensional pattern extrapolation".

Derivatives do not pass through the eigenvectors, which are not differentiable if eigenvalues
coincide, for example on two equal axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial, reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.linalg.factor import AnyArray, Factor
from bayeskern.linalg.root import MAX_JITTER_GROWTHS, jitter_scales


class GridSpectrum(eqx.Module):
    """Eigendecomposition of K.

    Attributes:
        vectors: Eigenvectors V_g of the K_g, shapes (n_g, n_g).
        factors: Eigenvalues l_g of the K_g, shapes (n_g,).
        values: Eigenvalues of K, shape (n_1, n_2, ...); NaN if K is not positive definite.
        shift: Number added to the eigenvalues, and so to each diagonal entry of K.
        jitter: The shift relative to the smallest positive diagonal entry.
    """

    vectors: tuple[jax.Array, ...]
    factors: tuple[jax.Array, ...]
    values: jax.Array
    shift: jax.Array
    jitter: jax.Array

    @classmethod
    def of(cls, grams: Sequence[AnyArray], noise: ArrayLike) -> GridSpectrum:
        """Decompose K. grams: symmetric K_g, shapes (n_g, n_g); noise: a number."""
        factors, vectors = zip(*(jnp.linalg.eigh(K) for K in grams), strict=True)
        values = outer(factors) + noise
        # Eigenvalues have rounding errors relative to the largest rows, unlike Cholesky pivots.
        # Rows scaled to unit diagonal would not have the same noise, so the shift is the same for
        # all rows. A shift that is too large for the row of smallest variance is refused.
        diagonals = [jnp.diagonal(K) for K in grams]
        mean = noise + reduce(jnp.multiply, map(jnp.mean, diagonals))
        least = noise + reduce(jnp.multiply, [jnp.min(jitter_scales(d)) for d in diagonals])
        mean, least = jax.lax.stop_gradient((mean, least))
        eps = values.size * jnp.finfo(values.dtype).eps
        rounding = eps * mean
        growths = 10.0 ** jnp.arange(MAX_JITTER_GROWTHS + 1)
        shifts = rounding * jnp.append(0.0, growths)
        smallest = jnp.min(values) + shifts
        suffices = (smallest >= rounding) & (smallest > 0.0) & (shifts <= eps * growths[-1] * least)
        shift = jnp.where(jnp.any(suffices), shifts[jnp.argmax(suffices)], jnp.nan)
        return cls(vectors, factors, values + shift, shift, shift / least)

    def whiten(self, B: AnyArray) -> jax.Array:
        """L^-1 B for L = V diag(sqrt(values)) and B (n, k)."""
        return multiply([V.T for V in self.vectors], B) / self._sd

    def whiten_transposed(self, B: AnyArray) -> jax.Array:
        """L^-T B."""
        return multiply(self.vectors, B / self._sd)

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        """L B."""
        return multiply(self.vectors, self._sd * B)

    @property
    def _sd(self):
        return jnp.sqrt(self.values).reshape(-1, 1)


def outer(vectors: Sequence[jax.Array]) -> jax.Array:
    """Outer product of vectors (n_g,): (n_1, n_2, ...)."""
    return reduce(jnp.multiply.outer, vectors)


def multiply(matrices: Sequence[AnyArray], T: AnyArray) -> jax.Array:
    """(M_1 x M_2 x ...) T for matrices (n_g, n_g) and T (n, k)."""
    shape = T.shape
    T = jnp.asarray(T).reshape(*(M.shape[1] for M in matrices), -1)
    for g, M in enumerate(matrices):
        T = jnp.moveaxis(jnp.tensordot(M, T, (1, g)), 0, g)
    return T.reshape(shape)


def contract(T: AnyArray, rows: Sequence[AnyArray]) -> jax.Array:
    """Sums over cells of T times row i of rows_1 x row i of rows_2 x ..., for each i: (m,).

    Shapes: T (n_1, n_2, ...), rows_g (m, n_g).
    """
    first, *others = rows
    total = jnp.asarray(first) @ T.reshape(len(T), -1)
    for row in others:
        total = jnp.einsum("mi,mij->mj", row, total.reshape(*row.shape, -1))
    return total[:, 0]


def product(grams: Sequence[AnyArray], noise: ArrayLike, B: AnyArray) -> jax.Array:
    """K B for B (n, k)."""
    return multiply(grams, B) + jnp.multiply(noise, B)


# Values are computed from the spectrum alone. Derivatives are taken of formulas in the K_g and the
# noise that are valid near K_0 = L_0 L_0', the matrix of the spectrum.


def solve(spectrum: GridSpectrum, grams, noise, B: AnyArray) -> jax.Array:
    """K^-1 B for B (n, k), which can be differentiated any number of times."""
    spectrum = jax.lax.stop_gradient(spectrum)

    def by_spectrum(_, B):
        return spectrum.whiten_transposed(spectrum.whiten(B))

    return jax.lax.custom_linear_solve(
        lambda X: product(grams, noise, X), B, by_spectrum, symmetric=True
    )


def _with_derivatives_of(formula: Callable) -> Callable:
    """Decorator that differentiates formula(spectrum, ...) instead of the function."""

    def decorate(function):
        function = jax.custom_jvp(function)

        @function.defjvp
        def _jvp(primals, tangents):
            spectrum = jax.lax.stop_gradient(primals[0])
            return jax.jvp(partial(formula, spectrum), primals[1:], tangents[1:])

        return function

    return decorate


def _whiten_near(spectrum, grams, noise, B):
    # (I + F)^-1/2 L_0^-1 B with F of `_relative_change`, to second order in F.
    W = spectrum.whiten(B)
    FW = _relative_change(spectrum, grams, noise, W)
    return W - 0.5 * FW + 0.375 * _relative_change(spectrum, grams, noise, FW)


@_with_derivatives_of(_whiten_near)
def whiten(spectrum: GridSpectrum, grams, noise, B: AnyArray) -> jax.Array:
    """L^-1 B for B (n, k) and an L with L L' = K; it can be differentiated twice."""
    return spectrum.whiten(B)


def _sqrt_mul_near(spectrum, grams, noise, B):
    # L_0 (I + F)^1/2 B, to second order in F.
    FB = _relative_change(spectrum, grams, noise, B)
    FFB = _relative_change(spectrum, grams, noise, FB)
    return spectrum.sqrt_mul(B + 0.5 * FB - 0.125 * FFB)


@_with_derivatives_of(_sqrt_mul_near)
def sqrt_mul(spectrum: GridSpectrum, grams, noise, B: AnyArray) -> jax.Array:
    """L B for B (n, k), with the L of `whiten`."""
    return spectrum.sqrt_mul(B)


def _explained_near(spectrum, grams, noise, cross):
    columns = jax.vmap(outer)(cross).reshape(len(cross[0]), -1).T
    return jnp.sum(columns * solve(spectrum, grams, noise, columns), axis=0)


@_with_derivatives_of(_explained_near)
def explained(spectrum: GridSpectrum, grams, noise, cross) -> jax.Array:
    """c'K^-1 c for each of m columns c = c_1 x c_2 x ..., given the c_g, (m, n_g): (m,)."""
    whitened = [C @ V for C, V in zip(cross, spectrum.vectors, strict=True)]
    return contract(1.0 / spectrum.values, [jnp.square(C) for C in whitened])


def _relative_change(spectrum, grams, noise, B):
    """F B, where K = L_0 (I + F) L_0': F is 0, but its first two derivatives are not."""
    grams, noise = _differentiable((grams, noise), 2)
    grams_0, noise_0 = jax.lax.stop_gradient((grams, noise))
    B = spectrum.whiten_transposed(B)
    return spectrum.whiten(product(grams, noise, B) - product(grams_0, noise_0, B))


def logdet(spectrum: GridSpectrum, grams, noise) -> jax.Array:
    """log |K|, which can be differentiated twice.

    In the basis of the eigenvectors, K near these grams is diag(values) + E. To second order in E,
    log |K| is the sum of the logs of the diagonal minus
    1/2 sum_{p != q} E_pq^2 / (values_p values_q). Cells p and q that differ on several axes
    contribute terms of higher order only.
    """
    spectrum = jax.lax.stop_gradient(spectrum)
    grams, noise = _differentiable((grams, noise), 2)
    # The changes are 0, but have the derivatives of the grams.
    changes = [
        V.T @ (K - jax.lax.stop_gradient(K)) @ V
        for K, V in zip(grams, spectrum.vectors, strict=True)
    ]
    diagonals = [jnp.diagonal(E) for E in changes]
    factors = [values + d for values, d in zip(spectrum.factors, diagonals, strict=True)]
    total = jnp.sum(jnp.log(outer(factors) + noise + spectrum.shift))
    for g, (E, d) in enumerate(zip(changes, diagonals, strict=True)):
        others = [jnp.ones_like(x) if h == g else x for h, x in enumerate(spectrum.factors)]
        # E_pq is the entry of E_g times the eigenvalues of the other axes.
        ratios = jnp.moveaxis(outer(others) / spectrum.values, g, 0).reshape(len(d), -1)
        total -= 0.5 * jnp.sum(jnp.square(E - jnp.diag(d)) * (ratios @ ratios.T))
    return total


def _differentiable(x, times: int):
    """Return x, and raise an error if it is differentiated more than `times` times."""

    @jax.custom_jvp
    def identity(x):
        return x

    @identity.defjvp
    def _identity_jvp(primals, tangents):
        if times == 0:
            raise NotImplementedError(
                "the log density on a grid has two derivatives, but a third was requested. "
                "Use solver='dense'."
            )
        return _differentiable(primals[0], times - 1), tangents[0]

    return identity(x)


def log_density(grams: Sequence[AnyArray], noise: ArrayLike, R: AnyArray) -> jax.Array:
    """log N(r; 0, K) of each row r of R (..., n), with cells in the order of the grid.

    It can be differentiated twice.

    Args:
        grams: K_1, K_2, ..., symmetric, shapes (n_g, n_g).
        noise: A number.
        R: Residuals, shape (..., n).

    Returns:
        Shape (...); -inf, with a gradient of 0, if K is not positive definite.
    """
    finite = jnp.isfinite(noise) & jnp.all(jnp.array([jnp.all(jnp.isfinite(K)) for K in grams]))
    # If the density is -inf, the arguments are replaced by numbers with finite derivatives.
    grams = tuple(jnp.where(finite, K, jnp.eye(len(K))) for K in grams)
    spectrum = jax.lax.stop_gradient(GridSpectrum.of(grams, jnp.where(finite, noise, 1.0)))
    proper = finite & jnp.isfinite(spectrum.shift)
    noise = jnp.where(proper, noise, 1.0)
    spectrum = dataclasses.replace(
        spectrum,
        values=jnp.where(proper, spectrum.values, 1.0),
        factors=tuple(jnp.where(proper, x, 0.0) for x in spectrum.factors),
        shift=jnp.where(proper, spectrum.shift, 0.0),
    )
    B = R.reshape(-1, R.shape[-1]).T
    quadratic = jnp.sum(B * solve(spectrum, grams, noise, B), axis=0)
    n = R.shape[-1]
    value = -0.5 * (quadratic + logdet(spectrum, grams, noise) + n * jnp.log(2.0 * jnp.pi))
    return jnp.where(proper & jnp.isfinite(value), value, -jnp.inf).reshape(R.shape[:-1])


class KroneckerFactor(Factor):
    """Covariance matrix on a grid by its eigendecomposition, L = V diag(sqrt(values)).

    Created by `compute`. Products take O(n sum n_g) time per column.

    Attributes:
        spectrum: Eigendecomposition, with cells in the order of the grid.
        grams: K_1, K_2, ..., shapes (n_g, n_g).
        noise: Noise variance.
        rows: Row of the inputs of each cell, shape (n,).
        jitter: Number added to the diagonal, relative to its smallest positive entry.
    """

    spectrum: GridSpectrum
    grams: tuple[jax.Array, ...]
    noise: jax.Array
    rows: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(
        cls, grams: tuple[jax.Array, ...], noise: ArrayLike, rows: jax.Array
    ) -> KroneckerFactor:
        """Factor K_1 x K_2 x ... + noise I; add a jitter if K is singular up to rounding.

        Raises:
            NotPositiveDefiniteError: K is not positive definite even with the largest jitter. Under
                `jax.jit` the factor is NaN instead.
        """
        spectrum = GridSpectrum.of(grams, noise)
        if not is_traced(spectrum.jitter) and not np.isfinite(spectrum.jitter):
            raise NotPositiveDefiniteError(_failure_message(spectrum.factors))
        return cls(
            spectrum=spectrum,
            grams=grams,
            noise=jnp.asarray(noise),
            rows=rows,
            jitter=spectrum.jitter,
        )

    def solve(self, B: AnyArray) -> jax.Array:
        return self._to_inputs(self._apply(solve, B[self.rows]))

    def whiten(self, B: AnyArray) -> jax.Array:
        return self._apply(whiten, B[self.rows])

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        return self._to_inputs(self._apply(sqrt_mul, B))

    def logdet(self) -> jax.Array:
        return logdet(self.spectrum, self.grams, self.noise)

    def inv_diag(self) -> jax.Array:
        squares = [jnp.square(V) for V in self.spectrum.vectors]
        inverse = 1.0 / self.spectrum.values.reshape(-1, 1)
        return self._to_inputs(multiply(squares, inverse)[:, 0])

    def _apply(self, function, B):
        columns = B.reshape(len(B), -1)
        return function(self.spectrum, self.grams, self.noise, columns).reshape(B.shape)

    def _to_inputs(self, cells):
        """Reorder cells (n, ...) from the order of the grid to the order of the inputs."""
        return jnp.zeros_like(cells).at[self.rows].set(cells, unique_indices=True)


def _failure_message(factors) -> str:
    ranges = " and ".join(f"from {min(x):.3g} to {max(x):.3g}" for x in map(np.asarray, factors))
    return (
        "the covariance matrix on the grid is not positive definite: the eigenvalues of its "
        f"factors range {ranges}. Check the hyperparameters and the inputs, add noise, use "
        "solver='dense', or run bayeskern.kernels.check_psd(kernel, X)."
    )
