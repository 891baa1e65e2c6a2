"""How far the volatility of what comes may differ from that of the past.

A fit learns the average volatility of a series. In real series it wanders (Harvey, Ruiz and
Shephard, 1994, "Multivariate stochastic variance models"), so that the longer the series, the less
its average says of the volatility at its end.
"""

from __future__ import annotations

import numpy as np

# The variance of the log volatility at the end of a long series, about its average, and the number
# of values from which it is half of that: chosen by the log score on the first halves of the
# series of M1, and among choices that tie there by the coverage of all (`benchmarks.forecasting`).
VARIANCE, HALFWAY = 0.3, 60.0


def volatility_factors(count: int) -> tuple[np.ndarray, np.ndarray]:
    """What the sd of a forecast from so many values is multiplied by, and the weights: (3,) each.

    exp(e) with e ~ N(0, VARIANCE count / (count + HALFWAY)), by Gauss-Hermite quadrature.
    """
    sd = np.sqrt(VARIANCE * count / (count + HALFWAY))
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    return np.exp(sd * nodes), weights / weights.sum()
