"""Distributions whose leaves have the same order in every process.

NumPyro lists the parameters of a distribution in the order of a set of names, which differs from
one process to the next. Compiled functions that take a model as an argument would then differ too,
and JAX's cache of compiled functions would be hit only by chance.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from numpyro.distributions import Distribution


class _SortedLeaves(eqx.Module):
    """Distribution of a kind taken apart; JAX sorts the parameters by their names."""

    parameters: dict[str, Any]
    kind: type[Distribution] = eqx.field(static=True)
    static: Any = eqx.field(static=True)

    @classmethod
    def of(cls, distribution: Distribution) -> _SortedLeaves:
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
