"""Kernels that are products over groups of columns, k(x, z) = prod_g k_g(x_g, z_g).

Each kernel says in its method `by_columns` which factors it has: a dictionary from the columns of a
factor to the factor, itself a kernel of points with all columns, of which it looks at no others. On
a full grid the Gram matrix of such a kernel is a Kronecker product. Saatci (2011), "Scalable
inference for structured Gaussian process models", section 5.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax.numpy as jnp

from bayeskern.hyperparameters import replace
from bayeskern.kernels import metrics

# The columns that a factor looks at, in order; () for a number.
Columns = tuple[int, ...]


def joined(groups: Iterable[Columns]) -> Columns:
    """All the columns of these groups."""
    return tuple(sorted({column for group in groups for column in group}))


def multiplied(factors) -> dict:
    """Factors (columns, kernel) by their columns, those that share a column multiplied."""
    by_columns = {}
    for columns, kernel in factors:
        shared = [other for other in by_columns if other == columns or {*other} & {*columns}]
        for other in shared:
            kernel = by_columns.pop(other) * kernel
        by_columns[joined([columns, *shared])] = kernel
    return by_columns


def one_by_one(kernel, names: Sequence[str], d: int) -> dict:
    """The factors of a kernel that is its variance times a product over d columns.

    names: the hyperparameters that are a number or a vector (d,).
    """
    X = jnp.zeros((1, d))
    values = [
        jnp.broadcast_to(metrics.per_dimension(name, getattr(kernel, name), X), (d,))
        for name in names
    ]
    paths = [(name,) for name in (*names, "variance")]

    def of_column(i):
        variance = kernel.variance if i == 0 else jnp.ones(())
        return replace(kernel, paths, [*(value[i] for value in values), variance]).on([i])

    return {(i,): of_column(i) for i in range(d)}
