"""The arguments of a model, as compiled functions take them.

Arrays of numbers are traced, so that new data of the same shapes do not compile again; everything
else is static. A model that looks at the values of its arrays, as in `len(np.unique(group))`,
cannot have them traced: they become static (`StaticArray`), as a number is, and other data compile
again.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Hashable
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


@jax.tree_util.register_pytree_node_class
class StaticObject:
    """A copy of an object that cannot be hashed, such as a Namespace; equal if its contents are.

    A copy, since a change of the object must not go unseen by what was compiled for it.
    """

    def __init__(self, value):
        self.value = copy.deepcopy(value)

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, StaticObject) or type(self.value) is not type(other.value):
            return False
        try:
            return bool(self.value == other.value)
        except (TypeError, ValueError):
            # Arrays inside cannot be compared as a whole: another object, compiled again.
            return False

    def __hash__(self):
        return hash(type(self.value))

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

    NumPy's integers and booleans become Python's, which are static, as are objects of other kinds.
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
    if is_numeric(x):
        # A plate's indices are traced, and cannot pick the rows of a NumPy array.
        return jnp.asarray(x)
    return x if isinstance(x, jax.Array | Hashable) else StaticObject(x)


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
    """The arguments as they came: the inverse of `make_static`, and of `StaticObject`."""
    kinds = {StaticArray: lambda x: x.array, StaticObject: lambda x: copy.deepcopy(x.value)}
    return jax.tree.map(
        lambda x: kinds.get(type(x), lambda x: x)(x),
        arguments,
        is_leaf=lambda x: isinstance(x, StaticArray | StaticObject),
    )


def explained(error: Exception, arguments) -> Exception | None:
    """What to say of an error that a model raised when it was first called, where that is known."""
    frames = [x for x in jax.tree.leaves(arguments, is_leaf=_is_frame) if hasattr(x, "columns")]
    if frames and isinstance(error, IndexError | AttributeError | TypeError):
        columns = list(frames[0].columns)
        first = columns[0] if columns else "x"
        return ValueError(
            f"the model gets a data frame as an array, with the columns {columns}, and failed with "
            f"it: {error}. Give it the columns that it needs, as infer(model, df[{first!r}], ...)."
        )
    if isinstance(error, TypeError) and "carry" in str(error) and re.search(r"\w+32\[", str(error)):
        return TypeError(
            "the carry of a scan starts with 32 bits, and goes on with 64, in which bayeskern "
            "computes: start it without a dtype, as by jnp.zeros(()) or jnp.asarray(0), or end the "
            f"step with .astype of the type that it started with. JAX says: {error}"
        )
    return None
