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
    """Set the devices over which rows are divided; fewer than two end the division."""
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
    """The items that this process handles: every k-th one under k processes."""
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

    def add_all(zeros, given, items):
        return jax.lax.scan(lambda sums, item: (add(given, sums, item), None), zeros, items)[0]

    if mesh is None:
        return add_all(zeros, given, items)

    def pad_rows(x):
        return jnp.pad(x, [(0, -len(x) % mesh.size), *[(0, 0)] * (x.ndim - 1)])

    def sum_on_devices(zeros, given, items):
        # Mark as varying by device, so that derivatives are summed over devices.
        zeros, given = jax.tree.map(_varying, (zeros, given))
        return jax.lax.psum(add_all(zeros, given, items), AXIS)

    in_specs = (P(), P(), P(AXIS))
    sharded_sum = jax.shard_map(sum_on_devices, mesh=mesh, in_specs=in_specs, out_specs=P())
    zeros, given = jax.tree.map(jnp.asarray, (zeros, given))
    return sharded_sum(zeros, given, jax.tree.map(pad_rows, items))


def _varying(x):
    return jax.lax.pcast(x, AXIS, to="varying")


def total[T](sums: T) -> T:
    """Sum a pytree of NumPy arrays over the processes; each gets the same numbers."""
    _, count = processes()
    if _mesh is None or count == 1:
        return sums
    # In reversed order, so that the first device of each process is kept.
    first_devices = {device.process_index: device for device in reversed(_mesh.devices)}
    mesh = Mesh(np.asarray([first_devices[i] for i in range(count)]), (AXIS,))
    by_process = NamedSharding(mesh, P(AXIS))

    def sum_array(x):
        x = np.asarray(x)
        parts = jax.make_array_from_process_local_data(by_process, x[None])
        return np.asarray(_sum(parts, NamedSharding(mesh, P()))).astype(x.dtype)

    return jax.tree.map(sum_array, sums)


def gather[T](arrays: T) -> list[T]:
    """Gather a pytree of arrays from every process, in order; shapes must agree."""
    _, count = processes()
    if count == 1:
        return [arrays]
    stacked = multihost_utils.process_allgather(arrays)
    return [jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(count)]


def from_first[T](arrays: T) -> T:
    """Broadcast a pytree of arrays from the first process; shapes must agree."""
    return arrays if processes()[1] == 1 else multihost_utils.broadcast_one_to_all(arrays)


@partial(jax.jit, static_argnums=1)
def _sum(parts, replicated: NamedSharding):
    return jax.lax.with_sharding_constraint(jnp.sum(parts, axis=0), replicated)
