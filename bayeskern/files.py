"""Files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
        reason = error.strerror or error
        raise OSError(f"cannot write to {path.parent}: {reason}; choose another folder") from None
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
