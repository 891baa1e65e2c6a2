"""Sums over rows on several devices or machines, by the distributed runtime of JAX."""

from __future__ import annotations

import jax

from bayeskern.core import sharding, validation


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> jax.sharding.Mesh | None:
    """Connect the processes of a program, and distribute rows over all their devices.

    Call it before any computation. Under SLURM, Open MPI, Kubernetes or on Cloud TPUs,
    `jax.distributed` finds the arguments. If a process dies, the others end with an error.

    Args:
        coordinator_address: "host:port" of process 0, with a free port.
        num_processes: Number of processes; 1 for the devices of this process alone.
        process_id: Index of this process, from 0.

    Returns:
        The devices, as a mesh with the axis "rows"; None for a single device.

    Raises:
        RuntimeError: If JAX has computed already, or is connected already.
        ValueError: If an argument is missing and no cluster provides it.

    Examples:
        >>> import bayeskern as bk
        >>> bk.distributed.initialize(num_processes=1)    # one device here, nothing to distribute
        >>> bk.distributed.shutdown()
    """
    if num_processes is not None:
        validation.positive_integer(num_processes, "num_processes")
    if num_processes != 1:
        try:
            jax.distributed.initialize(
                coordinator_address,
                num_processes,
                process_id,
                # A process counts as dead after this time without a message.
                heartbeat_timeout_seconds=30,
            )
        except ValueError as error:
            raise ValueError(
                f"{error} No cluster was found (SLURM, Open MPI, Kubernetes, Cloud TPU): give "
                "coordinator_address='host:port' of process 0, num_processes and process_id, or "
                "num_processes=1 for the devices of this process alone."
            ) from None
    sharding.share_over(jax.devices())
    return sharding.current_mesh()


def shutdown() -> None:
    """Return to computing on one device, and disconnect from the other processes."""
    sharding.share_over([])
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
