"""Whether the data alone bound the weights of a generalised linear model.

A row whose y lies at an end of its range, such as a class or a count of 0, lets its linear
predictor run off to one side. Where all rows let it run in one direction of the weights, the
likelihood does not vanish there, and under a flat prior there is no posterior.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

# The solver keeps its constraints to 1e-7; what moves less does not move.
MOVES = 1e-6


def separable(Z, above, below) -> bool:
    """Whether Z d is not 0, at most 0 in rows `above` and at least 0 in rows `below`, for some d.

    Z: (n, p), the columns whose weights have a flat prior; above, below: (n,) bool, where the
    density vanishes as the linear predictor rises, as it falls. A linear programme: Konis (2007),
    section 4.4.1; for counts Correia, Guimaraes and Zylkin (2019), proposition 1.
    """
    above, below = np.asarray(above), np.asarray(below)
    if np.all(above) and np.all(below):
        return False
    Z = Z / np.maximum(np.abs(Z).max(axis=0), np.finfo(float).tiny)
    A = np.concatenate([Z[above], -Z[below]])
    found = linprog(A.sum(axis=0), A_ub=A, b_ub=np.zeros(len(A)), bounds=(-1.0, 1.0))
    return bool(found.success and np.max(-(A @ found.x)) > MOVES)
