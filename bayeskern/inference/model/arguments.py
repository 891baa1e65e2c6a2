"""The arguments of a model, as compiled functions take them.

Arrays of numbers are traced, so that new data of the same shapes do not compile again; everything
else is static. A model that looks at the values of its arrays, as in `len(np.unique(group))`,
cannot have them traced: they become static (`StaticArray`), as a number is, and other data compile
again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

# What JAX raises where a model looks at the value of a tracer.
CONCRETIZATION_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@contextmanager
def forbid_value_inspection():
    """Raise ValueError where a model looks at a value that JAX has yet to compute.

    For models whose arguments are static, so that the value cannot be one of theirs.
    """
    try:
        yield
    except CONCRETIZATION_ERRORS as error:
        raise ValueError(
            "the model looks at a value that JAX has yet to compute, as by `if`, int() or NumPy: "
            "what it draws, the rows of a plate, or jax.numpy of its data. Use NumPy on data, and "
            "on the others jax.numpy, such as jnp.where."
        ) from error


@jax.tree_util.register_pytree_node_class
class StaticArray:
    """An array that is never traced. Two are equal if their values are."""

    def __init__(self, array):
        self.array = array
        self._key = (array.shape, str(array.dtype), array.tobytes())
        # Computed once, since every call of a compiled function asks for it.
        self._hash = hash(self._key)

    def __eq__(self, other):
        return self is other or (isinstance(other, StaticArray) and self._key == other._key)

    def __hash__(self):
        return self._hash

    def tree_flatten(self):
        return (), self

    @classmethod
    def tree_unflatten(cls, static, _):
        return static


def model_arguments(
    caller: Callable, model, args: tuple, kwargs: dict, model_kwargs: dict | None, options: dict
) -> dict:
    """The named arguments of a model, from those given to a function that has options of its own.

    caller: that function; kwargs, model_kwargs: what it was given for the model; options: the
    values of its own options. Raises ValueError where a name is given twice, or where an option may
    have been meant for the model, which has an argument of that name.
    """
    model_kwargs = dict(model_kwargs or {})
    twice = sorted(kwargs.keys() & model_kwargs)
    if twice:
        raise ValueError(f"{', '.join(twice)} is given by name and in model_kwargs: give it once.")
    named = {**kwargs, **model_kwargs}
    try:
        signature = inspect.signature(model)
        taken = signature.bind_partial(*args, **named).arguments
    except (TypeError, ValueError):
        # The call of the model says what is wrong.
        return named
    defaults = inspect.signature(caller).parameters
    for name in options.keys() & signature.parameters.keys() - taken.keys():
        value, default = options[name], defaults[name].default
        if value is not default and value != default:
            raise ValueError(
                f"{name}={value!r} may be meant for {caller.__name__} or for the model, which has "
                f"an argument of that name. Give the model's in model_kwargs={{{name!r}: ...}}."
            )
    return named


def as_jax(arguments):
    """Arguments with numeric arrays and data frames as JAX arrays, other arrays as static ones.

    NumPy's integers and booleans become Python's, which are static.
    """
    return jax.tree.map(_read, arguments, is_leaf=_is_frame)


def _read(x):
    if _is_frame(x):
        x = np.asarray(x.to_numpy())
    if isinstance(x, np.bool_ | np.integer):
        return x.item()
    if isinstance(x, np.ndarray) and not is_numeric(x):
        # Strings and dates cannot be traced.
        return StaticArray(x)
    # A plate's indices are traced, and cannot pick the rows of a NumPy array.
    return jnp.asarray(x) if is_numeric(x) else x


def _is_frame(x) -> bool:
    """Whether this is a data frame or a column of one, of whatever library."""
    return hasattr(x, "to_numpy")


def is_numeric(x) -> bool:
    return isinstance(x, np.ndarray | np.floating) and np.asarray(x).dtype.kind in "biufc"


def make_static(arguments):
    """Arguments with every array as a StaticArray, which is not traced."""
    return jax.tree.map(
        lambda x: StaticArray(np.asarray(x)) if isinstance(x, jax.Array | np.ndarray) else x,
        arguments,
    )


def without_static(arguments):
    """The inverse of `make_static`."""
    return jax.tree.map(
        lambda x: x.array if isinstance(x, StaticArray) else x,
        arguments,
        is_leaf=lambda x: isinstance(x, StaticArray),
    )
