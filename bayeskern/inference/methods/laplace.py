"""The Laplace approximation: a Gaussian at the mode of the unconstrained density."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.from_approximation import fit_from_approximation
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import inverse_hessian_root
from bayeskern.inference.optimization.modes import find_optimum
from bayeskern.inference.result import Fit


@dataclass(frozen=True)
class Laplace(Method):
    """The Laplace approximation: N(mode, H^-1) in unconstrained coordinates.

    H is the Hessian of -log p(z) at the mode of the unconstrained density. The log evidence is
    log p(mode) + d/2 log 2 pi - 1/2 log det H. A Hessian that is not positive definite is repaired,
    and the verdict says along which site.

    Args:
        draws: How many draws.
        starts: How many starts of the search for the mode, as in `MAP`.
        steps: The most steps of L-BFGS.
        checkpoint: A file for the search for the mode, as in `MAP`.

    Raises:
        ValueError: If an option is not a whole number of at least 1; in `infer`, if the checkpoint
            is of another run.
        DoesNotApplyError: In `infer`, if a density has kinks, as that of a Laplace distribution,
            and so no such H.

    References:
        Tierney and Kadane (1986), "Accurate approximations for posterior moments and marginal
        densities".
    """

    draws: int = 4000
    starts: int = 8
    steps: int = 1000
    checkpoint: str | Path | None = None

    name = "laplace"

    def __post_init__(self):
        validation.positive_integer(self.draws, "draws")
        validation.positive_integer(self.starts, "starts")
        validation.positive_integer(self.steps, "steps")

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("laplace")
        target.require_curvature("laplace")
        given = (self.starts, seed, self.steps, progress)
        optimum = find_optimum(target, *given, title="Laplace: mode", checkpoint=self.checkpoint)
        tril, repaired = inverse_hessian_root(optimum)
        # Other modes are no problem here: the assessment checks whether the draws cover them.
        problem = repaired if optimum.converged else optimum.problem()
        evidence = Estimate(optimum.log_evidence, np.nan) if not problem else None
        q = Elliptical.of(optimum.z, tril)
        return fit_from_approximation(q, self.draws, seed, optimum, problem, log_evidence=evidence)
