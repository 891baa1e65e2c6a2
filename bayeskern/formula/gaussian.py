"""Regression with Gaussian noise, the effects integrated out exactly.

With r = y - offset - Z loc = Z T u + e and e_i ~ N(0, noise / w_i),

    log p(y | scales) = -1/2 [ r'Wr / noise - h'H^-1 h + log |H| + sum_i w_i log(2 pi noise) ],

where h = T'Z'Wr / noise and H = I + T'Z'WZT / noise. A row of weight w counts as w equal rows.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from bayeskern.formula.field import (
    Design,
    Effects,
    Precision,
    Products,
    Roots,
    split,
    transposed_effects,
)

LOG_2PI = 1.8378770664093453


class GaussianRows(eqx.Module):
    """Sums over the rows of a regression with Gaussian noise.

    Attributes:
        design: Columns of the effects.
        products: Products for the weights of the rows and the column y - offset.
        count: Sum of the weights.
    """

    design: Design
    products: Products
    count: Array

    @classmethod
    def of(cls, design: Design, y: Array, w: Array, count: Array) -> GaussianRows:
        """Reduce rows with y - offset (n,), weights w (n,) and this sum of their weights."""
        return cls(design, design.products(w, y[:, None]), count)

    def posterior(self, loc: Array, roots: Roots, noise: Array) -> GaussianEffects:
        """Condition on y.

        Args:
            loc: Prior means of the effects of the dense terms, (k,).
            roots: Roots of the prior covariances.
            noise: Variance of the noise of a row of weight 1.
        """
        scaled = jax.tree.map(lambda product: product / noise, self.products)
        k = len(loc)
        RY = scaled.RY[:, 0] - scaled.RR[:, :k] @ loc
        AY = scaled.AY[..., 0] - scaled.AR[..., :k] @ loc
        YY = scaled.YY[0, 0] - (scaled.RY[:k, 0] + RY[:k]) @ loc
        precision = Precision.of(scaled, roots, self.design)
        h = transposed_effects(split(AY, RY, self.design.shapes()), roots, self.design)
        whitened = precision.whiten(h)
        misfit = YY - sum(jnp.sum(jnp.square(part)) for part in whitened)
        log_det = precision.logdet() + self.count * (LOG_2PI + jnp.log(noise))
        return GaussianEffects(precision, precision.unwhiten(whitened), -0.5 * (misfit + log_det))


class GaussianEffects(eqx.Module):
    """Posterior N(mean, H^-1) of u, and log p(y | scales)."""

    precision: Precision
    mean: Effects
    log_density: Array
