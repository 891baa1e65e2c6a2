"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
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


# Renames at the end of the block `together`, as pairs of a temporary file and its target.
_waiting: ContextVar[list[tuple[Path, Path]] | None] = ContextVar("waiting", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Make the files written by `atomic_write` in this block appear together.

    They appear at the end of the block, and none of them if it fails. In nested blocks the
    outermost one decides. Only a process that is killed during the renames, which take a fraction
    of a millisecond, leaves some of the files.

    Raises:
        OSError: A target is a folder.
    """
    if _waiting.get() is not None:
        yield
        return
    renames: list[tuple[Path, Path]] = []
    token = _waiting.set(renames)
    try:
        yield
        # Checked before the first rename, so that none of them can fail halfway.
        for _, target in renames:
            _require_no_folder(target)
        _rename_all(renames)
    finally:
        _waiting.reset(token)
        for temporary, _ in renames:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, whose file is renamed to `path` if the block succeeds.

    Temporary files of killed processes in the same folder are removed. In a block of `together`,
    the file is renamed at the end of that block.

    Raises:
        OSError: The folder is not writable, or `path` is a folder.
    """
    path = Path(path)
    _require_no_folder(path)
    prefix = f"{_prefix()}{os.getpid()}-"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=path.suffix)
    except OSError as error:
        raise _unwritable(path.parent, error.strerror or error) from None
    os.close(handle)
    temporary, waiting = Path(name), _waiting.get()
    try:
        yield temporary
        # mkstemp makes files that only the owner can read; open() would have used the umask.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        if waiting is None:
            temporary.replace(path)
        else:
            waiting.append((temporary, path))
    finally:
        if waiting is None or (temporary, path) not in waiting:
            temporary.unlink(missing_ok=True)


def _rename_all(renames: Sequence[tuple[Path, Path]]) -> None:
    """Rename temporary files to their targets; Ctrl-C does not stop halfway."""
    try:
        for temporary, target in renames:
            temporary.replace(target)
    except KeyboardInterrupt:
        for temporary, target in renames:
            if temporary.exists():
                temporary.replace(target)
        raise


def _require_no_folder(path: Path) -> None:
    if path.is_dir():
        raise OSError(f"cannot write {path}: it is a folder; move it, or choose another folder")


def _prefix() -> str:
    """Prefix of the names of temporary files, before the number of the process."""
    # Another machine that shares the folder may have processes with the same numbers.
    machine = re.sub(r"[^\w.]", "", socket.gethostname())[:64]
    return f".bayeskern-{machine}-"


def remove_stale(folder: Path) -> None:
    """Remove temporary files of `atomic_write` whose process has ended."""
    # On Windows, os.kill would end the process.
    if os.name != "posix":
        return
    pattern = re.compile(re.escape(_prefix()) + r"(\d{1,9})-.*")
    for name in os.listdir(folder):
        match = pattern.fullmatch(name)
        if match and not _is_running(int(match[1])):
            # Another process may remove the file at the same time, or own the folder.
            with suppress(OSError):
                (folder / name).unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # The process belongs to another user.
        return True
    return True
