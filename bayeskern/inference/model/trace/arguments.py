"""Arguments of a model as traced arrays and static values.

Numeric arrays are traced, so that new data of the same shapes do not compile again; everything else
is static. If a model reads the values of its arrays, as in `len(np.unique(group))`, its arrays
become static too (`StaticArray`), and other data compile again.
"""

from __future__ import annotations

import copy
import inspect
import numbers
import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.formatting import counted

# Errors that JAX raises if a model reads the value of a tracer.
CONCRETIZATION_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@contextmanager
def forbid_value_inspection() -> Iterator[None]:
    """Raise ValueError if a model with static arguments reads the value of a tracer."""
    try:
        yield
    except CONCRETIZATION_ERRORS as error:
        raise ValueError(
            "the model looks at a value that JAX has yet to compute, as `if`, int() and NumPy do: "
            "a draw, the rows of a plate, or a result of jax.numpy. Use NumPy on data only, and "
            "jax.numpy, such as jnp.where, on everything else."
        ) from error


@jax.tree_util.register_static
class StaticArray:
    """Array that is never traced; equal to an array of equal shape, type and values."""

    def __init__(self, array: np.ndarray) -> None:
        self.value = array
        self._key = (array.shape, str(array.dtype), array.tobytes())
        # Computed once, because every call of a compiled function hashes its static arguments.
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StaticArray) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


@jax.tree_util.register_static
class StaticObject:
    """Copy of an unhashable object, such as a Namespace, compared by its contents.

    It holds a copy, because compiled functions would not notice a later change of the object.
    """

    def __init__(self, value: object) -> None:
        self._value = copy.deepcopy(value)

    @property
    def value(self) -> object:
        """A copy of the object."""
        return copy.deepcopy(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StaticObject) or type(self._value) is not type(other._value):
            return False
        try:
            return self is other or bool(self._value == other._value)
        except (TypeError, ValueError):
            # `==` is ambiguous for objects that hold arrays. Unequal objects compile again.
            return False

    def __hash__(self) -> int:
        return hash(type(self._value))


def model_arguments(
    caller: Callable,
    model: Callable,
    args: tuple,
    kwargs: dict,
    model_kwargs: dict | None,
    options: dict,
) -> dict:
    """Named arguments of a model, passed to a function that has options of its own.

    Args:
        caller: The function, such as `infer`.
        model: The model.
        args: Positional arguments of the model.
        kwargs: Named arguments of the function that are not its options.
        model_kwargs: Further named arguments of the model.
        options: Values of the function's own options.

    Returns:
        The named arguments.

    Raises:
        ValueError: If a name is passed twice, or an option may have been meant for the model, which
            has an argument of that name.
    """
    model_kwargs = dict(model_kwargs or {})
    duplicates = sorted(kwargs.keys() & model_kwargs)
    if duplicates:
        raise ValueError(
            f"{', '.join(duplicates)} is given by name and in model_kwargs: give it once."
        )
    named = {**kwargs, **model_kwargs}
    try:
        signature = inspect.signature(model)
        bound = signature.bind_partial(*args, **named).arguments
    except (TypeError, ValueError):
        # The call of the model will raise a clearer error.
        return named
    defaults = inspect.signature(caller).parameters
    for name in options.keys() & signature.parameters.keys() - bound.keys():
        value, default = options[name], defaults[name].default
        if value is not default and value != default:
            raise ValueError(
                f"{name}={value!r} may be meant for {caller.__name__} or for the model, which has "
                f"an argument of that name. Pass the model's in model_kwargs={{{name!r}: ...}}."
            )
    return named


def as_jax(arguments: Any) -> Any:
    """Convert a tree of arguments: numeric arrays and data frames become JAX arrays.

    Everything else becomes static; NumPy integers and booleans become Python ones.
    """
    return jax.tree.map(_as_jax, arguments, is_leaf=_is_frame)


def _as_jax(x: Any) -> Any:
    if _is_frame(x):
        x = np.asarray(x.to_numpy())
    if isinstance(x, np.bool_ | np.integer):
        return x.item()
    if isinstance(x, np.ndarray | np.floating):
        # Strings and dates cannot be traced. Numbers become JAX arrays, because the indices of a
        # plate are tracers, which cannot index a NumPy array.
        return jnp.asarray(x) if x.dtype.kind in "biufc" else StaticArray(x)  # pyright: ignore[reportArgumentType]
    return x if isinstance(x, jax.Array | Hashable) else StaticObject(x)  # pyright: ignore[reportGeneralTypeIssues]


