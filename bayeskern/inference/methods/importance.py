"""Self-normalised importance sampling, adapted in rounds and Pareto smoothed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpyro.distributions import Distribution

from bayeskern.core import validation
from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.adaptive import adapt_proposal, proposal_around_modes
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.guides import FittedFlow
from bayeskern.inference.approximation.proposals import (
    Approximation,
    DefensiveMixture,
    DistributionProposal,
    PriorProposal,
)
from bayeskern.inference.assessment.approximation import still_changing
from bayeskern.inference.findings import Findings
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.from_approximation import fit_from_weights
from bayeskern.inference.methods.svi import SVI
from bayeskern.inference.model import forms
from bayeskern.inference.model.checks.bad_data import refuse_nonfinite
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.search.search import find_optimum


@dataclass(frozen=True)
class ImportanceSampling(Method):
    """Draws from a proposal, weighted by p / q and resampled to equal weights.

    The log evidence is the log of the mean weight. Weights are Pareto smoothed, and
    `posterior.weighted` has them.

    Args:
        proposal: "laplace" (a mixture over all modes found), "svi", "prior", a Posterior of the
            same model, or a NumPyro distribution over the unconstrained coordinates, event shape
            (d,). The prior and a distribution are used without adaptation.
        tails: Degrees of freedom of a Student t that replaces a Gaussian proposal, or is mixed with
            a proposal of another shape; None for no Student t.
        draws: Number of weighted draws, and of returned draws.
        adapt: Rounds in which the proposal is refitted to the weighted moments, before the last
            draws.
        replace: True to resample with replacement; False to return a quarter of `draws`, resampled
            without replacement.

    Raises:
        ValueError: If an option is out of range or unknown.
        TypeError: In `infer`, if the proposal has a wrong type.

    References:
        Owen (2013), "Monte Carlo theory, methods and examples", chapters 9 and 10; Vehtari et al.
        (2024), "Pareto smoothed importance sampling".
    """

    proposal: Any = "laplace"
    tails: float | None = 5.0
    draws: int = 8000
    adapt: int = 2
    replace: bool = True

    name = "importance"
    use = "correcting an approximation; the log marginal likelihood"
    counts = ("draws",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.adapt, bool) or not isinstance(self.adapt, int) or self.adapt < 0:
            raise ValueError(f"adapt must be a number of rounds, 0 or more, got {self.adapt!r}.")
        if self.tails is not None and not self.tails > 0:
            raise ValueError(
                f"tails must be degrees of freedom above 0, or None, got {self.tails}."
            )
        if isinstance(self.proposal, str):
            validation.one_of("proposal", self.proposal, ("laplace", "svi", "prior"))

    def form_of(self, target: Target) -> Target:
        """Target of the form of its model for this method; the form of a posterior as proposal."""
        if isinstance(self.proposal, Fit):
            return forms.with_size(target, self.name, self.proposal.z.shape[-1])
        return super().form_of(target)

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("importance sampling")
        q, optimum = self._proposal(target, seed, progress)
        with Progress("importance sampling", self.adapt + 1, progress) as bar:
            rng = np.random.default_rng(seed)
            adapted = adapt_proposal(q, target, self.draws, self.adapt, rng, bar)
        final = adapted.sample, adapted.weights
        if optimum is None and not np.any(np.isfinite(adapted.sample.log_p)):
            refuse_nonfinite(target, adapted.sample.z[0])
        changing = None
        if adapted.previous is not None:
            changing = still_changing(adapted.previous, final, target.coordinates)
        # The correction of a fit inherits its findings.
        findings = self.proposal.findings if isinstance(self.proposal, Fit) else Findings()
        fit = fit_from_weights(adapted, self.draws, self.replace, seed, changing)
        return dataclasses.replace(fit, optimum=optimum, findings=findings)

    def _proposal(
        self, target: Target, seed: int, progress: bool
    ) -> tuple[Approximation, Optimum | None]:
        """The proposal before adaptation, and the modes if there was a search."""
        proposal = self.proposal
        if proposal == "prior":
            if target.without_prior:
                raise ValueError(
                    f"{', '.join(map(repr, target.without_prior))} has an improper prior, which "
                    "cannot be drawn from. Take proposal='laplace'."
                )
            return PriorProposal(target), None
        if proposal == "laplace":
            optimum = find_optimum(target, 8, seed, 1000, progress, title="importance: modes")
            return proposal_around_modes(optimum.bounded(), self.tails), optimum
        if isinstance(proposal, Distribution):
            if tuple(proposal.event_shape) != (target.size,):
                raise ValueError(
                    f"proposal has event shape {tuple(proposal.event_shape)}, but there are "
                    f"{target.size} unconstrained coordinates: {', '.join(target.coordinates)}."
                )
            return DistributionProposal(proposal), None
        fit = SVI(draws=4000).run(target, seed, progress) if proposal == "svi" else proposal
        if not isinstance(fit, Fit):
            raise TypeError(
                "proposal must be one of laplace, svi, prior, a Posterior or a NumPyro "
                f"distribution, got {type(fit).__name__}."
            )
        if fit.optimum is not None:
            fit.optimum.bounded()
        return widened(fit, target, self.tails), fit.optimum


def widened(fit: Fit, target: Target, tails: float | None) -> Approximation:
    """Approximation of a fit with heavier tails, or a Student t around its draws.

    Args:
        fit: A fit of the target.
        target: The posterior.
        tails: Degrees of freedom of the Student t; None for the unchanged approximation.

    Raises:
        ValueError: If the fit has too few draws, or coordinates of another model.
    """
    z = np.asarray(fit.z).reshape(-1, fit.z.shape[-1])
    if z.shape[1] != target.size or len(z) < 2:
        raise ValueError(
            f"proposal has {len(z)} draws of {z.shape[1]} coordinates; this model needs several "
            f"draws of {target.size}. Fit the same model by a method that returns draws."
        )
    q = fit.approximation
    if q is not None and tails is None:
        return q
    if isinstance(q, Elliptical):
        return dataclasses.replace(q, tails=tails)
    student_t = Elliptical.around(z, tails)
    # A proposal of another shape is mixed with the Student t.
    if isinstance(q, FittedFlow | DistributionProposal):
        return DefensiveMixture(q, student_t)
    return student_t
