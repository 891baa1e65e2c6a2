"""Read, compare and choose the penalties of kernel ridge regression.

The criteria accept NumPy arrays (paths of alpha) and JAX arrays (gradients). C is (K + alpha I)^-1
or, with an unpenalised constant, the first n x n block of the inverse of the bordered matrix (see
`bayeskern.ridge.systems`). All sums are over the n points.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bayeskern.core import validation

#: the criteria that choose a penalty; `RegularizationPath` has a field for each
CRITERIA = ("loo", "gcv", "evidence")


def loo_sum_of_squares(coefficients, inverse_diagonal):
    """sum_i ([C t]_i / C_ii)^2, the squared leave-one-out residuals.

    Rasmussen and Williams (2006), equation 5.12.
    """
    return ((coefficients / inverse_diagonal) ** 2).sum(axis=0)


def gcv_ratio(coefficients, inverse_diagonal):
    """|C t|^2 / (tr C)^2, generalized cross-validation up to a factor n.

    Golub, Heath and Wahba (1979), equation 1.4.
    """
    return (coefficients**2).sum(axis=0) / inverse_diagonal.sum(axis=0) ** 2


def read_alpha(alpha, targets: int) -> str | float | np.ndarray:
    """Read alpha: a penalty, penalties (targets,), or the name of a criterion."""
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


def read_alphas(alphas, alpha: str | float | np.ndarray) -> np.ndarray | None:
    """Read the penalties to choose from: sorted, or None for the defaults."""
    if alphas is None:
        return None
    if not isinstance(alpha, str):
        raise ValueError(
            f"alphas are penalties to choose from, but alpha={alpha!r} leaves no choice. "
            'Use alpha="loo", "gcv" or "evidence".'
        )
    numbers = np.unique(validation.penalties(alphas, "alphas"))
    if numbers.size == 0:
        raise ValueError("alphas is empty: give at least one penalty, or None.")
    return numbers


def default_alphas(mean_variance: float, n: int, mean_square: float | None = None) -> np.ndarray:
    """50 penalties or more, evenly spaced on the log scale.

    They range from near interpolation to 10 n mean_variance, where n mean_variance is the largest
    eigenvalue that a Gram matrix of n points can have if the mean of k(x, x) is mean_variance. The
    evidence, which depends on the units of y, needs more if the targets are larger or much smaller
    than functions of the kernel: with their `mean_square`, the range is extended in equal steps.
    """
    scale = mean_variance or 1.0
    alphas = scale * np.geomspace(1e-8, 10.0 * n, 50)
    if not mean_square:
        return alphas
    step = np.log(10.0 * n / 1e-8) / 49.0
    above = int(np.ceil(max(0.0, np.log(mean_square / (scale * n))) / step))
    below = int(np.ceil(max(0.0, np.log(1e-2 * scale / mean_square)) / step))
    return alphas[0] * np.exp(step * np.arange(-below, 50 + above)) if above or below else alphas


class RegularizationPath(NamedTuple):
    """The criteria at many penalties, each (number of alphas, number of targets).

    Attributes:
        alphas: The penalties, sorted.
        loo: The weighted mean squared leave-one-out residual; None if it was not computed.
        gcv: Generalized cross-validation (Golub, Heath and Wahba 1979), a mean squared residual.
        evidence: The log marginal likelihood of the Gaussian process with noise variance alpha.
    """

    alphas: np.ndarray
    loo: np.ndarray | None
    gcv: np.ndarray
    evidence: np.ndarray

    @classmethod
    def of(cls, systems: Iterator, T, alphas, sqrt_weights) -> RegularizationPath:
        """Compute the path from pairs of (indices into alphas, their system).

        T: targets times sqrt_weights (n,), (n, k).
        """
        n, targets = T.shape
        weight, log_weights = sqrt_weights @ sqrt_weights, np.sum(np.log(sqrt_weights))
        loo, gcv, evidence = (np.empty((len(alphas), targets)) for _ in range(3))
        for indices, system in systems:
            system = system.for_loo()
            diagonal = system.inverse_diagonal
            for j, t in enumerate(T.T):
                coefficients = system.coefficients(t)
                loo[indices, j] = loo_sum_of_squares(coefficients, diagonal) / weight
                gcv[indices, j] = n**2 * gcv_ratio(coefficients, diagonal) / weight
                evidence[indices, j] = system.log_marginal_likelihood(t) + log_weights
        return cls(alphas, loo, gcv, evidence)

    def scores(self, criterion: str) -> np.ndarray:
        """The values of one criterion, signed so that higher is better."""
        return self.evidence if criterion == "evidence" else -getattr(self, criterion)

    def best(self, criterion: str, per_target: bool = False) -> float | np.ndarray:
        """The best penalty by a criterion: one for all targets, or one for each."""
        # A penalty without a score is never the best.
        scores = np.nan_to_num(self.scores(criterion), nan=-np.inf)
        if per_target:
            return self.alphas[np.argmax(scores, axis=0)]
        return float(self.alphas[np.argmax(scores.sum(axis=1))])

    def choose(self, criterion: str, estimator, single: bool) -> float | np.ndarray:
        """Choose the penalty of an estimator, and set its `alphas_`, `loo_path_` and so on.

        The paths have an axis for targets unless `single`. Warns if the penalty is the first or the
        last of several.
        """
        alpha = self.best(criterion, estimator.alpha_per_target and not single)
        ends = self.alphas[[0, -1]]
        if len(self.alphas) > 1 and np.any(np.isin(alpha, ends)):
            warnings.warn(
                f"the chosen alpha, {alpha}, is at an end of alphas, which range from "
                f"{ends[0]:.3g} to {ends[1]:.3g}: the best may lie beyond. Give wider alphas, or "
                "check that the kernel suits the scale of X and y.",
                UserWarning,
                stacklevel=5,
            )
        estimator.alphas_ = self.alphas
        for name, values in zip(CRITERIA, self[1:], strict=True):
            if values is not None:
                setattr(estimator, f"{name}_path_", values[:, 0] if single else values)
        return alpha


def forget_path(estimator) -> None:
    """Delete the attributes that an earlier fit set by `RegularizationPath.choose`."""
    for name in ("alphas_", *(f"{criterion}_path_" for criterion in CRITERIA)):
        estimator.__dict__.pop(name, None)
