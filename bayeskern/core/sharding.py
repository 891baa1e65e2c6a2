"""Work on rows that is shared out over devices, those of this process and those of others.

Every process runs the same program on the same data. Where many rows are summed over, each device
takes a share of them, and all get the sum. JAX runs under several processes only what all of them
run, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

# The axis of the mesh that rows are shared out over.
AXIS = "rows"
_mesh: Mesh | None = None


def share_over(devices) -> None:
    """Share rows out over these devices from now on; over none if there are fewer than two."""
    global _mesh
    _mesh = Mesh(np.asarray(devices), (AXIS,)) if len(devices) > 1 else None


def current_mesh() -> Mesh | None:
    """The devices that rows are shared out over; None if it is but the default one.

    What is compiled has to be given it as an argument that does not change, or it would go on
    computing for the devices of the day.
    """
    return _mesh


def own_devices() -> list:
    """The devices of this process that take a share."""
    return [None] if _mesh is None else list(_mesh.local_devices)


def processes() -> tuple[int, int]:
    """The place of this process among those that share rows, and how many these are."""
    return (0, 1) if _mesh is None else (jax.process_index(), jax.process_count())


def own[T](items: Iterable[T]) -> Iterator[T]:
    """Those of the items that are left to this process."""
    first, step = processes()
    return islice(items, first, None, step)


def sum_over(add: Callable, zeros, given, items, mesh: Mesh | None):
    """The sum, over the items, of what `sums = add(given, sums, item)` adds for each.

    zeros: a pytree of arrays. given: a pytree of what each item is computed from, which `add` must
    not close over. items: a pytree of arrays (count, ...); an item of zeros adds nothing. mesh:
    over which the items are shared out.
    """

    def share(zeros, given, items):
        return jax.lax.scan(lambda sums, item: (add(given, sums, item), None), zeros, items)[0]

    if mesh is None:
        return share(zeros, given, items)

    def fill(x):
        return jnp.pad(x, [(0, -len(x) % mesh.size), *[(0, 0)] * (x.ndim - 1)])

    def of_device(zeros, given, items):
        # As numbers of this device alone: derivatives by what all have are sums over all.
        zeros, given = jax.tree.map(_varying, (zeros, given))
        return jax.lax.psum(share(zeros, given, items), AXIS)

    places = (P(), P(), P(AXIS))
    of_all = jax.shard_map(of_device, mesh=mesh, in_specs=places, out_specs=P())
    return of_all(*jax.tree.map(jnp.asarray, (zeros, given)), jax.tree.map(fill, items))


def _varying(x):
    return jax.lax.pcast(x, AXIS, to="varying")


def total(sums):
    """Sum a pytree of NumPy arrays over the processes; each gets the same numbers."""
    _, count = processes()
    if count == 1:
        return sums
    first = {device.process_index: device for device in reversed(_mesh.devices)}
    mesh = Mesh(np.asarray([first[i] for i in range(count)]), (AXIS,))
    by_process = NamedSharding(mesh, P(AXIS))

    def of(x):
        x = np.asarray(x)
        parts = jax.make_array_from_process_local_data(by_process, x[None])
        return np.asarray(_sum(parts, NamedSharding(mesh, P()))).astype(x.dtype)

    return jax.tree.map(of, sums)


def gather(arrays) -> list:
    """The arrays of each process, in the order of processes; they have the same shapes on all."""
    _, count = processes()
    if count == 1:
        return [arrays]
    stacked = multihost_utils.process_allgather(arrays)
    return [jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(count)]


def from_first(arrays):
    """The arrays of the first process, on all of them; each has some of the same shapes."""
    return arrays if processes()[1] == 1 else multihost_utils.broadcast_one_to_all(arrays)


@partial(jax.jit, static_argnums=1)
def _sum(parts, everywhere: NamedSharding):
    return jax.lax.with_sharding_constraint(jnp.sum(parts, axis=0), everywhere)
