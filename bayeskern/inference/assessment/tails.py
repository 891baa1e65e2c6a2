"""Tails so heavy that a mean or an sd says nothing."""

from __future__ import annotations

import numpy as np

# A tail index from which on the variance does not exist.
NO_VARIANCE = 0.5
# Only numbers with a draw more sds from their mean are checked: those of a Gaussian have none.
FAR = 5.5
# What takes fewer different values than this share of its draws is discrete.
FEW = 0.05


def heavy_tail_advice(
    names: list[str], x: np.ndarray, evidence: dict, efficiency: float = 1.0
) -> str | None:
    """Advice, if a number has no variance as far as its draws x (S, m) can tell; else None.

    The tail index k of a generalised Pareto distribution, fitted to either tail of the draws; it
    goes into the evidence. efficiency: effective draws per draw. Vehtari et al. (2024).
    """
    from arviz_stats.base import array_stats

    # Squares of very large numbers would overflow.
    x = x / np.maximum(np.max(np.abs(x), axis=0), np.finfo(float).tiny)
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.max(np.abs(x - x.mean(axis=0)), axis=0) / x.std(axis=0)
    tail_indices = {}
    for i in np.flatnonzero(distance > FAR):
        # A number that takes few values, such as an indicator, has no tail.
        if len(np.unique(x[:, i])) > FEW * len(x):
            khat = float(array_stats.pareto_khat(x[None, :, i], r_eff=efficiency))
            tail_indices[names[i]] = np.inf if np.isnan(khat) else khat
    if not tail_indices:
        return None
    at = max(tail_indices, key=lambda name: tail_indices[name])
    evidence["tail_index"], evidence["tail_index_at"] = tail_indices[at], at
    if tail_indices[at] < NO_VARIANCE:
        return None
    return (
        f"{at} has such a heavy tail (index {tail_indices[at]:.2g}) that its sd may not exist, so "
        "that more draws would not settle it: use medians and quantiles of it, or a tighter prior."
    )
