"""Several devices and several processes give the results of one."""

import os
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import bayeskern as bk
from bayeskern import MAP
from tests import program_of_processes as program

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def start(what, file, *where, devices=1, checkpoint=""):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": "cpu",
        "CHECKPOINT": str(checkpoint),
    }
    command = [sys.executable, "-m", program.__name__, what, file, *map(str, where)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def start_all(what, folder, count, **options):
    """`count` processes on this machine, and the files that they write."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    files = [folder / f"{place}.npz" for place in range(count)]
    return [start(what, f, address, count, i, **options) for i, f in enumerate(files)], files


def finish(processes):
    """Wait for processes, which must succeed."""
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output.decode()


def assert_same(file, expected, rtol=1e-8):
    with np.load(file) as found:
        assert set(found) == set(expected)
        for name, value in expected.items():
            scale = np.max(np.abs(value))
            np.testing.assert_allclose(found[name], value, rtol=rtol, atol=rtol * scale)


@pytest.fixture(scope="module")
def alone():
    """Results of one device, each computed once."""
    known = {}

    def of(what):
        if what not in known:
            known[what] = jax.device_get(getattr(program, what)())
        return known[what]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("what", ["evidence", "sums"])
def test_four_devices_of_one_process(tmp_path, what, alone):
    finish([start(what, tmp_path / "file.npz", devices=4)])
    assert_same(tmp_path / "file.npz", alone(what))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("what", ["evidence", "sums"])
def test_processes(tmp_path, what, count, alone):
    processes, files = start_all(what, tmp_path, count)
    finish(processes)
    for file in files:
        assert_same(file, alone(what))


@pytest.mark.slow
def test_inference_in_two_processes(tmp_path, alone):
    processes, files = start_all("fit", tmp_path, 2)
    finish(processes)
    for file in files:
        # Rounding changes the end of a search within its tolerance.
        assert_same(file, alone("fit"), rtol=1e-4)


@pytest.mark.slow
def test_chains_in_two_processes(tmp_path):
    # Chains depend on rounding, so the processes are compared with each other.
    processes, (one, other) = start_all("chains", tmp_path, 2)
    finish(processes)
    with np.load(one) as draws:
        assert draws["noise"].shape == (2, 20) and np.ptp(draws["noise"]) > 0.0
        assert_same(other, dict(draws), rtol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_checkpoint_continues_after_a_killed_process(tmp_path, killed):
    checkpoint = tmp_path / "search.npz"
    processes, _ = start_all("search", tmp_path, 2, checkpoint=checkpoint)
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    processes[killed].send_signal(signal.SIGKILL)
    # The other process ends with an error within the time limit.
    output, _ = processes[1 - killed].communicate(timeout=4 * 30.0)
    assert processes[1 - killed].returncode != 0, output.decode()
    processes[killed].communicate()

    def steps_taken():
        with np.load(checkpoint) as state:
            return int(state["taken"].max())

    before = steps_taken()
    processes, files = start_all("search", tmp_path, 2, checkpoint=checkpoint)
    finish(processes)
    assert steps_taken() > before
    alone = bk.infer(program.MODEL, *program.rows(), method=MAP(starts=2), progress=False)
    for file in files:
        assert_same(file, {"z": alone.z}, rtol=1e-4)
