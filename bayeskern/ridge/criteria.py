"""Selection criteria of kernel ridge, for NumPy arrays (paths of alpha) and JAX (gradients).

C is (K + alpha I)^-1; with an unpenalized constant it is the first n x n block of the inverse of
the bordered matrix. C t are the dual coefficients of targets t: (n,) or (n, k), and C_ii is the
inverse diagonal. All sums run over the n points.
"""

from __future__ import annotations

import math

#: what may choose a penalty; `RegularizationPath` has a field for each
CRITERIA = ("loo", "gcv", "evidence")
LOG_2PI = math.log(2.0 * math.pi)


def loo_sum_of_squares(coefficients, inverse_diagonal):
    """sum_i ([C t]_i / C_ii)^2, the squared leave-one-out residuals.

    Rasmussen and Williams (2006), equation 5.12.
    """
    return ((coefficients / inverse_diagonal) ** 2).sum(axis=0)


def gcv_ratio(coefficients, inverse_diagonal):
    """|C t|^2 / (tr C)^2, which is generalized cross-validation but for a factor n.

    Golub, Heath and Wahba (1979), equation 1.4.
    """
    return (coefficients**2).sum(axis=0) / inverse_diagonal.sum(axis=0) ** 2


def log_evidence(quadratic, logdet, dof: int):
    """log N(t; 0, A) from t'A^-1 t and log |A|, in dof dimensions."""
    return -0.5 * (quadratic + logdet + dof * LOG_2PI)
