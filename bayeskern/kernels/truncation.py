"""Numbers of harmonics in the state-space models of periodic kernels."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from bayeskern.hyperparameters import is_specified
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.families.harmonics import (
    MAX_HARMONIC_ERROR,
    count_harmonics,
    least_lengthscale,
)
from bayeskern.kernels.families.periodic import Periodic


def harmonics_of(kernel: Kernel) -> tuple[int | None, ...]:
    """Number of harmonics of each periodic kernel; None if it cannot be determined."""
    return tuple(node.harmonics or count_harmonics(node.lengthscale) for node in _periodic(kernel))


def with_harmonics(kernel: Kernel, harmonics: tuple[int | None, ...]) -> Kernel:
    """Copy of a kernel with these numbers of harmonics in its periodic kernels."""
    if harmonics == tuple(node.harmonics for node in _periodic(kernel)):
        return kernel
    counts = iter(harmonics)

    def with_count(x):
        return dataclasses.replace(x, harmonics=next(counts)) if isinstance(x, Periodic) else x

    return jax.tree.map(
        with_count, kernel, is_leaf=lambda x: isinstance(x, Periodic) or is_specified(x)
    )


def harmonics_suffice(kernel: Kernel) -> jax.Array:
    """True if the harmonics suffice for the lengthscales, which may be traced."""
    by_kernel = [
        jnp.all(node.lengthscale >= _least_lengthscale(node)) for node in _periodic(kernel)
    ]
    return jnp.all(jnp.asarray(by_kernel, bool))


def stated_error(kernel: Kernel) -> str | None:
    """Error bound of the state-space model in words; None if it is exact."""
    ranges = [
        f"{node.harmonics} harmonics for lengthscales of at least {_least_lengthscale(node):.3g}"
        for node in _periodic(kernel)
    ]
    if not ranges:
        return None
    return (
        f"within {MAX_HARMONIC_ERROR:g} of the variance by {'; '.join(ranges)}; at "
        "smaller lengthscales the log density is -inf"
    )


def _periodic(kernel: Kernel) -> list[Periodic]:
    return [node for node in kernel.nodes() if isinstance(node, Periodic)]


def _least_lengthscale(node: Periodic) -> float:
    assert node.harmonics is not None
    return least_lengthscale(node.harmonics)
