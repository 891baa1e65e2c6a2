"""The Laplace approximation: a Gaussian at the mode of the unconstrained density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskern.core import validation
from bayeskern.inference.approximation.proposals import Elliptical, triangular
from bayeskern.inference.methods.from_approximation import drawn_fit
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import CURVED, Optimum, find_optimum
from bayeskern.inference.result import Estimate, Fit


@dataclass(frozen=True)
class Laplace:
    """N(mode, H^-1), H the Hessian of -log p(z) at its mode in unconstrained coordinates.

    draws: how many draws. starts, steps: of the search for the mode, as in MAP. A Hessian that is
    not positive definite is repaired, and the verdict says along which site. Tierney and Kadane
    (1986); the log evidence is log p(mode) + d/2 log 2 pi - 1/2 log det H.
    A density with kinks, as that of a Laplace distribution, has no such H: DoesNotApplyError.
    """

    draws: int = 4000
    starts: int = 4
    steps: int = 1000

    name = "laplace"

    def __post_init__(self):
        validation.positive_integer(self.draws, "draws")
        validation.positive_integer(self.starts, "starts")
        validation.positive_integer(self.steps, "steps")

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("laplace")
        target.require_curvature("laplace")
        optimum = find_optimum(
            target, self.starts, seed, self.steps, progress, title="Laplace: mode"
        )
        tril, repaired = square_root(optimum)
        # That there is another mode is judged by whether the draws cover it.
        problem = repaired if optimum.converged else optimum.problem()
        evidence = Estimate(optimum.log_evidence, np.nan) if not problem else None
        q = Elliptical.of(optimum.z, tril)
        return drawn_fit(q, self.draws, seed, optimum, problem, log_evidence=evidence)


def square_root(optimum: Optimum) -> tuple[np.ndarray, str | None]:
    """A lower triangular L with L L' = H^-1, and what had to be repaired to get one.

    The Hessian is brought to a unit diagonal first, so that scales of 1e4 beside 1e-3 do no harm.
    Directions without curvature, or with a negative one, get that of an sd a thousand times the
    sd along the axes, or the absolute value.
    """
    H, d = optimum.hessian, len(optimum.z)
    if not np.all(np.isfinite(H)):
        return np.eye(d), "The Hessian at the mode is not finite; a unit covariance stands in."
    size = np.sqrt(np.abs(np.diag(H)))
    size = np.where(size > 0, size, max(1.0, size.max()) * 1e-3)
    values, vectors = np.linalg.eigh(H / np.outer(size, size))
    repaired = None
    wrong = ~(values > CURVED)
    if wrong.any():
        main = np.argmax(np.abs(vectors[:, wrong]), axis=0)
        shown = ", ".join(
            f"it {'rises' if value < -CURVED else 'is flat'} along {optimum.coordinates[i]}"
            for i, value in zip(main, values[wrong], strict=True)
        )
        repaired = (
            f"The Hessian at the mode had to be repaired ({shown}): the draws mean nothing there. "
            "Give that site a proper prior, or take method='nuts'."
        )
        values = np.maximum(np.abs(values), 1e-6)
    return triangular((vectors / np.sqrt(values)) / size[:, None]), repaired
