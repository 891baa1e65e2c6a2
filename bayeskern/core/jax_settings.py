"""Settings of JAX: float64, and a cache of compiled functions on disk."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def apply() -> None:
    """Set JAX options, unless the user has set them by environment variables.

    A first fit is mostly compilation, so compiled functions are kept in the user's cache folder.
    JAX_COMPILATION_CACHE_DIR sets another folder; JAX_ENABLE_COMPILATION_CACHE=0 disables it.
    """
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    # JAX would warn for each function if the folder were not writable.
    if jax.config.jax_compilation_cache_dir is None and _can_write(cache):
        jax.config.update("jax_compilation_cache_dir", str(cache / "bayeskern" / "jax"))
        # By default JAX caches compilations of at least a second; most of ours take a tenth.
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _can_write(folder: Path) -> bool:
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    return folder.is_absolute() and existing.is_dir() and os.access(existing, os.W_OK)
