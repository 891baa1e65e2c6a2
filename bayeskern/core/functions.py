"""Functions of one point: as parts of pytrees, and the one number that they return."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp


class StaticFunction(eqx.Module):
    """A Python function as a static part of a pytree, whose leaves then stay arrays."""

    f: Callable = eqx.field(static=True)

    def __call__(self, x):
        return self.f(x)

    def __repr__(self):
        return getattr(self.f, "__qualname__", repr(self.f))


def as_module(f: Callable, name: str = "f") -> Callable:
    """A function as a part of a pytree; a module, which may have parameters, stays as it is.

    Raises TypeError, naming the argument, if it is no function.
    """
    if not callable(f):
        raise TypeError(f"{name} must be a function of one point, got {type(f).__name__}.")
    return f if isinstance(f, eqx.Module) else StaticFunction(f)


def one_number(f: Callable, x) -> jax.Array:
    """f(x) of one point x, shape (d,), as a number: ().

    Raises ValueError if it is not one number.
    """
    value = jnp.asarray(f(x))
    if value.size != 1:
        raise ValueError(
            f"f must return one number for each point, but {f!r} returned an array of shape "
            f"{value.shape} for a point of shape {x.shape}."
        )
    return value.reshape(())
