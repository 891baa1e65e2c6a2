"""A kernel rounded for a report, and the change of a component in words."""

from __future__ import annotations

import jax
import numpy as np

from bayeskern.core.formatting import number, three_digits
from bayeskern.kernels import Kernel
from bayeskern.reports.wording import percent


def rounded(kernel: Kernel) -> Kernel:
    """The kernel at the median of its draws, rounded to three digits."""
    return jax.tree.map(lambda leaf: three_digits(np.median(leaf, axis=0)), kernel)


def direction(changes: np.ndarray, factor: bool = False) -> str:
    """Direction, size and probability of the change of a component over the data.

    Args:
        changes: Draws of the change.
        factor: True if the change is a factor.
    """
    no_change = 1.0 if factor else 0.0
    median, low, high = np.quantile(changes, (0.5, 0.05, 0.95))
    # Draws cannot show that a probability is 0 or 1.
    chance_of_rise = float(np.clip(np.mean(changes > no_change), 1e-6, 1.0 - 1e-6))
    if low <= no_change <= high:
        chance = percent(chance_of_rise)
        return f"its direction over the data is uncertain (chance of a rise {chance})"
    verb, noun, chance = ("rises", "rise", chance_of_rise)
    if median < no_change:
        verb, noun, chance = ("falls", "fall", 1.0 - chance_of_rise)
    amount, *ends = [number(abs(v)) for v in (median, *sorted((low, high), key=abs))]
    by = "by a factor of" if factor else "by"
    return (
        f"over the data it {verb} {by} {amount} ({ends[0]} to {ends[1]}; chance of a {noun} "
        f"{percent(chance)})"
    )
