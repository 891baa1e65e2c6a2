"""The arguments alpha and alphas: penalties, or the criterion that chooses among them."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.ridge.kernel_ridge.criteria import CRITERIA


def read_alpha(alpha, targets: int):
    """A number, an array (targets,) of numbers, all 0 or more, or the name of a criterion."""
    if isinstance(alpha, str):
        return validation.one_of("alpha", alpha, CRITERIA)
    numbers = read_penalties("alpha", alpha)
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
    numbers = np.unique(read_penalties("alphas", alphas))
    if numbers.size == 0:
        raise ValueError("alphas is empty: give at least one penalty, or None.")
    return numbers


def read_penalties(name: str, value) -> np.ndarray:
    """One penalty of 0 or more, (), or several, (L,)."""
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        numbers = np.asarray(np.nan)
    if numbers.ndim > 1 or not np.all(np.isfinite(numbers) & (numbers >= 0.0)):
        raise ValueError(
            f"{name} must be a finite penalty of 0 or more, or several, got {value!r}."
        )
    return numbers
