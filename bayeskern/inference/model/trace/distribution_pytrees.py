"""Distributions whose leaves have the same order in every process.

NumPyro flattens the parameters of a distribution in the order of a set of names, which differs
between processes. Compiled functions with a model as argument would then differ too, and JAX would
find them in its cache only by chance.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from numpyro.distributions import Distribution


class _SortedLeaves(eqx.Module):
    """Type and parameters of a distribution; JAX flattens a dict sorted by its keys."""

    parameters: dict[str, Any]
    kind: type[Distribution] = eqx.field(static=True)
    static: Any = eqx.field(static=True)

    @classmethod
    def from_distribution(cls, distribution: Distribution) -> _SortedLeaves:
        kind = type(distribution)
        values, static = distribution.tree_flatten()
        # A parameter may be a distribution itself.
        names = kind.gather_pytree_data_fields()
        return cls(dict(zip(names, sort_leaves(values), strict=True)), kind, static)

    def distribution(self) -> Distribution:
        names = self.kind.gather_pytree_data_fields()
        values = tuple(restore_leaves(self.parameters[name]) for name in names)
        return self.kind.tree_unflatten(self.static, values)


def sort_leaves(tree: Any) -> Any:
    """Replace every distribution in a tree by its type and its parameters."""
    return jax.tree.map(
        lambda x: _SortedLeaves.from_distribution(x) if isinstance(x, Distribution) else x,
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
