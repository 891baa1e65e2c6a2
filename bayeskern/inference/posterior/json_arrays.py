"""Values as JSON, with their arrays beside it; nothing is pickled."""

from __future__ import annotations

import collections
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class NotStored(NamedTuple):
    """Stands for a value that a file does not keep."""

    kind: str


def pack(value, arrays: dict):
    """A value as JSON, exactly; arrays go to `arrays` and are named in their place.

    Everything that JSON lacks is an object with one key that tells its kind.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer | np.bool_) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, dict):
        return {"dict": [[pack(k, arrays), pack(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list):
        return [pack(v, arrays) for v in value]
    if isinstance(value, NotStored):
        return {"lost": value.kind}
    if isinstance(value, tuple):
        items = [pack(v, arrays) for v in value]
        # A named tuple: of its class only the name and the fields are kept.
        if hasattr(value, "_fields"):
            return {"named": [type(value).__name__, list(value._fields), items]}
        return {"tuple": items}
    if isinstance(value, np.ndarray | jax.Array):
        return _pack_array(value, arrays)
    return {"lost": type(value).__name__}


def _pack_array(value, arrays: dict):
    if not isinstance(value.dtype, np.dtype) or value.dtype.kind == "O":
        return {"lost": f"{type(value).__name__} of {value.dtype}"}
    array, name = np.asarray(value), f"array{len(arrays)}"
    plain = array.dtype.kind in "iuf" and array.dtype.itemsize in (4, 8)
    # netCDF cannot hold arrays of other types, so their bytes are kept.
    arrays[name] = array if plain else np.frombuffer(array.tobytes(), np.uint8)
    kind = "jax" if isinstance(value, jax.Array) else "numpy"
    return {"array": [name, array.dtype.str, list(array.shape), kind]}


def unpack(value, arrays: dict):
    """The inverse of `pack`."""
    if isinstance(value, list):
        return [unpack(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    return _UNPACK[kind](inside, arrays)


def _unpack_named(inside, arrays):
    name, fields, items = inside
    return collections.namedtuple(name, fields)(*(unpack(v, arrays) for v in items))


def _unpack_array(inside, arrays):
    name, dtype, shape, kind = inside
    stored, dtype = arrays[name], np.dtype(dtype)
    array = stored if stored.dtype == dtype else np.frombuffer(stored.tobytes(), dtype)
    array = array.reshape(shape).copy()
    return jnp.asarray(array) if kind == "jax" else array


_UNPACK = {
    "float": lambda inside, arrays: float(inside),
    "dict": lambda inside, arrays: {unpack(k, arrays): unpack(v, arrays) for k, v in inside},
    "tuple": lambda inside, arrays: tuple(unpack(v, arrays) for v in inside),
    "named": _unpack_named,
    "array": _unpack_array,
    "lost": lambda inside, arrays: NotStored(inside),
}
