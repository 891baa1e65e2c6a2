"""Sums over rows, divided over the devices of this process and of other processes.

Every process runs the same program on the same data. Each device sums a share of the rows, and all
get the total. Under several processes, all of them must run the same JAX programs in the same
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

# Axis of the mesh over which rows are divided.
AXIS = "rows"
_mesh: Mesh | None = None


def share_over(devices: Sequence[Any]) -> None:
    """Divide rows over these devices from now on; not at all for fewer than two."""
    global _mesh
    _mesh = Mesh(np.asarray(devices), (AXIS,)) if len(devices) > 1 else None


def current_mesh() -> Mesh | None:
    """Mesh of the devices that share rows; None for the default device alone.

    Pass it to compiled functions as a static argument. Otherwise they keep the mesh they were
    compiled with.
    """
    return _mesh


def own_devices() -> list[Any]:
    """Devices of this process that take a share; [None] for the default device."""
    return [None] if _mesh is None else list(_mesh.local_devices)


def processes() -> tuple[int, int]:
    """Index of this process among the processes that share rows, and their number."""
    return (0, 1) if _mesh is None else (jax.process_index(), jax.process_count())


def own[T](items: Iterable[T]) -> Iterator[T]:
    """Share of the items of this process."""
    first, step = processes()
    return islice(items, first, None, step)


def sum_over(add: Callable, zeros: Any, given: Any, items: Any, mesh: Mesh | None) -> Any:
    """Sum over items, by `sums = add(given, sums, item)` for each item.

    Args:
        add: Function that adds one item; it must not close over arrays.
        zeros: Initial sums, a pytree of arrays.
        given: Pytree that `add` needs for every item.
        items: Pytree of arrays (count, ...); an item of zeros must add nothing.
        mesh: Devices over which the items are divided.
    """

    def share(zeros, given, items):
        return jax.lax.scan(lambda sums, item: (add(given, sums, item), None), zeros, items)[0]

    if mesh is None:
        return share(zeros, given, items)

    def fill(x):
        return jnp.pad(x, [(0, -len(x) % mesh.size), *[(0, 0)] * (x.ndim - 1)])

    def of_device(zeros, given, items):
        # Marked as varying by device, so that derivatives in shared values are summed over devices.
        zeros, given = jax.tree.map(_varying, (zeros, given))
        return jax.lax.psum(share(zeros, given, items), AXIS)

    places = (P(), P(), P(AXIS))
    of_all = jax.shard_map(of_device, mesh=mesh, in_specs=places, out_specs=P())
    zeros, given = jax.tree.map(jnp.asarray, (zeros, given))
    return of_all(zeros, given, jax.tree.map(fill, items))


def _varying(x):
    return jax.lax.pcast(x, AXIS, to="varying")


def total[T](sums: T) -> T:
    """Sum a pytree of NumPy arrays over the processes; each gets the same numbers."""
    _, count = processes()
    if _mesh is None or count == 1:
        return sums
    first = {device.process_index: device for device in reversed(_mesh.devices)}
    mesh = Mesh(np.asarray([first[i] for i in range(count)]), (AXIS,))
    by_process = NamedSharding(mesh, P(AXIS))

    def of_array(x):
        x = np.asarray(x)
        parts = jax.make_array_from_process_local_data(by_process, x[None])
        return np.asarray(_sum(parts, NamedSharding(mesh, P()))).astype(x.dtype)

    return jax.tree.map(of_array, sums)


def gather[T](arrays: T) -> list[T]:
    """Pytrees of arrays of all processes, in order; all have the same shapes."""
    _, count = processes()
    if count == 1:
        return [arrays]
    stacked = multihost_utils.process_allgather(arrays)
    return [jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(count)]


def from_first[T](arrays: T) -> T:
    """Pytree of arrays of the first process, on all of them; all have the same shapes."""
    return arrays if processes()[1] == 1 else multihost_utils.broadcast_one_to_all(arrays)


@partial(jax.jit, static_argnums=1)
def _sum(parts, everywhere: NamedSharding):
    return jax.lax.with_sharding_constraint(jnp.sum(parts, axis=0), everywhere)
