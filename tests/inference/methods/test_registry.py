"""Lists of the methods agree with the registry, and every method has a case."""

from pathlib import Path

import pytest

import bayeskern as bk
from bayeskern.inference import METHODS
from bayeskern.inference.methods.registry import table
from tests.inference.methods.cases import CASES


@pytest.mark.parametrize("name", METHODS)
def test_method_has_a_case_and_is_documented(name):
    method = METHODS[name]
    assert name in CASES, f"{name} has no case in tests/inference/methods/cases.py"
    assert type(CASES[name]) is method and method.name == name
    exported = getattr(bk, method.__name__, None) is method
    assert exported, f"export {method.__name__} in bayeskern and bayeskern.inference"
    assert f'"{name}"' in bk.infer.__doc__, f'the docstring of infer lacks the method "{name}"'
    assert method.use, f"{method.__name__}.use says for which problems the method is"


def test_readme_has_the_table_of_methods():
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert table() in readme, f"README.md must have this table:\n{table()}"
