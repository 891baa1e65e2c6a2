"""Saved forecasts and posteriors that are damaged, interrupted, or do not fit on the disk."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import bayeskern as bk

SERIES = np.cumsum(np.random.default_rng(0).normal(size=30)) + 20.0


def forecast(path):
    model = bk.StructuralModel(method="map", log=False)
    bk.forecast(SERIES, 3, trend="drift", season=0, model=model).save(path)


def posterior(path):
    coin = bk.BetaBernoulli(1.0, 1.0)
    bk.infer(coin, np.array([0, 1, 1]), progress=False).save(path)


def mutations(content, count, seed):
    """Copies of a file, each with one fault: a changed bit, a zeroed block, or a lost end."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        damaged = np.frombuffer(content, np.uint8).copy()
        place = int(rng.integers(len(damaged)))
        if i % 3 == 0:
            damaged[place] ^= 1 << int(rng.integers(8))
        elif i % 3 == 1:
            block = damaged[place : place + int(rng.integers(1, 2000))]
            block[:] = 0 if block.any() else 255
        else:
            damaged = damaged[:place]
        yield damaged.tobytes()


@pytest.mark.parametrize("save", [forecast, pytest.param(posterior, marks=pytest.mark.slow)])
def test_damaged_file_is_refused(tmp_path, save):
    name = "saved.nc"
    save(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for damaged in mutations(content, 300, seed=1):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checksum|not a netCDF file"):
            bk.load(tmp_path / name)


def run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "f.nc"
    forecast(path)
    result = run(
        """
        import os, signal, sys
        from pathlib import Path
        import bayeskern as bk

        def half(self, content):
            with open(self, "wb") as file:
                file.write(content[:1000])
            os.kill(os.getpid(), signal.SIGKILL)

        f = bk.load(sys.argv[1]).update(20.0)
        Path.write_bytes = half
        f.save(sys.argv[1])
        """,
        path,
    )
    assert result.returncode == -signal.SIGKILL
    assert len(bk.load(path).series.values) == len(SERIES)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_full_disk_is_an_error(tmp_path):
    posterior(tmp_path / "old.nc")
    result = run(
        """
        import resource, signal, sys
        import bayeskern as bk

        loaded = bk.load(sys.argv[1])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            loaded.save(sys.argv[2])
        except OSError as error:
            print("refused:", error)
        """,
        tmp_path / "old.nc",
        tmp_path / "p.nc",
    )
    assert result.returncode == 0 and "refused" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["old.nc"]
