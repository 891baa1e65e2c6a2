"""Frequencies of stationary kernels, by Bochner's theorem.

k(x, z) = k(0) E cos(w'(x - z)), where w is drawn from the normalised spectral density of the
kernel. The method `frequencies` of a kernel draws w. This module has the functions that these
methods share.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayeskern.kernels.registry import offering


def no_spectral_density(kernel: object) -> ValueError:
    """Error for a kernel without a spectral density to draw frequencies from."""
    return ValueError(
        f"{kernel!r} has no spectral density, so it has no random Fourier features. Use "
        f"{offering('frequencies')}, or their sums, products, powers, multiples and selections of "
        "columns. NystromFeatures accepts any positive definite kernel."
    )


def no_closed_form(kernel: object) -> ValueError:
    """Error for a kernel whose spectral density is not known in closed form."""
    return ValueError(
        f"{kernel!r} has no spectral density in closed form. Use {offering('spectrum')}."
    )


def gaussian(key: jax.Array, n: int, d: int, orthogonal: bool = False) -> Float[Array, "n d"]:
    """Draw rows from N(0, I); if orthogonal, each block of d rows is orthogonal.

    Each row then still has the distribution N(0, I): a uniform direction times an independent
    chi-distributed length. Yu et al. (2016), "Orthogonal random features", section 3.
    """
    if not orthogonal:
        return jax.random.normal(key, (n, d))
    blocks = -(-n // d)
    key_direction, key_length = jax.random.split(key)
    directions, R = jnp.linalg.qr(jax.random.normal(key_direction, (blocks, d, d)))
    # The directions are uniform only if the diagonal of R is positive.
    signs = jnp.where(jnp.diagonal(R, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    directions = jnp.swapaxes(directions * signs[:, None, :], 1, 2).reshape(-1, d)[:n]
    lengths = jnp.linalg.norm(jax.random.normal(key_length, (n, d)), axis=1)
    return directions * lengths[:, None]


def variance(kernel, d: int) -> Float[Array, ""]:
    """k(0) of a stationary kernel in d dimensions."""
    return kernel.evaluate_diag(jnp.zeros((1, d)))[0]
