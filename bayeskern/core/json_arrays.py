"""Convert values to JSON and a dict of arrays, without pickle."""

from __future__ import annotations

import collections
import math
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class NotStored(NamedTuple):
    """Placeholder for a value that a file does not keep, with the name of its type."""

    kind: str


def pack(value: Any, arrays: dict[str, np.ndarray], classes: Collection[type] = ()) -> Any:
    """Exact JSON form of a value; its arrays are added to `arrays` and replaced by names.

    A value that JSON lacks becomes an object with one key, the kind of value.

    Args:
        value: The value.
        arrays: Name -> array, extended by the arrays of the value.
        classes: Dataclasses and named tuples that are kept with their class. Any other named tuple
            becomes a named tuple of the same fields; a value of another class is not kept.
    """
    if isinstance(value, np.ndarray | jax.Array | np.datetime64 | np.timedelta64):
        return _pack_array(value, arrays)
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, dict):
        items = value.items()
        return {"dict": [[pack(k, arrays, classes), pack(v, arrays, classes)] for k, v in items]}
    if isinstance(value, list):
        return [pack(v, arrays, classes) for v in value]
    if isinstance(value, NotStored):
        return {"lost": value.kind}
    if type(value) in classes:
        names = [f.name for f in fields(value)] if is_dataclass(value) else value._fields
        pairs = [[name, pack(getattr(value, name), arrays, classes)] for name in names]
        return {"object": [_stored_name(type(value)), pairs]}
    if isinstance(value, tuple):
        items = [pack(v, arrays, classes) for v in value]
        # A named tuple keeps only the name and the fields of its class.
        if (names := getattr(value, "_fields", None)) is not None:
            return {"named": [type(value).__name__, list(names), items]}
        return {"tuple": items}
    return {"lost": type(value).__name__}


def _stored_name(kind: type) -> str:
    """Name of a class in files; it outlives the name of the class in code."""
    return getattr(kind, "stored_as", kind.__name__)


def _pack_array(
    value: np.ndarray | jax.Array | np.generic, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    if not isinstance(value.dtype, np.dtype) or value.dtype.kind == "O":
        return {"lost": f"{type(value).__name__} of {value.dtype}"}
    array, name = np.asarray(value), f"array{len(arrays)}"
    fits_netcdf = array.dtype.kind in "iuf" and array.dtype.itemsize in (4, 8)
    # netCDF cannot hold arrays of other types, so their bytes are kept.
    arrays[name] = array if fits_netcdf else np.frombuffer(array.tobytes(), np.uint8)
    kind = "jax" if isinstance(value, jax.Array) else "numpy"
    kind = "scalar" if isinstance(value, np.generic) else kind
    return {"array": [name, array.dtype.str, list(array.shape), kind]}


def unpack(value: Any, arrays: dict[str, np.ndarray], classes: Collection[type] = ()) -> Any:
    """The inverse of `pack`."""
    if isinstance(value, list):
        return [unpack(v, arrays, classes) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "float":
            return float(content)
        case "dict":
            return {unpack(k, arrays, classes): unpack(v, arrays, classes) for k, v in content}
        case "tuple":
            return tuple(unpack(v, arrays, classes) for v in content)
        case "object":
            name, pairs = content
            values = {field: unpack(v, arrays, classes) for field, v in pairs}
            return {_stored_name(known): known for known in classes}[name](**values)
        case "named":
            name, names, items = content
            values = (unpack(v, arrays, classes) for v in items)
            return collections.namedtuple(name, names)(*values)
        case "array":
            return _unpack_array(content, arrays)
        case "lost":
            return NotStored(content)
    raise KeyError(kind)


def _unpack_array(content: list, arrays: dict[str, np.ndarray]) -> Any:
    name, dtype, shape, kind = content
    stored, dtype = arrays[name], np.dtype(dtype)
    array = stored if stored.dtype == dtype else np.frombuffer(stored.tobytes(), dtype)
    array = array.reshape(shape).copy()
    match kind:
        case "jax":
            return jnp.asarray(array)
        case "scalar":
            return array[()]
    return array
