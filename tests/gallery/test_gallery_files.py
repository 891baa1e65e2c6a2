"""Errors in files of the user: one sentence, with the line."""

import sys

import pytest

from bayeskern import gallery
from bayeskern.inference.problem import Problem

HEAD = """import numpy as np, numpyro, numpyro.distributions as dist, equinox as eqx
from bayeskern import Problem

def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
"""
TAIL = """
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

def problem():
    return Problem(model, (np.zeros(3),))
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("    mu = mu + np.ones(4) @ y", "mine.py, line 6, .*y`: dot_general requires"),
        ("    mu = mu.nothing", "mine.py, line 6: AttributeError: .* nothing"),
        ("    mu = {}['key']", "mine.py, line 6: KeyError: 'key'"),
        (
            "    mu = eqx.error_if(mu, mu > -1e9, 'mu is too large')",
            "mine.py, line 6: .*RuntimeError: mu is too large$",
        ),
    ],
)
def test_errors_inside_a_model_name_the_line(written, line, said):
    path = written(HEAD + line + TAIL)
    problem = gallery.load(path)
    with pytest.raises(ValueError, match=said) as info, gallery.blame(path):
        problem.fit("laplace", progress=False)
    assert info.value.__cause__ is not None


def test_errors_outside_the_file_name_the_file(tmp_path):
    said = "mine.py: TypeError: deep inside"
    with pytest.raises(ValueError, match=said), gallery.blame(tmp_path / "mine.py"):
        raise TypeError("deep inside")


def test_os_errors_pass_unchanged(tmp_path):
    with pytest.raises(OSError, match="^disk full$"), gallery.blame(tmp_path / "mine.py"):
        raise OSError("disk full")


def test_problem_function_with_arguments_is_refused(written):
    path = written(HEAD + TAIL.replace("problem()", "problem(x)"))
    with pytest.raises(ValueError, match=r"problem\(\) is called without arguments: .*'x'"):
        gallery.load(path)


@pytest.mark.parametrize("change", ["sys.path.clear()", "sys.path.pop(0)"])
def test_file_may_change_sys_path(written, monkeypatch, change):
    monkeypatch.setattr(sys, "path", list(sys.path))
    # Last, since nothing can be imported without a path.
    assert isinstance(gallery.load(written(f"{HEAD}{TAIL}\nimport sys\n{change}")), Problem)


def test_changed_sys_path_does_not_hide_errors(written, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ValueError, match="mine.py, line 2: ZeroDivisionError"):
        gallery.load(written("import sys; sys.path.clear()\n1 / 0"))
