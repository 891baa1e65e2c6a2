"""Boxes over which a process is averaged; a point is a box with sides of length 0."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax


class Boxes(eqx.Module):
    """n boxes in d dimensions, [lower, lower + sides].

    The sides are stored in place of the upper corners, so that short sides far from the origin
    lose no digits.

    Attributes:
        lower: Lower corners, shape (n, d).
        sides: Lengths of the sides, 0 or more, shape (n, d).
        columns: Columns in which some box has a side longer than 0; static.
        nodes: Gauss-Legendre nodes of each smooth piece of an integral without closed form; static.
    """

    lower: jax.Array
    sides: jax.Array
    columns: tuple[int, ...] = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.lower.shape[1]

    @property
    def middle(self) -> jax.Array:
        """Midpoints of the boxes, shape (n, d)."""
        return self.lower + 0.5 * self.sides

    def on(self, columns: Sequence[int]) -> Boxes:
        """Boxes projected on some columns, indices from 0 to d - 1."""
        kept = tuple(i for i, column in enumerate(columns) if column in self.columns)
        index = list(columns)
        return Boxes(self.lower[:, index], self.sides[:, index], kept, self.nodes)

    def divided_by(self, scale: jax.Array) -> Boxes:
        """Boxes with corners and sides divided by a number, or by one number per column."""
        return Boxes(self.lower / scale, self.sides / scale, self.columns, self.nodes)

    def shifted(self, step: jax.Array) -> Boxes:
        """Boxes moved by a step (n, d)."""
        return Boxes(self.lower + step, self.sides, self.columns, self.nodes)
