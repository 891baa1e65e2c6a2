"""NetCDF files with a checksum and the state of an object.

The group "bayeskern" holds the state, as JSON with arrays (`json_arrays`), and the name and the
version of its format. Other programs can read the other groups. A file is composed in memory, and
the SHA-256 digest of its bytes is appended to them: HDF5 ignores bytes beyond the end that the
header of a file states.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core.files import atomic_write, require_file
from bayeskern.core.json_arrays import pack, unpack

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr

# Name of the group with the state.
GROUP = "bayeskern"
_MARK = b"bayeskern sha256 "
_DIGEST_LENGTH = len(_MARK) + 64


@dataclass(frozen=True)
class Format:
    """Format of a kind of files.

    Attributes:
        name: Name of the format, such as "bayeskern forecast".
        version: Version that is written and read.
        classes: Dataclasses and named tuples that the state may contain.
    """

    name: str
    version: int
    classes: Collection[type] = ()

    @property
    def noun(self) -> str:
        """Kind of object in the files, such as "forecast"."""
        return self.name.rpartition(" ")[2]


@dataclass(frozen=True, eq=False)
class Stored:
    """Contents of a file.

    Attributes:
        source: Name of the file, for messages.
        groups: Groups for other programs.
        own: Group with the state; None in files that bayeskern did not write.
    """

    source: str
    groups: xr.DataTree
    own: xr.Dataset | None

    def is_a(self, format: Format) -> bool:
        """True for a file of a format, of any version."""
        return self.own is not None and self.own.attrs.get("format") == format.name

    def state(self, format: Format) -> dict[str, Any]:
        """State of the object in a file of this format.

        Raises:
            ValueError: The file has another format or another version.
        """
        if self.own is None or not self.is_a(format):
            kind = "another file" if self.own is None else f"a {self.own.attrs.get('format')}"
            raise ValueError(
                f"{self.source} was not written by {format.noun}.save, so it has no {format.noun} "
                f"to load: it is {kind}. xarray.open_datatree reads its groups."
            )
        version = self.own.attrs["version"]
        if version != format.version:
            newer = version > format.version
            raise ValueError(
                f"{self.source} was written by {'a newer' if newer else 'an older'} version of "
                f"bayeskern (format {version}, this version reads {format.version}): "
                f"{'update bayeskern' if newer else 'fit again'}."
            )
        try:
            arrays = _split(np.asarray(self.own["arrays"]), str(np.asarray(self.own["layout"])))
            return unpack(json.loads(str(np.asarray(self.own["state"]))), arrays, format.classes)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{self.source} cannot be read by this version of bayeskern: {error!r}."
            ) from None


def to_bytes(groups: xr.DataTree, state: dict[str, Any], format: Format) -> bytes:
    """Contents of a file with groups for other programs and the state of an object."""
    import xarray as xr

    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(pack(state, arrays, format.classes), allow_nan=False)
    # One variable for all arrays: HDF5 takes a millisecond and a kilobyte for each. Text is a
    # variable, since attributes are limited to 64 kB.
    layout = json.dumps([[name, a.dtype.str, a.shape] for name, a in arrays.items()])
    joined = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())
    variables = {
        "state": ([], text),
        "layout": ([], layout),
        "arrays": ("byte", np.frombuffer(joined, np.uint8)),
    }
    attributes = {"format": format.name, "version": format.version}
    groups[GROUP] = xr.DataTree(xr.Dataset(variables, attrs=attributes))
    # In memory: HDF5 crashes the process if it cannot write to a disk that is full.
    with _locks_of_this_process():
        content = bytes(groups.to_netcdf(engine="h5netcdf"))  # pyright: ignore[reportArgumentType]
    return content + _MARK + hashlib.sha256(content).hexdigest().encode()


@contextmanager
def _locks_of_this_process() -> Iterator[None]:
    """Keep xarray from asking a Dask cluster for locks.

    Asking for them fails for files in memory.
    """
    if "dask" not in sys.modules:
        yield
        return
    import dask.config

    with dask.config.set(scheduler="synchronous"):
        yield


def from_bytes(content: bytes, source: object) -> Stored:
    """Groups and state of a file with these contents.

    Raises:
        ValueError: The contents have changed since they were saved, or are not a netCDF file.
    """
    import h5py
    import xarray as xr

    has_digest = content[-_DIGEST_LENGTH:].startswith(_MARK)
    if has_digest:
        content, digest = content[:-_DIGEST_LENGTH], content[-64:]
        if hashlib.sha256(content).hexdigest().encode() != digest:
            raise _damaged(source)
    try:
        # h5netcdf leaves a half-made object if HDF5 refuses the file, or a part of it.
        with h5py.File(io.BytesIO(content), "r") as file:
            is_damaged = GROUP in file and not has_digest
        if not is_damaged:
            with xr.open_datatree(io.BytesIO(content), engine="h5netcdf") as file:
                groups = file.load()
    except Exception as error:
        # A damaged file that lacks its digest may raise any error.
        reason = " ".join(str(error).split())
        raise ValueError(f"{source} is not a netCDF file written by save: {reason}") from None
    if is_damaged:
        raise _damaged(source)
    own = groups[GROUP].dataset if GROUP in groups.children else None
    return Stored(str(source), groups.filter(lambda node: node.name != GROUP), own)


def write(content: bytes, path: str | Path, example: str) -> None:
    """Write the contents of a file, completely or not at all.

    Args:
        content: The contents.
        path: Name of the file.
        example: File name for error messages.

    Raises:
        OSError: If the path is a folder or cannot be written to.
    """
    with atomic_write(require_file(path, example)) as temporary:
        temporary.write_bytes(content)


def read(path: str | Path) -> Stored:
    """Groups and state of a file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, or not a netCDF file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    return from_bytes(content, path)


def _split(joined: np.ndarray, layout: str) -> dict[str, np.ndarray]:
    """Arrays by name from their joined bytes.

    layout: JSON list of the name, type and shape of each array.
    """
    arrays, start = {}, 0
    for name, dtype, shape in json.loads(layout):
        size = np.dtype(dtype).itemsize * math.prod(shape)
        arrays[name] = joined[start : start + size].view(dtype).reshape(shape)
        start += size
    return arrays


def _damaged(source: object) -> ValueError:
    return ValueError(
        f"{source} has changed since it was saved: its checksum is wrong or missing. Restore a "
        "copy, or fit again."
    )
