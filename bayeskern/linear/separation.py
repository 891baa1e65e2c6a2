"""Whether the data alone bound the weights of a generalized linear model.

A row whose y lies at an end of the support, such as a class or a count of 0, bounds its linear
predictor on one side only. If the weights can move in some direction that no row bounds, the
likelihood does not vanish there: the data are separated, and under a flat prior there is no
posterior. Albert and Anderson (1984), "On the existence of maximum likelihood estimates in logistic
regression models".
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

# The solver keeps its constraints to 1e-7; a linear predictor that moves less does not move.
MOVES = 1e-6


def separated(Z, above, below) -> bool:
    """Whether the weights may move in a direction that no row bounds.

    Such a direction d has Z d != 0, at most 0 in the rows `above`, and at least 0 in the rows
    `below`. It is found by linear programming: Konis (2007), section 4.4.1; for counts Correia,
    Guimaraes and Zylkin (2019), proposition 1.

    Z: (n, p), the columns whose weights have a flat prior; above, below: (n,) bool, the rows where
    the density vanishes as the linear predictor grows to infinity, and to -infinity.
    """
    above, below = np.asarray(above), np.asarray(below)
    if np.all(above) and np.all(below):
        return False
    Z = Z / np.maximum(np.abs(Z).max(axis=0), np.finfo(float).tiny)
    A = np.concatenate([Z[above], -Z[below]])
    solution = linprog(A.sum(axis=0), A_ub=A, b_ub=np.zeros(len(A)), bounds=(-1.0, 1.0))
    return bool(solution.success and np.max(-(A @ solution.x)) > MOVES)
