"""Settings of JAX: float64, and a cache of compiled functions on disk."""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path

import jax


def apply() -> None:
    """Set JAX options, unless the user has set them by environment variables.

    A first fit is mostly compilation, so compiled functions are kept in the user's cache folder, in
    a folder that only the user can enter: who can write there can run code in a later process.
    JAX_COMPILATION_CACHE_DIR sets another folder; JAX_ENABLE_COMPILATION_CACHE=0 disables it.
    """
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    # JAX would warn for each function if the folder were not writable.
    is_default = jax.config.jax_compilation_cache_dir is None
    if is_default and jax.config.jax_enable_compilation_cache and _can_write(cache):
        folder = cache / "bayeskern"
        problem = make_private(folder) or make_private(folder / "jax")
        if problem is not None:
            warnings.warn(
                f"{problem}; compiled functions are not kept, so each process compiles again. "
                f"Remove {folder}, or set JAX_COMPILATION_CACHE_DIR to a folder of your own.",
                stacklevel=3,
            )
            return
        jax.config.update("jax_compilation_cache_dir", str(folder / "jax"))
        # By default JAX caches compilations of at least a second; most of ours take a tenth.
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _can_write(folder: Path) -> bool:
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    return folder.is_absolute() and existing.is_dir() and os.access(existing, os.W_OK)


def make_private(folder: Path) -> str | None:
    """Make a folder that only its owner can enter; return why an existing one is not safe."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.name != "posix":
            return None
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return f"the cache folder {folder} is a link"
        if status.st_uid != os.geteuid():
            return f"the cache folder {folder} belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"other users can write to the cache folder {folder}"
        folder.chmod(0o700)
    except OSError as error:
        return f"the cache folder {folder} cannot be made: {error.strerror}"
    return None
