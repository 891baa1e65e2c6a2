"""Selections of tests by marks."""

import pytest

from tests.marks import requires


@pytest.mark.parametrize("expression", ["core", "slow and core and not long", "core and (a or b)"])
def test_expressions_that_require_a_mark(expression):
    assert requires("core", expression)


@pytest.mark.parametrize(
    "expression", ["", "not slow", "not core", "slow and not core", "slow or core", "score"]
)
def test_expressions_that_select_tests_without_a_mark(expression):
    assert not requires("core", expression)
