"""Kernels that are products over groups of columns, prod_g k_g(x_g, z_g).

`Kernel.by_columns` returns a dictionary from the columns of a factor to the factor. Each factor is
a kernel of points with all columns, and ignores columns that are not its own. On a full grid the
Gram matrix of such a kernel is a Kronecker product. Saatci (2011), "Scalable inference for
structured Gaussian process models", section 5.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp

from bayeskern.hyperparameters import replace
from bayeskern.kernels import metrics

# Sorted columns of a factor; () for a constant factor.
Columns = tuple[int, ...]


def joined(groups: Iterable[Columns]) -> Columns:
    """All columns of the groups, sorted."""
    return tuple(sorted({column for group in groups for column in group}))


def merge_overlapping(factors: Iterable[tuple[Columns, Any]]) -> dict[Columns, Any]:
    """Dictionary of factors by columns; factors that share a column are multiplied."""
    by_columns = {}
    for columns, kernel in factors:
        shared = [other for other in by_columns if other == columns or {*other} & {*columns}]
        for other in shared:
            kernel = by_columns.pop(other) * kernel
        by_columns[joined([columns, *shared])] = kernel
    return by_columns


def one_by_one(kernel: Any, names: Sequence[str], d: int) -> dict[Columns, Any]:
    """One factor per column of a product kernel; the first carries the variance.

    Args:
        kernel: The kernel.
        names: Names of the hyperparameters with a value per column, each a number or (d,).
        d: Number of columns.
    """
    X = jnp.zeros((1, d))
    values = [
        jnp.broadcast_to(metrics.require_per_dimension(name, getattr(kernel, name), X), (d,))
        for name in names
    ]
    paths = [(name,) for name in (*names, "variance")]

    def factor(i):
        variance = kernel.variance if i == 0 else jnp.ones(())
        return replace(kernel, paths, [*(value[i] for value in values), variance]).on([i])

    return {(i,): factor(i) for i in range(d)}
