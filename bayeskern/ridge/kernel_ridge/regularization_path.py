"""How well kernel ridge does at each of many penalties, from one eigendecomposition."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from bayeskern.ridge.kernel_ridge.dual_system import Spectrum
from bayeskern.ridge.validation import CRITERIA

# The default grid: so many penalties, from LOWEST times the mean of diag(K) on.
LENGTH = 50
LOWEST = 1e-8


class Path(NamedTuple):
    """Criteria by penalty, each (number of alphas, number of targets)."""

    alphas: np.ndarray
    #: mean squared leave-one-out residual, weighted; None where nobody asked for it
    loo: np.ndarray | None
    #: generalised cross-validation (Golub, Heath and Wahba 1979), a mean squared residual too
    gcv: np.ndarray
    #: log marginal likelihood of the Gaussian process with noise variance alpha
    evidence: np.ndarray

    @classmethod
    def of(cls, spectrum: Spectrum, T, alphas, s) -> Path:
        """T: (n, k) targets times s; s: (n,) the square roots of the sample weights."""
        system = spectrum.at(alphas).for_loo()
        diagonal = system.inverse_diagonal
        trace, weight, density = np.sum(diagonal, axis=0), s @ s, np.sum(np.log(s))
        loo, gcv, evidence = (np.empty((len(alphas), T.shape[1])) for _ in range(3))
        for j, t in enumerate(T.T):
            c = system.coefficients(t)
            loo[:, j] = np.sum(np.square(c / diagonal), axis=0) / weight
            gcv[:, j] = len(t) ** 2 * np.sum(np.square(c), axis=0) / (weight * trace**2)
            evidence[:, j] = system.log_evidence(t) + density
        return cls(alphas, loo, gcv, evidence)

    def scores(self, criterion: str) -> np.ndarray:
        """One of these criteria, turned so that more is better."""
        return self.evidence if criterion == "evidence" else -getattr(self, criterion)

    def best(self, criterion: str, per_target: bool = False):
        """The penalty that a criterion chooses: one for all targets, or one for each."""
        # What has no score is not the best.
        scores = np.nan_to_num(self.scores(criterion), nan=-np.inf)
        if per_target:
            return self.alphas[np.argmax(scores, axis=0)]
        return float(self.alphas[np.argmax(scores.sum(axis=1))])

    def keep_in(self, estimator, single: bool, alpha) -> None:
        """Set `alphas_`, `loo_path_` and the others, with an axis for targets unless single.

        Warns if the alpha chosen is the first or the last of several.
        """
        edges = self.alphas[[0, -1]]
        if len(self.alphas) > 1 and np.any(np.isin(alpha, edges)):
            warnings.warn(
                f"the alpha chosen, {alpha}, is at an end of alphas, which run from {edges[0]:.3g} "
                f"to {edges[1]:.3g}: the best may lie beyond. Give wider alphas, or ask whether "
                "the kernel suits the scale of X and y.",
                UserWarning,
                stacklevel=4,
            )
        estimator.alphas_ = self.alphas
        for name, scores in zip(CRITERIA, self[1:], strict=True):
            if scores is not None:
                setattr(estimator, f"{name}_path_", scores[:, 0] if single else scores)


def forget_path(estimator) -> None:
    """Delete what an earlier fit has set by `Path.keep_in`."""
    for name in ("alphas_", *(f"{criterion}_path_" for criterion in CRITERIA)):
        estimator.__dict__.pop(name, None)


def default_alphas(size: float, n: int) -> np.ndarray:
    """LENGTH penalties, evenly spaced in the logarithm, for n points with a mean k(x, x) of `size`.

    From nearly interpolation to a penalty of ten times the largest eigenvalue that K can have.
    """
    return (size or 1.0) * np.geomspace(LOWEST, 10.0 * n, LENGTH)
