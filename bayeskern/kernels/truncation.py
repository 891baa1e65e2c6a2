"""The periodic kernels in a kernel, whose state-space forms are cut at a number of harmonics."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from bayeskern.hyperparameters import is_specified
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.families.periodic import Periodic
from bayeskern.kernels.state_space.harmonics import ERROR, count_harmonics, least_lengthscale


def harmonics_of(kernel) -> tuple[int | None, ...]:
    """How many harmonics each of the periodic kernels takes; None where that is not known."""
    return tuple(node.harmonics or count_harmonics(node.lengthscale) for node in _periodic(kernel))


def with_harmonics(kernel, harmonics: tuple[int | None, ...]) -> Kernel:
    """A copy whose periodic kernels have these numbers of harmonics."""
    if harmonics == tuple(node.harmonics for node in _periodic(kernel)):
        return kernel
    numbers = iter(harmonics)
    return jax.tree.map(
        lambda x: dataclasses.replace(x, harmonics=next(numbers)) if _is_periodic(x) else x,
        kernel,
        is_leaf=lambda x: _is_periodic(x) or is_specified(x),
    )


def certified(kernel) -> jax.Array:
    """Whether the harmonics are known to be enough for the lengthscales, which may be traced."""
    enough = [
        jnp.all(node.lengthscale >= least_lengthscale(node.harmonics)) for node in _periodic(kernel)
    ]
    return jnp.all(jnp.asarray(enough, bool))


def stated_error(kernel) -> str | None:
    """What is certain of the error of the state-space form; None if there is no error."""
    ranges = [
        f"{node.harmonics} harmonics for lengthscales of {least_lengthscale(node.harmonics):.3g} "
        "and more"
        for node in _periodic(kernel)
    ]
    if not ranges:
        return None
    return (
        f"within {ERROR:g} of the variance by {'; '.join(ranges)}; the log density of smaller "
        "ones is -inf"
    )


def _periodic(kernel) -> list[Periodic]:
    return [node for node in kernel.nodes() if _is_periodic(node)]


def _is_periodic(node) -> bool:
    return isinstance(node, Periodic)
