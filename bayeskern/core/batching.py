"""Work over many draws, some at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

# The number of draws worked on at once: enough to fill the vector units, with little memory.
BATCH = 32
# The most draws of one chunk, and about the most numbers that its results have.
CHUNK_DRAWS = 256
CHUNK = 2**22
# About the most numbers that the results of one batch have.
BATCH_NUMBERS = 2**20


def by_chunk(function: Callable, items, size: int, report: Callable = lambda done: None):
    """function(items) as NumPy arrays, computed chunk by chunk along the first axis of `items`.

    items: a pytree of arrays (S, ...). size: how many numbers the function makes for each item.
    report: called after each chunk with the number of items done. All chunks have one shape, so
    that the function is compiled once.
    """
    count = len(jax.tree.leaves(items)[0])
    step = max(1, min(count, CHUNK_DRAWS, CHUNK // max(1, size)))
    # A remainder beside full batches would be compiled once more.
    step = -(-step // BATCH) * BATCH if step > BATCH else step
    results = None
    for start in range(0, count, step):
        rows = np.minimum(np.arange(start, start + step), count - 1)
        chunk = jax.device_get(function(jax.tree.map(lambda x, rows=rows: x[rows], items)))
        if results is None:
            results = jax.tree.map(lambda x: np.empty((count, *x.shape[1:]), x.dtype), chunk)
        stop = min(count, start + step)
        for result, part in zip(jax.tree.leaves(results), jax.tree.leaves(chunk), strict=True):
            result[start:stop] = part[: stop - start]
        report(stop)
    return results


def batch_size(size: int) -> int | None:
    """How many draws to work on at once if each makes `size` numbers; None for one by one."""
    batch = min(BATCH, BATCH_NUMBERS // max(1, size))
    return batch if batch > 1 else None


def evenly(count: int, most: int) -> np.ndarray:
    """At most `most` evenly spaced indices out of 0, ..., count - 1."""
    return np.linspace(0, count - 1, min(count, max(1, most))).round().astype(int)
