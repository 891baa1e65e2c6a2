"""Frequencies of stationary kernels, by Bochner's theorem.

k(x, z) = k(0) E cos(w'(x - z)) for w with the spectral density of the kernel. Each kernel that has
a spectral density draws w from it in its method `frequencies`. This module has the functions that
these methods share.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def no_spectral_density(kernel: object) -> ValueError:
    """Error for a kernel without a spectral density to draw frequencies from."""
    return ValueError(
        f"{kernel!r} has no spectral density, so it has no random Fourier features. The kernels "
        "that have one are RBF, Matern12, Matern32, Matern52, RationalQuadratic, "
        "InverseMultiquadric, SpectralMixture, Periodic and Cosine, and their sums, products, "
        "powers, multiples and selections of columns. NystromFeatures takes any positive definite "
        "kernel."
    )


def gaussian(key: jax.Array, n: int, d: int, orthogonal: bool = False) -> Float[Array, "n d"]:
    """Rows from N(0, I); if orthogonal, the d rows of each block are at right angles.

    Each row alone still has the distribution N(0, I), a uniform direction times an independent
    chi-distributed length. Yu et al. (2016), "Orthogonal random features", section 3.
    """
    if not orthogonal:
        return jax.random.normal(key, (n, d))
    blocks = -(-n // d)
    key_direction, key_length = jax.random.split(key)
    directions, R = jnp.linalg.qr(jax.random.normal(key_direction, (blocks, d, d)))
    # QR fixes the signs of its columns, so that the directions are not uniform.
    signs = jnp.where(jnp.diagonal(R, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    directions = jnp.swapaxes(directions * signs[:, None, :], 1, 2).reshape(-1, d)[:n]
    lengths = jnp.linalg.norm(jax.random.normal(key_length, (n, d)), axis=1)
    return directions * lengths[:, None]


def variance(kernel, d: int) -> Float[Array, ""]:
    """k(0) of a stationary kernel of points in d dimensions."""
    return kernel.evaluate_diag(jnp.zeros((1, d)))[0]
