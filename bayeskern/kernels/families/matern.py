"""Matern profiles and their derivatives.

Rasmussen and Williams (2006), section 4.2.1.
"""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def profile(u: jax.Array, order: int) -> jax.Array:
    """Correlation at u = r^2 for smoothness nu = order + 1/2, with order 0, 1 or 2.

    The correlation is exp(-s) times 1, 1 + s or 1 + s + s^2 / 3, with s = sqrt(2 nu) r.
    """
    s = jnp.sqrt((2.0 * order + 1.0) * u)
    return (1.0, 1.0 + s, 1.0 + s + s * s / 3.0)[order] * jnp.exp(-s)


@profile.defjvp
def _profile_jvp(order, primals, tangents):
    # The profiles are not smooth functions of u at 0. The derivative of a profile is written in
    # terms of the profile of order - 1, so that derivatives are correct where they exist. Others
    # (the first derivative of order 0, the second of order 1) multiply du = 0, and are set to 0.
    (u,), (du,) = primals, tangents
    if order > 0:
        ratio = (2.0 * order + 1.0) / (2.0 * order - 1.0)
        return profile(u, order), -0.5 * ratio * profile(ratio * u, order - 1) * du
    # Points that differ by rounding are treated as equal: their du is rounding error, and would be
    # divided by a tiny r.
    is_apart = u > jnp.finfo(jnp.result_type(u, float)).eps
    r = jnp.sqrt(jnp.where(is_apart, u, 1.0))
    return profile(u, 0), jnp.where(is_apart, -0.5 * profile(u, 0) / r, 0.0) * du
