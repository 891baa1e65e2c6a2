"""Files of a command appear together; killed runs leave nothing that stays."""

import os
import signal
import subprocess
import sys
import time

import pytest

import bayeskern as bk
from bayeskern import cli
from bayeskern.core import files
from bayeskern.reports import document

NAMES = ["a.csv", "b.png", "c.html"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(folder, text, fail_at=None):
    """Write three files together; raise `fail_at[1]` before writing file number `fail_at[0]`."""
    with files.together():
        for i, name in enumerate(NAMES):
            if fail_at is not None and fail_at[0] == i:
                raise fail_at[1]
            with files.atomic_write(folder / name) as path:
                path.write_text(text)


def test_files_appear_together(tmp_path):
    with files.together():
        for name in NAMES:
            with files.atomic_write(tmp_path / name) as path:
                path.write_text("new")
            assert not set(names(tmp_path)) & set(NAMES)
    assert names(tmp_path) == NAMES
    assert {path.read_text() for path in tmp_path.iterdir()} == {"new"}


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("x"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_failure_leaves_the_old_files(tmp_path, error, at):
    write(tmp_path, "old")
    with pytest.raises(type(error)):
        write(tmp_path, "new", fail_at=(at, error))
    assert names(tmp_path) == NAMES
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}


def test_an_inner_block_waits_for_the_outer_one(tmp_path):
    with pytest.raises(ValueError, match="late"), files.together():
        write(tmp_path, "new")
        raise ValueError("late")
    assert names(tmp_path) == []
    # Files written after a failed block appear at once.
    with files.atomic_write(tmp_path / "a.csv") as path:
        path.write_text("x")
    assert names(tmp_path) == ["a.csv"]


def test_a_folder_in_place_of_a_file_stops_all(tmp_path):
    (tmp_path / "c.html").mkdir()
    with pytest.raises(OSError, match="c.html: it is a folder"):
        write(tmp_path, "new")
    assert names(tmp_path) == ["c.html"]


def test_ctrl_c_between_two_renames_does_not_leave_half(tmp_path, monkeypatch):
    write(tmp_path, "old")
    replace, count = files.Path.replace, iter(range(10))

    def interrupted(path, target):
        if next(count) == 1:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(files.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, "new")
    assert names(tmp_path) == NAMES
    assert {path.read_text() for path in tmp_path.iterdir()} == {"new"}


# -- commands --------------------------------------------------------------------------------------


@pytest.fixture
def constant(tmp_path, monkeypatch):
    """A file whose forecast needs no fit."""
    monkeypatch.chdir(tmp_path)
    rows = [f"2020-0{month}-01,5" for month in range(1, 8)]
    (tmp_path / "sales.csv").write_text("\n".join(["month,sales", *rows]))
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["forecast", "sales.csv", "--horizon", "2", *arguments])
    return stop.value.code


@pytest.mark.slow
def test_a_failing_report_leaves_no_half_set(constant, monkeypatch, capsys):
    def fails(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(document, "render", fails)
    assert run() == 2 and "no space left" in capsys.readouterr().err
    assert names(constant / "out") == []
    monkeypatch.undo()
    monkeypatch.chdir(constant)
    assert run("--total", "month") == 0
    assert names(constant / "out") == ["forecast.csv", "forecast.png", "report.html", "totals.csv"]
    before = {path: path.stat().st_mtime_ns for path in (constant / "out").iterdir()}
    monkeypatch.setattr(document, "render", fails)
    assert run("--total", "month") == 2
    assert {path: path.stat().st_mtime_ns for path in (constant / "out").iterdir()} == before


def test_export_is_whole_or_nothing(tmp_path, monkeypatch):
    forecast = bk.forecast([3.0, 3.0, 3.0, 3.0], 2)
    (tmp_path / "forecast.png").mkdir()
    with pytest.raises(OSError, match="forecast.png: it is a folder"):
        forecast.export(tmp_path)
    assert names(tmp_path) == ["forecast.png"]


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk_leaves_the_old_files(constant, capsys):
    import resource

    assert run() == 0
    before = {path: path.read_bytes() for path in (constant / "out").iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Files above 4 kB cannot be written: the CSV can, the picture cannot.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        status = run("--level", "0.5")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 2 and capsys.readouterr().err.startswith("bayeskern: ")
    assert {path: path.read_bytes() for path in (constant / "out").iterdir()} == before


# -- killed runs -----------------------------------------------------------------------------------

# Without JAX, so that the process starts at once.
KILLED = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
with files.together():
    for name in ("a.csv", "b.png"):
        with files.atomic_write(sys.argv[2] + "/" + name) as path:
            path.write_text("half")
    print("written", flush=True)
    time.sleep(60)
"""


def test_temporary_files_of_killed_runs_are_removed(tmp_path):
    arguments = [sys.executable, "-c", KILLED, files.__file__, tmp_path]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"written\n"
        left = names(tmp_path)
        assert len(left) == 2 and all(f"-{process.pid}-" in name for name in left)
        # Those of a running process stay.
        write(tmp_path, "new")
        assert set(left) < set(names(tmp_path))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert set(left) < set(names(tmp_path))
    write(tmp_path, "new")
    assert names(tmp_path) == NAMES


def test_only_own_temporary_files_are_removed(tmp_path):
    dead = 2**22 + 5  # Linux numbers processes below 2^22.
    machine = files._prefix()
    others = [
        f".bayeskern-elsewhere-{dead}-abc.csv",
        f".bayeskern-{dead}.csv",
        f"x{machine}{dead}-abc.csv",
        f"{machine}x-abc.csv",
        f"{machine}{os.getpid()}-abc.csv",
        ".hidden",
    ]
    for name in [*others, f"{machine}{dead}-abc.csv"]:
        (tmp_path / name).write_text("x")
    files.remove_stale(tmp_path)
    assert names(tmp_path) == sorted(others)


@pytest.mark.slow
def test_a_killed_command_leaves_old_or_new(tmp_path):
    """Killed after a random time, a command leaves a whole set of files, and no others stay."""
    rows = [f"2020-0{month}-01,5" for month in range(1, 8)]
    (tmp_path / "sales.csv").write_text("\n".join(["month,sales", *rows]))
    command = [sys.executable, "-m", "bayeskern", "forecast", "sales.csv", "--horizon", "2"]
    start = time.perf_counter()
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    expected = names(tmp_path / "out")
    for share in (0.85, 0.95, 1.0):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        time.sleep(share * seconds)
        process.kill()
        process.wait()
        shown = [name for name in names(tmp_path / "out") if not name.startswith(".bayeskern-")]
        assert shown == expected
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert names(tmp_path / "out") == expected
