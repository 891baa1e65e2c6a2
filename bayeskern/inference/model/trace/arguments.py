"""The arguments of a model, as compiled functions take them.

Arrays of numbers are traced, so that new data of the same shapes do not compile again; everything
else is static. A model that looks at the values of its arrays, as in `len(np.unique(group))`,
cannot have them traced: they become static (`StaticArray`), as a number is, and other data compile
again.
"""

from __future__ import annotations

import copy
import inspect
import numbers
import re
from collections.abc import Callable, Hashable
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.formatting import counted

# What JAX raises where a model looks at the value of a tracer.
CONCRETIZATION_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
# What JAX says of arrays that have no numbers, or some that are missing.
NOT_NUMERIC = re.compile("abstract array|masked array|valid JAX|dtype object")


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


def named_arrays(model: Callable, args: tuple, kwargs: dict) -> list[tuple[str, np.ndarray]]:
    """The arrays, frames and numbers among the arguments, with their names: `X`, `data['x']`."""
    try:
        named = inspect.signature(model).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        named = {f"argument {i}": x for i, x in enumerate(args)} | kwargs
    arrays = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(dict(named), is_leaf=_is_frame):
        value = leaf.to_numpy() if _is_frame(leaf) else leaf
        is_array = isinstance(value, np.ndarray | np.floating | float)
        if is_array or (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.number)):
            name = f"{path[0].key}{jax.tree_util.keystr(path[1:])}"
            arrays.append((name, np.asanyarray(value)))
    return arrays


def _dtype(x) -> np.dtype:
    """The dtype of an array, traced or not, or of a list."""
    return getattr(x, "dtype", None) or np.asarray(x).dtype


def _holds_objects(x) -> bool:
    return jnp.issubdtype(_dtype(x), np.object_)


def missing(array) -> np.ndarray:
    """True for each element that is masked, None, NaN, NaT or pandas.NA, which is no number."""
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.getmaskarray(array)
    if not _holds_objects(array):
        return np.zeros(np.shape(array), bool)
    array = np.asarray(array)
    kinds = [x is None or type(x).__name__ in ("NAType", "NaTType") for x in array.ravel()]
    is_nan = [isinstance(x, float) and x != x for x in array.ravel()]
    return np.logical_or(kinds, is_nan).reshape(array.shape)


def refuse_no_numbers(owner: str, values) -> None:
    """Raise ValueError where values are missing, or where they are no numbers.

    owner: whose values they are, as "the argument 'X'".
    """
    absent = missing(values)
    if absent.any():
        row = np.argwhere(absent)[0][0] if absent.ndim else 0
        count = counted(absent.sum(), "missing value", "missing values")
        raise ValueError(
            f"{owner} has {count} (None or masked), the first in row {row}. Drop those rows, or "
            "fill them in before the call."
        )
    if _holds_objects(values) and all(isinstance(x, numbers.Number) for x in np.ravel(values)):
        raise ValueError(
            f"{owner} has numbers of type object. Make them floats before the call, as in "
            "`y.astype(float)`."
        )
    dtype = _dtype(values)
    if not (jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, bool)):
        raise ValueError(
            f"{owner} has values that are no numbers, of type {dtype}. Code them first, as in "
            "`labels, y = np.unique(y, return_inverse=True)`."
        )


def explained(error: Exception, model: Callable, args: tuple, kwargs: dict) -> Exception | None:
    """A clearer error, where it is known why a model raised one when it was first called."""
    leaves = jax.tree.leaves((args, kwargs), is_leaf=_is_frame)
    frames = [x for x in leaves if hasattr(x, "columns")]
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
    if isinstance(error, TypeError | ValueError) and NOT_NUMERIC.search(str(error)):
        try:
            for name, array in named_arrays(model, args, kwargs):
                refuse_no_numbers(f"the argument {name!r}", array)
        except ValueError as explanation:
            return explanation
    return None
