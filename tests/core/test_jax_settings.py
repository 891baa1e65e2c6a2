"""JAX's settings after the import, in processes of their own."""

import os
import stat
import subprocess
import sys

import pytest

from bayeskern.core import jax_settings

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


def folder_with(folder, mode):
    folder.mkdir(parents=True)
    folder.chmod(mode)
    return folder


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_cache_folder_is_private(tmp_path):
    old = os.umask(0)
    try:
        assert jax_settings.make_private(tmp_path / "new" / "bayeskern") is None
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new" / "bayeskern").stat().st_mode) == 0o700
    # A folder of an earlier version, which others can read, is closed.
    folder = folder_with(tmp_path / "readable", 0o755)
    assert jax_settings.make_private(folder) is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_cache_folder_of_others_is_refused(tmp_path, monkeypatch):
    for mode in (0o775, 0o757, 0o777, 0o1777):
        folder = folder_with(tmp_path / f"{mode:o}", mode)
        assert "other users can write" in str(jax_settings.make_private(folder))
        assert stat.S_IMODE(folder.stat().st_mode) == mode
    (tmp_path / "link").symlink_to(folder_with(tmp_path / "target", 0o700))
    assert "is a link" in str(jax_settings.make_private(tmp_path / "link"))
    (tmp_path / "file").write_text("x")
    assert "cannot be made" in str(jax_settings.make_private(tmp_path / "file"))
    folder = folder_with(tmp_path / "own", 0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert "belongs to another user" in str(jax_settings.make_private(folder))


@pytest.mark.slow
def test_no_cache_in_a_folder_that_others_can_write(tmp_path):
    folder_with(tmp_path / "bayeskern", 0o777)
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        capture_output=True,
        text=True,
        env=UNSET | {"XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.stdout.split() == ["None", "True"]
    assert "other users can write to the cache folder" in done.stderr
    assert not (tmp_path / "bayeskern" / "jax").exists()
