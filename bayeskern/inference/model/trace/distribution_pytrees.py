"""Distributions whose leaves have the same order in every process.

NumPyro lists the parameters of a distribution in the order of a set of names, which differs from
one process to the next. Compiled functions that take a model as an argument would then differ too,
and JAX's cache of compiled functions would be hit only by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from numpyro.distributions import Distribution


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class _SortedLeaves:
    """Distribution of a kind taken apart: its parameters in the order of their names."""

    kind: type[Distribution]
    names: tuple[str, ...]
    static: Any
    values: tuple

    @classmethod
    def of(cls, distribution: Distribution) -> _SortedLeaves:
        kind = type(distribution)
        values, static = distribution.tree_flatten()
        by_name = dict(zip(kind.gather_pytree_data_fields(), values, strict=True))
        names = tuple(sorted(by_name))
        # A parameter may be a distribution itself.
        return cls(kind, names, static, tuple(sort_leaves(by_name[name]) for name in names))

    def distribution(self) -> Distribution:
        by_name = dict(zip(self.names, self.values, strict=True))
        values = [restore_leaves(by_name[name]) for name in self.kind.gather_pytree_data_fields()]
        return self.kind.tree_unflatten(self.static, tuple(values))

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return self.values, (self.kind, self.names, self.static)

    @classmethod
    def tree_unflatten(cls, static: tuple, values: Any) -> _SortedLeaves:
        kind, names, distribution_static = static
        return cls(kind, names, distribution_static, tuple(values))


def sort_leaves(tree: Any) -> Any:
    """The tree with every distribution in it taken apart."""
    return jax.tree.map(
        lambda x: _SortedLeaves.of(x) if isinstance(x, Distribution) else x,
        tree,
        is_leaf=lambda x: isinstance(x, Distribution),
    )


def restore_leaves(tree: Any) -> Any:
    """The inverse of `sort_leaves`."""
    return jax.tree.map(
        lambda x: x.distribution() if isinstance(x, _SortedLeaves) else x,
        tree,
        is_leaf=lambda x: isinstance(x, _SortedLeaves),
    )
