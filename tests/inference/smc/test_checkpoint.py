"""An interrupted sampler continues to the same draws."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern.inference.model import checkpoint_file
from bayeskern.inference.smc import sampler
from tests.inference.closed_forms import line, line_data

X, Y = line_data()


def run(path=None):
    method = bk.SMC(particles=400, checkpoint=path)
    return bk.infer(line, X, Y, method=method, seed=0, progress=False)


def assert_same(one, other):
    np.testing.assert_array_equal(one.z, other.z)
    assert one.log_evidence == other.log_evidence
    for fields in ("sample_stats", "trace"):
        first, second = getattr(one, fields), getattr(other, fields)
        assert first.keys() == second.keys()
        for name, values in first.items():
            np.testing.assert_array_equal(values, second[name])


@pytest.mark.slow
def test_interrupted_run_continues_to_the_same_draws(tmp_path, monkeypatch):
    path, move, calls = tmp_path / "run.npz", sampler.move, []

    def fail_later(*args):
        calls.append(args)
        # In the fourth step of the sampler, each of which moves the particles twice.
        if len(calls) > 6:
            raise KeyboardInterrupt
        return move(*args)

    monkeypatch.setattr(sampler, "move", fail_later)
    monkeypatch.setattr(checkpoint_file, "MIN_SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(checkpoint_file, "MAX_WRITING_SHARE", 1e9)
    with pytest.raises(KeyboardInterrupt):
        run(path)
    with np.load(path) as file:
        taken = int(file["counter"])
        assert taken > 3 and not (file["temperature"] == 1.0 and file["settled"])
    monkeypatch.setattr(sampler, "move", move)
    resumed, whole = run(path), run()
    assert_same(resumed, whole)
    # It continued from the checkpoint.
    with np.load(path) as file:
        assert int(file["counter"]) > taken


@pytest.mark.slow
def test_finished_run_is_read_without_moves(tmp_path, monkeypatch):
    path = tmp_path / "new" / "run.npz"
    first = run(path)

    def refuse(*args):
        raise AssertionError("particles were moved")

    monkeypatch.setattr(sampler, "move", refuse)
    assert_same(run(path), first)
