"""Regression as people write it: a formula, groups and smooths."""

from bayeskern.formula.build import regression

__all__ = ["regression"]
