"""A killed run continues to the same draws."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import NUTS
from bayeskern.inference import Target
from bayeskern.inference.mcmc import chains
from bayeskern.inference.model import checkpoint_file
from bayeskern.inference.model.checkpoint_file import fingerprint
from tests.inference.closed_forms import line, line_data

WARMUP, DRAWS = 60, 60
X, Y = line_data()


def run(path=None, **options):
    options = {"chains": 2, "warmup": WARMUP, "draws": DRAWS, **options}
    return bk.infer(line, X, Y, method=NUTS(checkpoint=path, **options), seed=0, progress=False)


def run_slowly(path):
    """One step at a time with a pause after each, and the file written after every step."""
    quick = chains.ChainGroup._advance

    def slow(self, steps):
        time.sleep(0.02)
        return quick(self, 1)

    chains.ChainGroup._advance, chains.STRETCH_SECONDS = slow, 0.01
    checkpoint_file.MIN_SECONDS_BETWEEN_WRITES, checkpoint_file.MAX_WRITING_SHARE = 0.0, 1.0
    run(path)


def steps_done(path):
    """Steps of each chain, or of each group of chains, in the file."""
    if not path.exists():
        return [0]
    with np.load(path) as file:
        return [int(file[f"{i}.done"]) for i in range(int(file["groups"]))]


def kill_after(path, steps):
    """Start the slow run in another process; SIGKILL once that many steps are in the file."""
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); import {here.stem} as t; "
    process = subprocess.Popen([sys.executable, "-c", code + f"t.run_slowly({str(path)!r})"])
    try:
        deadline = time.monotonic() + 120
        while (
            max(steps_done(path)) < steps and process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def assert_same(one, other):
    np.testing.assert_array_equal(one.z, other.z)
    assert one.sample_stats.keys() == other.sample_stats.keys()
    for name, values in one.sample_stats.items():
        np.testing.assert_array_equal(values, other.sample_stats[name])


@pytest.mark.slow
@pytest.mark.parametrize("steps", [20, WARMUP + 20], ids=["in warmup", "while sampling"])
def test_killed_run_continues_to_the_same_draws(tmp_path, steps, monkeypatch):
    path = tmp_path / "run.npz"
    kill_after(path, steps)
    done = steps_done(path)
    assert steps <= max(done) < WARMUP + DRAWS
    taken, further = [], chains.ChainGroup._advance

    def counted(self, steps):
        taken.append(steps)
        return further(self, steps)

    monkeypatch.setattr(chains.ChainGroup, "_advance", counted)
    resumed = run(path)
    # It continued from the checkpoint.
    assert sum(taken) == 2 * (WARMUP + DRAWS) - sum(done)
    assert_same(resumed, run())
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["run.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("mass_matrix", ["auto", [("w",)]], ids=["dense", "a block"])
@pytest.mark.parametrize("chain_method", ["parallel", "vectorized"])
def test_finished_run_is_read_without_sampling(tmp_path, chain_method, mass_matrix, monkeypatch):
    options = {"chain_method": chain_method, "mass_matrix": mass_matrix}
    path = tmp_path / "new" / "run.npz"
    first = run(path, **options)

    def refuse(*args):
        raise AssertionError("a step was taken")

    monkeypatch.setattr(chains.ChainGroup, "_take_steps", refuse)
    assert_same(run(path, **options), first)


@pytest.mark.slow
def test_vectorized_chains_continue_to_the_same_draws(tmp_path, monkeypatch):
    whole = run(chain_method="vectorized")
    path, further = tmp_path / "run.npz", chains.ChainGroup._advance

    def fail(self, steps):
        if self.stage.done > WARMUP:
            raise KeyboardInterrupt
        return further(self, min(7, steps))

    monkeypatch.setattr(chains.ChainGroup, "_advance", fail)
    with pytest.raises(KeyboardInterrupt):
        run(path, chain_method="vectorized")
    assert WARMUP < max(steps_done(path)) < WARMUP + DRAWS
    monkeypatch.undo()
    assert_same(run(path, chain_method="vectorized"), whole)


@pytest.mark.slow
def test_run_with_a_chosen_diagonal_metric_continues_to_the_same_draws(tmp_path, monkeypatch):
    def independent():
        numpyro.sample("x", dist.Normal(0.0, np.array([0.1, 1.0, 5.0])).to_event(1))

    def draws():
        method = NUTS(checkpoint=path, chains=2, warmup=300, draws=DRAWS)
        return bk.infer(independent, method=method, seed=0, progress=False).z

    path, further = tmp_path / "run.npz", chains.ChainGroup._advance
    whole = draws()
    with np.load(path) as file:
        assert file["rank"] == 0
    path.unlink()

    def fail(self, steps):
        # The first chains have 150 steps.
        if self.stage.done > 160:
            raise KeyboardInterrupt
        return further(self, min(7, steps))

    monkeypatch.setattr(chains.ChainGroup, "_advance", fail)
    with pytest.raises(KeyboardInterrupt):
        draws()
    assert path.exists()
    monkeypatch.undo()
    np.testing.assert_array_equal(draws(), whole)


def test_checkpoint_of_an_earlier_version_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    run(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file if name != "rank"}
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="belongs to another run.*Delete it"):
        run(path)


@pytest.mark.slow
def test_parallel_and_sequential_runs_share_a_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    assert_same(run(path, chain_method="parallel"), run(path, chain_method="sequential"))


def test_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="is not a folder"):
        run(tmp_path / "file" / "run.npz")


def test_fingerprint_depends_on_static_data():
    def model(group):
        with numpyro.plate("groups", len(np.unique(group))):
            numpyro.sample("a", dist.Normal())

    first, second = (Target.from_model(model, (np.array(g),), {}) for g in ([0, 1, 1], [0, 0, 1]))
    assert fingerprint(first, ()) != fingerprint(second, ())
    assert fingerprint(first, ()) == fingerprint(
        Target.from_model(model, (np.array([0, 1, 1]),), {}), ()
    )
