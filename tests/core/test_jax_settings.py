"""JAX's settings after the import, in processes of their own."""

import os
import subprocess
import sys

import pytest

SHOW = """
import bayeskern, jax
print(jax.config.jax_compilation_cache_dir, jax.config.jax_enable_x64)
"""
UNSET = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}


def settings(**environment) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, env=UNSET | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_settings_of_the_user_hold(tmp_path):
    cache, own = str(tmp_path), str(tmp_path / "own")
    kept = str(tmp_path / "bayeskern" / "jax")
    assert settings(XDG_CACHE_HOME=cache) == [kept, "True"]
    assert settings(XDG_CACHE_HOME=cache, JAX_COMPILATION_CACHE_DIR=own) == [own, "True"]
    assert settings(XDG_CACHE_HOME=cache, JAX_ENABLE_X64="0") == [kept, "False"]


@pytest.mark.slow
def test_no_cache_without_a_writable_folder():
    # A folder cannot be made below a file.
    assert settings(XDG_CACHE_HOME="/dev/null/cache") == ["None", "True"]
