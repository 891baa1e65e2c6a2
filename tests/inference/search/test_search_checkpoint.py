"""Checkpoints of a search for modes."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import MAP, MLE, Laplace
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.search import lbfgs
from tests.marks import few

X = np.random.default_rng(0).normal(size=(30, 4))
Y = np.exp(X @ [1.0, -1.0, 0.5, 0.0])


def counts(X, y):
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([4]).to_event(1))
    numpyro.sample("y", dist.Gamma(2.0, 2.0 * jnp.exp(-X @ w)), obs=y)


def search(path=None, method=MAP, **options):
    method = method(starts=3, checkpoint=path, **options)
    return bk.infer(counts, X, Y, method=method, seed=0, progress=False)


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch):
    monkeypatch.setattr(lbfgs, "STEPS_PER_UPDATE", 2)


@pytest.fixture
def killed(monkeypatch):
    """Searches that end after a few stretches, as by SIGKILL: nothing is written any more."""

    def search_until(path, stretches, **options):
        written, write = [], CheckpointFile.write

        def count(file, arrays):
            write(file, arrays)
            written.append(int(arrays["taken"].max()))
            if len(written) == stretches:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(CheckpointFile, "write", count)
            search(path, **options)
        return written[-1]

    return search_until


@pytest.mark.parametrize("method", few([MAP, MLE, Laplace], MAP))
@pytest.mark.slow
def test_killed_search_continues_to_the_same_end(tmp_path, method, killed, monkeypatch):
    path = tmp_path / "new" / "search.npz"
    steps = killed(path, 3, method=method)
    first_steps, stretch = [], lbfgs._stretch

    def record(objective, state, *rest):
        first_steps.append(int(state.taken.max()))
        return stretch(objective, state, *rest)

    monkeypatch.setattr(lbfgs, "_stretch", record)
    resumed = search(path, method=method)
    assert first_steps[0] == steps > 2
    np.testing.assert_array_equal(resumed.z, search(method=method).z)


@pytest.mark.slow
def test_short_search_continues_with_more_steps(tmp_path):
    path = tmp_path / "search.npz"
    assert search(path, steps=2).trust.verdict == "bad"
    longer = search(path, steps=500)
    assert longer.trust.verdict == "not assessable"
    np.testing.assert_allclose(longer.z, search(steps=500).z, atol=1e-5)
