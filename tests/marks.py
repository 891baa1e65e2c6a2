"""Marks that many tests need."""

import pytest


def slow(*values):
    """Values of a parameter that only the longer runs take."""
    return pytest.param(*values, marks=pytest.mark.slow)
