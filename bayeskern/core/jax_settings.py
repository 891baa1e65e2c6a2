"""JAX as bayeskern wants it: float64, and compiled functions kept on disk between sessions."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def apply() -> None:
    """Set what the user has not set by JAX's own variables, which are read when it is imported.

    A first fit is mostly compilation, so that what was compiled is kept in the user's cache folder.
    JAX_COMPILATION_CACHE_DIR gives another folder, JAX_ENABLE_COMPILATION_CACHE=0 none.
    """
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    # Where nothing can be written, JAX would warn of each function.
    if jax.config.jax_compilation_cache_dir is None and _can_write(cache):
        jax.config.update("jax_compilation_cache_dir", str(cache / "bayeskern" / "jax"))
        # By default only what took a second is kept, and most of ours takes a tenth of one.
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _can_write(folder: Path) -> bool:
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    return folder.is_absolute() and existing.is_dir() and os.access(existing, os.W_OK)
