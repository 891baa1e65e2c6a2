"""What the part of a posterior where trajectories diverge could change.

A divergence says that steps are too long for the place where it happens, a neck most often, and
that chains may have seen less of it than there is (Betancourt, 2017, "A conceptual introduction to
Hamiltonian Monte Carlo", section 6.2). Where hardly any of the posterior lies there, hardly any can
be missing.
"""

from __future__ import annotations

import numpy as np


def could_change(z, diverging) -> np.ndarray:
    """How far means would be off if as much again were missing where draws diverge, in sds.

    That part is what lies beyond the median of the diverging draws, in the direction that tells
    them best from the others (Fisher, 1936). If a share s of all draws lies there, twice as much of
    it moves the mean by s / (1 + s) times the distance of the mean there from that of all.

    Args:
        z: The draws, (n, d).
        diverging: Which of them diverged, (n,); at least one.

    Returns:
        The distance of each coordinate, (d,); NaN where the draws have no precision matrix.
    """
    sds, unknown = z.std(axis=0), np.full(z.shape[1], np.nan)
    # Written so that NaN is not above.
    if not np.all(sds > 0.0):
        return unknown
    standard = (z - z.mean(axis=0)) / sds
    try:
        correlation = standard.T @ standard / len(z)
        direction = np.linalg.solve(correlation, standard[diverging].mean(axis=0))
    except np.linalg.LinAlgError:
        return unknown
    along = standard @ direction
    there = along >= np.median(along[diverging])
    share = np.mean(there)
    return share / (1.0 + share) * np.abs(standard[there].mean(axis=0))


def divergence_evidence(posterior) -> dict:
    """What divergences could change at the most, and where; nothing where there are none."""
    diverging = np.ravel(posterior.sample_stats["diverging"]).astype(bool)
    if not diverging.any():
        return {}
    change = could_change(posterior.z.reshape(len(diverging), -1), diverging)
    at = int(np.argmax(np.where(np.isnan(change), np.inf, change)))
    name = posterior.fitted_target.coordinates[at]
    return {
        "divergences_could_change": float(change[at]),
        "divergences_could_change_at": name,
    }
