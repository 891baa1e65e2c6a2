import os
import stat
from pathlib import Path

import pytest

from bayeskern.core.files import atomic_write, require_file, require_writable


def test_atomic_write(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    with atomic_write(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists() and temporary.parent == path.parent
        assert temporary.suffix == ".txt"
    assert path.read_text() == "all of it"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_files_have_the_permissions_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "a.txt") as temporary:
            temporary.write_text("x")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_folder_below_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "below", file / "far" / "below"):
        with (
            pytest.raises(OSError, match=f"cannot write to {folder}: .*; choose another"),
            atomic_write(folder / "a.txt"),
        ):
            pass
        with pytest.raises(OSError, match=f"cannot write to {folder}: {file} is not a folder"):
            require_writable(folder)
    assert file.read_text() == "x" and len(list(tmp_path.iterdir())) == 1


def test_require_writable_creates_nothing(tmp_path, monkeypatch):
    require_writable(tmp_path / "not" / "yet")
    assert not list(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    require_writable("out")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(OSError, match="cannot write to out: Permission denied"):
        require_writable("out")


def test_require_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert require_file("new/a.txt", "a.txt") == Path("new/a.txt") and not list(tmp_path.iterdir())
    for path in (tmp_path, "", "."):
        with pytest.raises(OSError, match="is a folder; give a file in it, such as '.*a.txt'"):
            require_file(path, "a.txt")
    for path in (None, 3):
        with pytest.raises(TypeError, match=f"path must be .* such as 'a.txt'; got {path}"):
            require_file(path, "a.txt")
    (tmp_path / "b").write_text("")
    with pytest.raises(OSError, match="b is not a folder"):
        require_file("b/a.txt", "a.txt")
