"""Nodes and weights of Gauss-Legendre quadrature."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def unit_nodes(nodes: int) -> tuple[jax.Array, jax.Array]:
    """Gauss-Legendre nodes and weights on [0, 1], each (nodes,)."""
    u, w = np.polynomial.legendre.leggauss(nodes)
    return jnp.asarray(0.5 * (u + 1.0)), jnp.asarray(0.5 * w)
