"""Numbers of harmonics in the state-space models of periodic kernels."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from bayeskern.hyperparameters import is_specified
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.families.periodic import Periodic
from bayeskern.kernels.state_space.harmonics import (
    MAX_RELATIVE_ERROR,
    count_harmonics,
    least_lengthscale,
)


def harmonics_of(kernel: Kernel) -> tuple[int | None, ...]:
    """Number of harmonics of each periodic kernel; None where it is not known."""
    return tuple(node.harmonics or count_harmonics(node.lengthscale) for node in _periodic(kernel))


def with_harmonics(kernel: Kernel, harmonics: tuple[int | None, ...]) -> Kernel:
    """A copy whose periodic kernels have these numbers of harmonics."""
    if harmonics == tuple(node.harmonics for node in _periodic(kernel)):
        return kernel
    numbers = iter(harmonics)

    def replaced(x):
        return dataclasses.replace(x, harmonics=next(numbers)) if isinstance(x, Periodic) else x

    return jax.tree.map(
        replaced, kernel, is_leaf=lambda x: isinstance(x, Periodic) or is_specified(x)
    )


def certified(kernel: Kernel) -> jax.Array:
    """True where the harmonics suffice for the lengthscales, which may be traced."""
    enough = [jnp.all(node.lengthscale >= _least_lengthscale(node)) for node in _periodic(kernel)]
    return jnp.all(jnp.asarray(enough, bool))


def stated_error(kernel: Kernel) -> str | None:
    """Error bound of the state-space model in words; None if it is exact."""
    ranges = [
        f"{node.harmonics} harmonics for lengthscales of {_least_lengthscale(node):.3g} and more"
        for node in _periodic(kernel)
    ]
    if not ranges:
        return None
    return (
        f"within {MAX_RELATIVE_ERROR:g} of the variance by {'; '.join(ranges)}; the log density of "
        "smaller ones is -inf"
    )


def _periodic(kernel: Kernel) -> list[Periodic]:
    return [node for node in kernel.nodes() if isinstance(node, Periodic)]


def _least_lengthscale(node: Periodic) -> float:
    assert node.harmonics is not None
    return least_lengthscale(node.harmonics)
