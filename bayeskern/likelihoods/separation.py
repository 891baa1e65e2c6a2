"""Separated data, under which a likelihood has no maximum."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def separated(Z: np.ndarray, above: np.ndarray, below: np.ndarray) -> bool:
    """True if the data are separated along some direction of the weights.

    A row whose y lies at an end of the support, such as a class or a count of 0, bounds its linear
    predictor on one side only. If no row bounds a direction d of the weights, the likelihood does
    not vanish along d, and under a flat prior the posterior is improper (Albert and Anderson 1984).
    Such a d has Z d != 0, with Z d <= 0 in the rows `above` and Z d >= 0 in the rows `below`.
    Linear programming finds d: Konis (2007), section 4.4.1; for counts Correia, Guimaraes and
    Zylkin (2019), proposition 1.

    Args:
        Z: The columns whose weights have a flat prior, (n, p).
        above: Mask of rows whose density vanishes as the linear predictor grows, (n,).
        below: Mask of rows whose density vanishes as the linear predictor falls, (n,).
    """
    above, below = np.asarray(above), np.asarray(below)
    if np.all(above) and np.all(below):
        return False
    Z = Z / np.maximum(np.abs(Z).max(axis=0), np.finfo(float).tiny)
    A = np.concatenate([Z[above], -Z[below]])
    solution = linprog(A.sum(axis=0), A_ub=A, b_ub=np.zeros(len(A)), bounds=(-1.0, 1.0))
    # Above the 1e-7 to which the solver satisfies its constraints.
    return bool(solution.success and np.max(-(A @ solution.x)) > 1e-6)
