"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def require_writable(folder: str | os.PathLike[str]) -> None:
    """Raise OSError if files cannot be written to a folder, without creating any."""
    folder = Path(folder)
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not existing.is_dir():
        raise _unwritable(folder, f"{existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _unwritable(folder, os.strerror(errno.EACCES))


def require_file(path: str | os.PathLike[str], example: str) -> Path:
    """Return the path of a file after checking that it can be written.

    Args:
        path: The path.
        example: File name for error messages.

    Raises:
        TypeError: `path` is not a path.
        OSError: `path` is a folder, or its folder is not writable.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a file path, such as {example!r}; got {path!r}.")
    file = Path(path)
    if file.is_dir():
        raise OSError(
            f"path={os.fspath(path)!r} is a folder; give a file in it, such as "
            f"{str(file / example)!r}"
        )
    require_writable(file.parent)
    return file


def _unwritable(folder: Path, reason: object) -> OSError:
    return OSError(f"cannot write to {folder}: {reason}; choose another folder")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, whose file is renamed to `path` if the block succeeds.

    Raises:
        OSError: The folder is not writable.
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
        # mkstemp makes files that only the owner can read; open() would have used the umask.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
