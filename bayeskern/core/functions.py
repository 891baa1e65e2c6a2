"""Functions of one point as parts of pytrees, and checks of their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


class StaticFunction(eqx.Module):
    """A Python function as a static part of a pytree, whose leaves stay arrays."""

    f: Callable = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return self.f(x)

    def __repr__(self) -> str:
        return getattr(self.f, "__qualname__", repr(self.f))


def as_module(f: Callable, name: str = "f") -> Callable:
    """A function as a part of a pytree. A module, which may have parameters, is returned as it is.

    Raises:
        TypeError: The argument, called `name`, is not callable.
    """
    if not callable(f):
        raise TypeError(f"{name} must be a function of one point, got {type(f).__name__}.")
    return f if isinstance(f, eqx.Module) else StaticFunction(f)  # pyright: ignore[reportReturnType]


def one_number(f: Callable, x: jax.Array) -> jax.Array:
    """f(x) of one point x (d,) as a number: ().

    Raises:
        ValueError: f returns another number of values.
    """
    value = jnp.asarray(f(x))
    if value.size != 1:
        raise ValueError(
            f"f must return one number for each point, but {f!r} returned an array of shape "
            f"{value.shape} for a point of shape {x.shape}."
        )
    return value.reshape(())
