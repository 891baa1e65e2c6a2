"""Computations over many draws in batches, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

# Number of draws in a batch: enough to fill the vector units, with little memory.
BATCH = 32
# Approximate limit on the number of values in the results of one chunk.
CHUNK = 2**22


def by_chunk(function: Callable[[Any], Any], items: Any, size: int) -> Any:
    """function(items) as NumPy arrays, computed chunk by chunk along the first axis.

    All chunks have one shape, so that the function is compiled once. Numbers are float64, also
    where JAX computes with float32: sums over many float32 draws would lose their digits.

    Args:
        function: Function of a pytree with a shorter first axis.
        items: Pytree of arrays (S, ...).
        size: Number of values in the result for each item.
    """
    count = len(jax.tree.leaves(items)[0])
    step = max(1, min(count, 256, CHUNK // max(1, size)))
    # Round up to full batches: a partial batch would be compiled separately.
    step = -(-step // BATCH) * BATCH if step > BATCH else step
    results = None
    for start in range(0, count, step):
        # The last chunk repeats the last item, to have the shape of the others.
        rows = np.minimum(np.arange(start, start + step), count - 1)
        chunk = jax.device_get(function(jax.tree.map(lambda x, rows=rows: x[rows], items)))
        if results is None:
            dtypes = jax.tree.map(lambda x: float if x.dtype.kind == "f" else x.dtype, chunk)
            results = jax.tree.map(
                lambda x, dtype: np.empty((count, *x.shape[1:]), dtype), chunk, dtypes
            )
        stop = min(count, start + step)
        for result, part in zip(jax.tree.leaves(results), jax.tree.leaves(chunk), strict=True):
            result[start:stop] = part[: stop - start]
    return results


def batch_size(size: int) -> int | None:
    """Draws in a batch if each has `size` values; None for one draw at a time."""
    batch = min(BATCH, 2**20 // max(1, size))
    return batch if batch > 1 else None


def evenly(count: int, max_count: int) -> np.ndarray:
    """At most `max_count` evenly spaced indices out of 0, ..., count - 1."""
    return np.linspace(0, count - 1, min(count, max(1, max_count))).round().astype(int)
