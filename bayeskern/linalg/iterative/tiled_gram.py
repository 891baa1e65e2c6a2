"""Gram matrices that are only multiplied with: their tiles are computed for each product anew."""

from __future__ import annotations

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import sharding
from bayeskern.core.threads import side_by_side
from bayeskern.kernels.base import Kernel

# The rows of a tile, which then lies in the cache of a core.
TILE = 256


class TiledGram:
    """k(X) for X (n, d), of which no more than a tile for each core is held at a time.

    A tile beside the diagonal is computed once for both its places. What is compiled serves other
    hyperparameters, and other n of about the same size. Rows of tiles are shared out over the
    devices that `core.sharding` knows of, and over the cores of a processor.
    """

    def __init__(self, kernel: Kernel, X):
        self.kernel = kernel
        tiles = _in_tiles(X, "edge")
        cores = os.cpu_count() or 1 if jax.default_backend() == "cpu" else 1
        devices = sharding.own_devices()
        # A device of a processor has all cores, unless there are several such.
        workers = max(1, cores // len(devices)) * len(devices)
        places = {device: jax.device_put(tiles, device) for device in devices}
        self.workers = [places[devices[i % len(devices)]] for i in range(workers)]
        # As an array, since it would be compiled for as a number.
        self.count = np.asarray(-(-len(X) // TILE))

    def __matmul__(self, B):
        """k(X) B for B: (n, k), as a NumPy array."""
        tiles, (process, count) = _in_tiles(B, "constant"), sharding.processes()
        # Processes may have different numbers of cores.
        step = np.asarray(count * len(self.workers))

        def share(worker):
            first = np.asarray(process + count * worker)
            X = self.workers[worker]
            return np.asarray(_products(self.kernel, X, tiles, first, step, self.count))

        parts = side_by_side(share, range(len(self.workers)), len(B))
        return sharding.total(sum(parts)).reshape(-1, B.shape[1])[: len(B)]


def _in_tiles(rows, mode: str) -> np.ndarray:
    """Rows (n, m) as (tiles, TILE, m): with copies of the last row, or zeros, at the end.

    Between a power of 2 and the next there are four numbers of tiles, each compiled once.
    """
    count = -(-len(rows) // TILE)
    step = 1 << max(count.bit_length() - 3, 0)
    rows = np.pad(rows, ((0, -len(rows) % (step * TILE)), (0, 0)), mode)
    return rows.reshape(-1, TILE, rows.shape[1])


@eqx.filter_jit
def _products(kernel, X, B, first, step, count):
    """k(X) B of every `step`-th row of tiles, from `first` on, and of the columns that mirror it.

    X: (tiles, TILE, d); B: (tiles, TILE, k), of which the first `count` are looked at.
    """

    def row(s, out):
        i = first + s * step
        X_i, B_i = X[i], B[i]

        def tile(j, sums):
            across, out = sums
            K = kernel.evaluate(X_i, X[j])
            # XLA takes longer over K.T @ B_i.
            return across + K @ B[j], out.at[j].add((B_i.T @ K).T)

        # Within a tile on the diagonal points are themselves, which white noise can tell.
        across, out = jax.lax.fori_loop(i + 1, count, tile, (kernel.evaluate(X_i) @ B_i, out))
        return out.at[i].add(across)

    rows = (count - first + step - 1) // step
    return jax.lax.fori_loop(0, rows, row, jnp.zeros_like(B))
