"""Work over many draws, some at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

# What is done for each draw is done for so many at a time: enough to fill the vector units, little
# memory.
BATCH = 32
# A chunk has at most so many draws and makes about so many numbers, so many of them at once.
DRAWS = 1024
CHUNK = 2**22
AT_ONCE = 2**20


def by_chunk(function: Callable, items, size: int, report: Callable = lambda done: None):
    """function(items), applied to chunks of their first axis, in host memory.

    size: how many numbers it makes for each item. All chunks have one shape, so that the function
    is compiled once. report: called with how many items are done, after each chunk.
    """
    count = len(jax.tree.leaves(items)[0])
    step = max(1, min(count, DRAWS, CHUNK // max(1, size)))
    # What remains beside whole batches would be compiled again.
    step = -(-step // BATCH) * BATCH if step > BATCH else step
    found = None
    for start in range(0, count, step):
        rows = np.minimum(np.arange(start, start + step), count - 1)
        part = jax.device_get(function(jax.tree.map(lambda x, rows=rows: x[rows], items)))
        if found is None:
            found = jax.tree.map(lambda x: np.empty((count, *x.shape[1:]), x.dtype), part)
        stop = min(count, start + step)
        for whole, new in zip(jax.tree.leaves(found), jax.tree.leaves(part), strict=True):
            whole[start:stop] = new[: stop - start]
        report(stop)
    return found


def batch_size(size: int) -> int | None:
    """How many draws to work on at once, each making `size` numbers: None for one by one."""
    batch = min(BATCH, AT_ONCE // max(1, size))
    return batch if batch > 1 else None


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many evenly spaced indices of `count`."""
    return np.linspace(0, count - 1, min(count, max(1, most))).round().astype(int)
