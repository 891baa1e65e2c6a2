"""Marks that many tests need."""

import pytest


def slow(*values):
    """Values of a parameter that only the longer runs take."""
    return pytest.param(*values, marks=pytest.mark.slow)


def few(values, *kept):
    """Values of a parameter of which every run takes those kept, and the longer runs the others."""
    return [value if value in kept else slow(value) for value in values]
