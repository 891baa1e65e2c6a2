"""How well kernel ridge does at each of many penalties."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from bayeskern.ridge import criteria
from bayeskern.ridge.criteria import CRITERIA
from bayeskern.ridge.dual_system import DualSpectrum
from bayeskern.ridge.factored_system import Covariances

# The default grid: its length, and its lowest penalty relative to the mean of diag(K).
GRID_LENGTH = 50
LOWEST = 1e-8


class RegularizationPath(NamedTuple):
    """Criteria by penalty, each (number of alphas, number of targets)."""

    alphas: np.ndarray
    #: mean squared leave-one-out residual, weighted; None where nobody asked for it
    loo: np.ndarray | None
    #: generalized cross-validation (Golub, Heath and Wahba 1979), a mean squared residual too
    gcv: np.ndarray
    #: log marginal likelihood of the Gaussian process with noise variance alpha
    evidence: np.ndarray

    @classmethod
    def of(
        cls, spectrum: DualSpectrum | Covariances, T, alphas, sqrt_weights
    ) -> RegularizationPath:
        """The path of targets T: (n, k), which are multiplied by sqrt_weights: (n,)."""
        n, targets = T.shape
        weight, log_weights = sqrt_weights @ sqrt_weights, np.sum(np.log(sqrt_weights))
        loo, gcv, evidence = (np.empty((len(alphas), targets)) for _ in range(3))
        for places, system in spectrum.systems(alphas):
            system = system.for_loo()
            diagonal = system.inverse_diagonal
            for j, t in enumerate(T.T):
                coefficients = system.coefficients(t)
                loo[places, j] = criteria.loo_sum_of_squares(coefficients, diagonal) / weight
                gcv[places, j] = n**2 * criteria.gcv_ratio(coefficients, diagonal) / weight
                evidence[places, j] = system.log_evidence(t) + log_weights
        return cls(alphas, loo, gcv, evidence)

    def scores(self, criterion: str) -> np.ndarray:
        """The values of one criterion, with the sign that makes more better."""
        return self.evidence if criterion == "evidence" else -getattr(self, criterion)

    def best(self, criterion: str, per_target: bool = False):
        """The penalty that a criterion chooses: one for all targets, or one for each."""
        # A penalty without a score is never the best.
        scores = np.nan_to_num(self.scores(criterion), nan=-np.inf)
        if per_target:
            return self.alphas[np.argmax(scores, axis=0)]
        return float(self.alphas[np.argmax(scores.sum(axis=1))])

    def store_in(self, estimator, single: bool, alpha) -> None:
        """Set `alphas_`, `loo_path_` and the others, with an axis for targets unless single.

        Warns if the alpha chosen is the first or the last of several.
        """
        ends = self.alphas[[0, -1]]
        if len(self.alphas) > 1 and np.any(np.isin(alpha, ends)):
            warnings.warn(
                f"the alpha chosen, {alpha}, is at an end of alphas, which run from {ends[0]:.3g} "
                f"to {ends[1]:.3g}: the best may lie beyond. Give wider alphas, or ask whether "
                "the kernel suits the scale of X and y.",
                UserWarning,
                stacklevel=4,
            )
        estimator.alphas_ = self.alphas
        for name, values in zip(CRITERIA, self[1:], strict=True):
            if values is not None:
                setattr(estimator, f"{name}_path_", values[:, 0] if single else values)


def forget_path(estimator) -> None:
    """Delete what an earlier fit has set by `RegularizationPath.store_in`."""
    for name in ("alphas_", *(f"{criterion}_path_" for criterion in CRITERIA)):
        estimator.__dict__.pop(name, None)


def default_alphas(mean_variance: float, n: int) -> np.ndarray:
    """Penalties evenly spaced in the logarithm: (GRID_LENGTH,).

    They run from near interpolation to ten times the largest eigenvalue that a Gram matrix of n
    points with a mean k(x, x) of `mean_variance` can have.
    """
    return (mean_variance or 1.0) * np.geomspace(LOWEST, 10.0 * n, GRID_LENGTH)
