"""Functions as pytree nodes, checks of what they return, and compiled calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.validation import is_traced


class StaticFunction(eqx.Module):
    """A Python function as a static field, so that all leaves of a pytree are arrays."""

    f: Callable = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return self.f(x)

    def __repr__(self) -> str:
        return getattr(self.f, "__qualname__", repr(self.f))


def as_module(f: Callable, name: str = "f") -> Callable:
    """Wrap a function as an Equinox module; return a module unchanged.

    Raises:
        TypeError: The argument, called `name`, is not callable.
    """
    if not callable(f):
        raise TypeError(f"{name} must be a function of one point, got {type(f).__name__}.")
    return f if isinstance(f, eqx.Module) else StaticFunction(f)  # pyright: ignore[reportReturnType]


def one_number(f: Callable, x: jax.Array) -> jax.Array:
    """f(x) at one point x (d,), as an array of shape ().

    Raises:
        ValueError: f does not return exactly one number.
    """
    value = jnp.asarray(f(x))
    if value.size != 1:
        raise ValueError(
            f"f must return one number for each point, but {f!r} returned an array of shape "
            f"{value.shape} for a point of shape {x.shape}."
        )
    return value.reshape(())


@eqx.filter_jit
def compiled(function: Callable, *args: Any) -> Any:
    """Call a function, or a method of a module, compiled once for each one and each shape."""
    return function(*args)


def compiled_or_raised(function: Callable, *args: Any) -> Any:
    """Call a compiled function; where a value is not finite, call it again without compilation.

    Checks of values raise errors only outside of compiled programs, in which they give NaN.
    """
    value = compiled(function, *args)
    arrays = [x for x in jax.tree.leaves(value) if eqx.is_inexact_array(x)]
    if any(is_traced(x) for x in arrays) or all(np.all(np.isfinite(x)) for x in arrays):
        return value
    return function(*args)
