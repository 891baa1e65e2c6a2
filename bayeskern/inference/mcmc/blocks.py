"""Blocks of coordinates, each with its own mass matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.model.target import Target

# Name of the block of coordinates that are in no other block.
REST = "rest"


class Blocks(NamedTuple):
    """Coordinates 0 to d - 1 in blocks; NumPyro's kernel takes a dict of blocks.

    Attributes:
        names: Names of the blocks; the last name may be REST.
        members: Indices of the coordinates of each block.
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, target: Target, blocks: Sequence[Sequence[str]]) -> Blocks:
        """Blocks of the given sites of a target, and a block of all other coordinates.

        Raises ValueError, naming the site, for a site that is unknown or in two blocks.
        """
        indices = np.arange(target.size)
        coordinates = {name: np.ravel(part) for name, part in target.unravel(indices).items()}
        for name in (name for block in blocks for name in block):
            if name not in coordinates:
                raise ValueError(
                    f"dense_mass names {name!r}; the latent sites are {', '.join(coordinates)}."
                )
            if sum(list(block).count(name) for block in blocks) > 1:
                raise ValueError(
                    f"dense_mass has {name!r} in two blocks, or twice in one: use one block."
                )
        named = {
            f"block_{i}": np.concatenate([coordinates[name] for name in block])
            for i, block in enumerate(blocks)
        }
        rest = np.setdiff1d(indices, np.concatenate([*named.values()]))
        if len(rest):
            named[REST] = rest
        return cls(tuple(named), tuple(tuple(map(int, part)) for part in named.values()))

    @property
    def dense(self) -> list[tuple[str, ...]]:
        """Blocks with a full mass matrix, as NumPyro names them."""
        return [(name,) for name in self.names if name != REST]

    def split(self, z: np.ndarray | jax.Array) -> dict:
        """Parts of z (..., d), by block."""
        return {
            name: z[..., np.array(part)]
            for name, part in zip(self.names, self.members, strict=True)
        }

    def join(self, parts: dict) -> jax.Array:
        """z (..., d), from its parts."""
        order = np.argsort(np.concatenate(self.members))
        return jnp.concatenate([parts[name] for name in self.names], axis=-1)[..., order]

    def of_matrix(self, matrix: np.ndarray | jax.Array) -> dict:
        """Blocks of a matrix (d, d), and the diagonal of the rest."""
        return {
            (name,): jnp.diag(matrix)[np.array(part)]
            if name == REST
            else matrix[np.ix_(part, part)]
            for name, part in zip(self.names, self.members, strict=True)
        }
