"""Saved forecasts and posteriors that are damaged, interrupted, or do not fit on the disk."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import bayeskern as bk

SERIES = np.cumsum(np.random.default_rng(0).normal(size=30)) + 20.0


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A forecast and a posterior, as files."""
    folder = tmp_path_factory.mktemp("saved")
    bk.forecast(SERIES, 3).save(folder / "forecast.nc")
    coin = bk.BetaBernoulli(1.0, 1.0)
    bk.infer(coin, np.array([0, 1, 1]), progress=False).save(folder / "posterior.nc")
    return folder


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


@pytest.mark.parametrize("name", ["forecast.nc", "posterior.nc"])
def test_damaged_file_is_refused(files, tmp_path, name):
    content = (files / name).read_bytes()
    for damaged in mutations(content, 300, seed=1):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checksum|not a netCDF file"):
            bk.load(tmp_path / name)


def run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_killed_save_leaves_the_old_file(files, tmp_path):
    path = tmp_path / "f.nc"
    path.write_bytes((files / "forecast.nc").read_bytes())
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
def test_full_disk_is_an_error(files, tmp_path):
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
        files / "posterior.nc",
        tmp_path / "p.nc",
    )
    assert result.returncode == 0 and "refused" in result.stdout
    assert list(tmp_path.iterdir()) == []
