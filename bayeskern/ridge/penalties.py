"""The arguments alpha and alphas: penalties, or the criterion that chooses among them."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.ridge.criteria import CRITERIA


def read_alpha(alpha, targets: int):
    """A number, an array (targets,) of numbers, all 0 or more, or the name of a criterion."""
    if isinstance(alpha, str):
        return validation.one_of("alpha", alpha, CRITERIA)
    numbers = validation.penalties(alpha, "alpha")
    if numbers.ndim == 0:
        return float(numbers)
    if numbers.shape != (targets,):
        raise ValueError(
            f"alpha has shape {numbers.shape}, but y has {targets} columns: give one number, or "
            'one for each column of y. To choose among several, give alpha="loo" and alphas=[...].'
        )
    return numbers


def read_alphas(alphas, alpha):
    """Penalties to choose from, in rising order; None for the default ones."""
    if alphas is None:
        return None
    if not isinstance(alpha, str):
        raise ValueError(
            f"alphas are there to choose from, but alpha={alpha!r} leaves no choice. "
            'Give alpha="loo", "gcv" or "evidence".'
        )
    numbers = np.unique(validation.penalties(alphas, "alphas"))
    if numbers.size == 0:
        raise ValueError("alphas is empty: give at least one penalty, or None.")
    return numbers
