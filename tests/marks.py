"""Marks that many tests need."""

import functools
import itertools
import re

import pytest


def slow(*values):
    """Values of a parameter that only the longer runs take."""
    return pytest.param(*values, marks=pytest.mark.slow)


def few(values, *kept):
    """Values of a parameter of which every run takes those kept, and the longer runs the others."""
    return [value if value in kept else slow(value) for value in values]


@functools.cache
def requires(mark: str, expression: str) -> bool:
    """True if no test without a mark is selected by an expression of marks, as `-m` takes."""
    others = set(re.findall(r"\w+", expression)) - {mark, "and", "or", "not", "True", "False"}
    if not expression:
        return False
    choices = itertools.product([False, True], repeat=len(others))
    marks = ({mark: False, **dict(zip(others, values, strict=True))} for values in choices)
    return not any(eval(expression, {}, each) for each in marks)