def _is_frame(x: object) -> bool:
    """True for a data frame or one of its columns, of any library."""
    return hasattr(x, "to_numpy")


def make_static(arguments: Any) -> Any:
    """Replace every array in a tree of arguments by a StaticArray."""
    return jax.tree.map(
        lambda x: StaticArray(np.asarray(x)) if isinstance(x, jax.Array | np.ndarray) else x,
        arguments,
    )


def is_static(x: object) -> bool:
    """True for a value that is never traced."""
    return isinstance(x, StaticArray | StaticObject)


def without_static(arguments: Any) -> Any:
    """Replace every StaticArray and StaticObject in a tree of arguments by its value."""
    return jax.tree.map(lambda x: x.value if is_static(x) else x, arguments, is_leaf=is_static)


def named_arrays(model: Callable, args: tuple, kwargs: dict) -> list[tuple[str, np.ndarray]]:
    """Arrays, frames and numbers of the arguments by name: `X`, `data['x']`."""
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


def _missing_mask(array: Any, is_object: bool) -> np.ndarray:
    """True for elements that are masked, None, NaN, NaT or pandas.NA."""
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.getmaskarray(array)
    if not is_object:
        return np.zeros((), bool)
    # pandas takes a while to import.
    import pandas as pd

    return np.asarray(pd.isna(np.asarray(array)))


def refuse_nonnumeric(owner: str, values: Any) -> None:
    """Raise ValueError if values are missing or not numeric.

    Args:
        owner: Name of the values in a message, such as "the argument 'X'".
        values: The values.
    """
    # Tracers have a dtype, but cannot be converted to NumPy; lists have none.
    dtype = getattr(values, "dtype", None) or np.asarray(values).dtype
    is_object = jnp.issubdtype(dtype, np.object_)
    missing = _missing_mask(values, is_object)
    if missing.any():
        row = np.argwhere(missing)[0][0] if missing.ndim else 0
        count = counted(missing.sum(), "missing value", "missing values")
        raise ValueError(
            f"{owner} has {count} (None or masked), the first in row {row}. Drop those rows, or "
            "fill them in before the call."
        )
    if is_object and all(isinstance(x, numbers.Number) for x in np.ravel(values)):
        raise ValueError(
            f"{owner} has numbers of type object. Make them floats before the call, as in "
            "`y.astype(float)`."
        )
    if not (jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, bool)):
        raise ValueError(
            f"{owner} has values of type {dtype}, which are not numbers. Encode them first, as in "
            "`labels, y = np.unique(y, return_inverse=True)`."
        )


def explained(error: Exception, model: Callable, args: tuple, kwargs: dict) -> Exception | None:
    """Clearer error for a failed first call of a model; None if its cause is unknown."""
    leaves = jax.tree.leaves((args, kwargs), is_leaf=_is_frame)
    frames = [x for x in leaves if hasattr(x, "columns")]
    message = str(error)
    if frames and isinstance(error, IndexError | AttributeError | TypeError):
        columns = list(frames[0].columns)
        first = columns[0] if columns else "x"
        return ValueError(
            f"the model failed with a data frame, which became an array with the columns "
            f"{columns}: {error}. Pass the columns that it needs, as in "
            f"infer(model, df[{first!r}], ...)."
        )
    if isinstance(error, TypeError) and "carry" in message and re.search(r"\w+32\[", message):
        return TypeError(
            "the carry of a scan starts with 32 bits and continues with 64, the precision of "
            "bayeskern. Start it without a dtype, as in jnp.zeros(()) or jnp.asarray(0), or end a "
            f"step with .astype of the initial dtype. JAX says: {error}"
        )
    # Messages of JAX about arrays that are not numeric or have missing values.
    not_numeric = re.search("abstract array|masked array|valid JAX|dtype object", message)
    if isinstance(error, TypeError | ValueError) and not_numeric:
        try:
            for name, array in named_arrays(model, args, kwargs):
                refuse_nonnumeric(f"the argument {name!r}", array)
        except ValueError as explanation:
            return explanation
    return None
