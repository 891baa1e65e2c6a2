"""The documentation names every public object, its links hold, and its examples run."""

import configparser
import pkgutil
import re
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
import pytest
import sklearn.ensemble
from sklearn.base import BaseEstimator, is_classifier

import bayeskern as bk
from bayeskern.inference import METHODS
from bayeskern.kernels.registry import KERNELS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTED = [
    path
    for page in (ROOT / "docs" / "api").glob("*.md")
    for path in re.findall(r"^::: (\S+)", page.read_text(), flags=re.MULTILINE)
]


@pytest.mark.parametrize(
    "module", [bk, bk.course, bk.kernels, bk.likelihoods, bk.ridge], ids=lambda m: m.__name__
)
def test_public_names_are_documented(module):
    documented = [pkgutil.resolve_name(path) for path in DOCUMENTED]
    # These modules are documented name by name.
    documented += [bk.course, bk.kernels, bk.likelihoods, bk.priors, bk.ridge]
    # `.ci/docs.py` lists what is registered.
    documented += [*KERNELS.values(), *METHODS.values()]
    missing = [
        name
        for name in module.__all__
        if not any(getattr(module, name) is thing for thing in documented)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files(page):
    addresses = re.findall(r"\]\(([^)\s#]+)", page.read_text())
    local = [address for address in addresses if "://" not in address]
    assert [address for address in local if not (page.parent / address).exists()] == []


def test_documented_layers_match_the_contract():
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    layers = [
        re.findall(r"\w+", contract[f"importlinter:contract:{name}"]["layers"])
        for name in ("layers", "inference", "forecast")
    ]
    packages, inside = layers[0][1:], layers[1] + layers[2]  # __main__ only calls the command line.
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| \[`(\w+)`\]", page.partition("## Where to find")[0], flags=re.MULTILINE)
    assert rows == packages + inside
    picture = (ROOT / "docs" / "layers.svg").read_text()
    assert re.findall(r'font-weight="600">(\w+)<', picture) == packages


def sections(page):
    """The Python blocks of a page by second-level heading, and those before the first heading."""
    parts = ["", *re.split(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)]
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    blocks = {
        heading: re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        for heading, text in texts.items()
    }
    return {heading: code for heading, code in blocks.items() if code}


EXAMPLES = {
    f"{page.stem}: {heading}".removesuffix(": "): blocks
    for page in PAGES
    if page.parent.name != "api"
    for heading, blocks in sections(page).items()
}


@pytest.mark.slow
@pytest.mark.parametrize("section", EXAMPLES)
def test_examples_run(section, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Some of them write reports.
    names = {"__name__": "example"}
    for number, block in enumerate(EXAMPLES[section], 1):
        exec(compile(block, f"{section}, block {number}", "exec"), names)
    plt.close("all")


def course():
    """The rows of the course and of its misprints, each a list of its three cells."""
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("course", "misprints"))
    rows = re.findall(r"^\| (?!what \|)(.+) \|$", pages, flags=re.MULTILINE)
    return [re.split(r" ?\| ?", row) for row in rows]


CALLS = [call for _, cell, _ in course() for call in re.findall(r"`([^`]+)`", cell)]
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=30), np.arange(30) % 2])
Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])]) + RNG.normal(0.0, 0.3, (30, 2))
NAMES = {
    "bk": bk,
    "course": bk.course,
    "kernels": bk.kernels,
    "likelihoods": bk.likelihoods,
    "priors": bk.priors,
    "dist": dist,
    "eqx": eqx,
    "jax": jax,
    "np": np,
    "sklearn": sklearn,
    "X": X,
    "x": X[:, 0],
    "Y": Y,
    "y": Y[:, 0],
    "labels": (X[:, 0] > 0.0).astype(int),
    "counts": RNG.poisson(2.0, 30),
    "times": RNG.exponential(2.0, 30),
    "exposure": RNG.uniform(1.0, 2.0, 30),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call", CALLS)
def test_course_calls_run(call):
    result = eval(call, dict(NAMES))
    if isinstance(result, bk.kernels.Kernel):
        assert np.all(np.isfinite(result(X)))
    elif isinstance(result, BaseEstimator):
        result.fit(X, NAMES["labels" if is_classifier(result) else "y"])
    plt.close("all")


def test_course_rows_have_a_call_and_a_test():
    tests = tomllib.loads((ROOT / "tests" / "course.toml").read_text())
    assert [what.partition(";")[0] for what, *_ in course()] == list(tests)
    assert all("`" in cell for _, cell, _ in course())
    for what, test in tests.items():
        path, _, name = test.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert f"\ndef {name}(" in text, what
        marks = text.partition(f"\ndef {name}(")[0].rpartition("\n\n")[2]
        assert "skip" not in marks and "xfail" not in marks, what
