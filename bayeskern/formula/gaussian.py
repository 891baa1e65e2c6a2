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
    Blocks,
    Design,
    Effects,
    Precision,
    Products,
    Roots,
    split,
    transposed_effects,
    white_shapes,
)
from bayeskern.formula.integral import log_integral

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

    def _blocks(self, loc: Array, roots: Roots, noise: Array) -> tuple[Blocks, Effects, Array]:
        """H, h and r'Wr / noise."""
        scaled = jax.tree.map(lambda product: product / noise, self.products)
        k = len(loc)
        RY = scaled.RY[:, 0] - scaled.RR[:, :k] @ loc
        AY = scaled.AY[..., 0] - scaled.AR[..., :k] @ loc
        YY = scaled.YY[0, 0] - (scaled.RY[:k, 0] + RY[:k]) @ loc
        h = transposed_effects(split(AY, RY, self.design.shapes()), roots, self.design)
        return Blocks.of(scaled, roots, self.design), h, YY

    def log_density(self, loc: Array, roots: Roots, noise: Array) -> Array:
        """log p(y | scales).

        Args:
            loc: Prior means of the effects of the dense terms, (k,).
            roots: Roots of the prior covariances.
            noise: Variance of the noise of a row of weight 1.
        """
        blocks, h, YY = self._blocks(loc, roots, noise)
        constant = YY + self.count * (LOG_2PI + jnp.log(noise))
        return log_integral(blocks, h) - 0.5 * constant

    def posterior(self, loc: Array, roots: Roots, noise: Array) -> tuple[Precision, Effects]:
        """H and the mean of p(u | y, scales), for the arguments of `log_density`."""
        blocks, h, _ = self._blocks(loc, roots, noise)
        precision = Precision.of(blocks, white_shapes(self.design, roots))
        return precision, precision.solve(h)
