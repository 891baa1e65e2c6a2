"""Checkpoints of another run, and other files, are refused and left as they are."""

import pytest

import bayeskern as bk
from tests.inference.closed_forms import line, line_data, noisier_line
from tests.marks import few

X, Y = line_data()
# Each kind of checkpoint by its name in messages: a method, its options, and changes to these.
RUNS = {
    "NUTS": (
        bk.NUTS,
        {"chains": 2, "warmup": 60, "draws": 60},
        [{"draws": 61}, {"target_accept": 0.95}],
    ),
    "SMC": (bk.SMC, {"particles": 400}, [{"particles": 800}, {"min_ess": 0.5}]),
    "a search for modes": (bk.MAP, {"starts": 3}, [{"method": bk.MLE}, {"jacobian": True}]),
}
CHANGES = [{"seed": 1}, {"y": Y + 1e-9}, {"model": noisier_line}]


def run(kind, path, model=line, y=Y, seed=0, method=None, **changes):
    default, options, _ = RUNS[kind]
    method = (method or default)(checkpoint=path, **{**options, **changes})
    return bk.infer(model, X, y, method=method, seed=seed, progress=False)


@pytest.mark.parametrize("kind", few(RUNS, "a search for modes"))
def test_checkpoint_of_another_run_is_refused(tmp_path, kind):
    path = tmp_path / "run.npz"
    run(kind, path)
    before = path.read_bytes()
    for changed in (*CHANGES, *RUNS[kind][2]):
        with pytest.raises(ValueError, match="belongs to another run.*Delete it"):
            run(kind, path, **changed)
        assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"something else"])
@pytest.mark.parametrize("kind", RUNS)
def test_other_files_are_refused(tmp_path, kind, content):
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"is not a checkpoint of {kind}"):
        run(kind, path)
    assert path.read_bytes() == content
