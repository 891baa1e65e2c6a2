"""Matrix-free products with Gram matrices, computed tile by tile."""

from __future__ import annotations

import operator
import os
from functools import reduce
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import sharding
from bayeskern.core.threads import side_by_side
from bayeskern.kernels.base import Kernel

# Rows and columns of a tile, so that it fits in the cache of a core.
TILE_ROWS = 256


class TiledGram:
    """Gram matrix k(X) of X (n, d); memory holds one tile for each core.

    By symmetry, each off-diagonal tile is computed once and used twice. The compiled program is
    reused for other hyperparameters and for similar n. Rows of tiles are divided over the devices
    of `core.sharding`, and over the cores of a processor.
    """

    def __init__(self, kernel: Kernel, X: np.ndarray):
        self.kernel = kernel
        tiles = _in_tiles(X, "edge")
        cores = os.cpu_count() or 1 if jax.default_backend() == "cpu" else 1
        devices = sharding.own_devices()
        # One device of a processor has all cores; several share them.
        n_workers = max(1, cores // len(devices)) * len(devices)
        tiles_by_device = {device: jax.device_put(tiles, device) for device in devices}
        self._tiles_by_worker = [
            tiles_by_device[devices[i % len(devices)]] for i in range(n_workers)
        ]
        # An array, since a Python number would be compiled into the program.
        self.count = np.asarray(-(-len(X) // TILE_ROWS))

    def __matmul__(self, B: np.ndarray) -> np.ndarray:
        """k(X) B for B: (n, k), as a NumPy array."""
        tiles, (process, count) = _in_tiles(B, "constant"), sharding.processes()
        # Processes may have different numbers of cores.
        step = np.asarray(count * len(self._tiles_by_worker))

        def share(worker):
            first = np.asarray(process + count * worker)
            X = self._tiles_by_worker[worker]
            return np.asarray(_products(self.kernel, X, tiles, first, step, self.count))

        parts = side_by_side(share, range(len(self._tiles_by_worker)), len(B))
        return sharding.total(reduce(operator.add, parts)).reshape(-1, B.shape[1])[: len(B)]


def _in_tiles(rows: np.ndarray, mode: Literal["edge", "constant"]) -> np.ndarray:
    """Rows (n, m) as (tiles, TILE_ROWS, m), padded with copies of the last row, or with zeros.

    To limit recompilation, the number of tiles is rounded up to one of four values per power of 2.
    """
    count = -(-len(rows) // TILE_ROWS)
    step = 1 << max(count.bit_length() - 3, 0)
    rows = np.pad(rows, ((0, -len(rows) % (step * TILE_ROWS)), (0, 0)), mode)
    return rows.reshape(-1, TILE_ROWS, rows.shape[1])


@eqx.filter_jit
def _products(kernel, X, B, first, step, count):
    """One worker's share of k(X) B; the shares of all workers add up to the product.

    The share uses the tiles (i, j), j >= i, of the rows i = first, first + step, ..., and their
    mirror images (j, i). X: (tiles, TILE_ROWS, d); B: (tiles, TILE_ROWS, k). Only the first `count`
    tiles are used.
    """

    def row(s, out):
        i = first + s * step
        X_i, B_i = X[i], B[i]

        def tile(j, sums):
            row_sum, out = sums
            K = kernel.evaluate(X_i, X[j])
            # XLA is slower for K.T @ B_i.
            return row_sum + K @ B[j], out.at[j].add((B_i.T @ K).T)

        # evaluate(X_i), not evaluate(X_i, X_i): a diagonal tile includes white noise.
        row_sum, out = jax.lax.fori_loop(i + 1, count, tile, (kernel.evaluate(X_i) @ B_i, out))
        return out.at[i].add(row_sum)

    rows = (count - first + step - 1) // step
    return jax.lax.fori_loop(0, rows, row, jnp.zeros_like(B))
