"""Regression as people write it: a formula, groups and smooths."""

from bayeskern.formula.answers import Answers
from bayeskern.formula.build import regression
from bayeskern.formula.effect_plots import caterpillar, conditional
from bayeskern.formula.marginal import comparisons, datagrid, predictions, slopes
from bayeskern.formula.variance import variance_shares

__all__ = [
    "Answers",
    "caterpillar",
    "comparisons",
    "conditional",
    "datagrid",
    "predictions",
    "regression",
    "slopes",
    "variance_shares",
]
