"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def require_writable(folder) -> None:
    """Raise OSError, naming the folder, if files could not be written to it; makes nothing."""
    folder = Path(folder)
    there = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not there.is_dir():
        raise _unwritable(folder, f"{there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise _unwritable(folder, os.strerror(errno.EACCES))


def require_file(path, example: str) -> Path:
    """The path of a file, if it could be written; makes nothing. example: the name of such a file.

    Raises TypeError if it is no path, OSError, naming it, if it is a folder or in one that files
    could not be written to.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be that of a file, such as {example!r}; got {path!r}.")
    found = Path(path)
    if found.is_dir():
        raise OSError(
            f"cannot write the file path={os.fspath(path)!r}: it is a folder; give a file in it, "
            f"such as {str(found / example)!r}"
        )
    require_writable(found.parent)
    return found


def _unwritable(folder, reason) -> OSError:
    return OSError(f"cannot write to {folder}: {reason}; choose another folder")


@contextmanager
def whole(path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes its place if the block succeeds.

    Raises OSError, naming the folder, if it cannot be written to.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    except OSError as error:
        raise _unwritable(path.parent, error.strerror or error) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files for the owner's eyes only; give what open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
