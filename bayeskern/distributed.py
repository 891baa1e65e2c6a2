"""Sums over rows, shared out over several devices or machines by JAX's own distributed runtime."""

from __future__ import annotations

import jax

from bayeskern.core import sharding, validation

# Seconds of silence after which a process counts as dead, and the others end.
SILENCE = 30


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> jax.sharding.Mesh | None:
    """Connect the processes of one program, and share rows out over all their devices.

    Under SLURM, Open MPI, Kubernetes or on Cloud TPUs `jax.distributed` finds the arguments by
    itself. It has to be called before anything is computed. If a process dies, the others end with
    an error.

    Args:
        coordinator_address: "host:port" of process 0, on a port that is free there.
        num_processes: How many there are; 1 for the devices of this process alone.
        process_id: The place of this one, from 0.

    Returns:
        The devices, as a mesh with the axis "rows"; None if there is but one.

    Raises:
        RuntimeError: JAX has computed already, or is connected already.
        ValueError: An argument is missing that is not found either.

    Examples:
        >>> import bayeskern as bk
        >>> bk.distributed.initialize(num_processes=1)    # one device here, nothing to share out
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
                heartbeat_timeout_seconds=SILENCE,
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
    """Compute on one device from now on, and part from the other processes."""
    sharding.share_over([])
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
