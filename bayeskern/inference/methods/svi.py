"""Variational inference: reverse KL divergence by the ELBO, forward KL by moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.adaptive import adapt_proposal, proposal_around_modes
from bayeskern.inference.approximation.elbo import PARTICLES, MaximizedELBO, maximize_elbo
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.guides import (
    GUIDES,
    AutoGuide,
    GaussianGuide,
    Guide,
    UserGuide,
)
from bayeskern.inference.approximation.psis import weighted_moments
from bayeskern.inference.assessment.approximation import is_useless
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.from_approximation import fit_from_approximation
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.search.search import find_optimum
from bayeskern.protocols import DoesNotApplyError


class SVIStart(NamedTuple):
    """Start of a fit: its target, its seed, and the modes found by a search."""

    target: Target
    seed: int
    optimum: Optimum


@dataclass(frozen=True)
class SVI(Method):
    """Stochastic variational inference: the member of a family closest to the posterior.

    Adam maximises the ELBO, E_q[log p(z) - log q(z)], at decreasing learning rates until the ELBO
    stops rising.

    Args:
        guide: The family: "mean_field", "full_rank" or "low_rank" (Gaussians), "flow" (inverse
            autoregressive), or a NumPyro guide for the model's sites.
        gradient: "pathwise", or "score" with a leave-one-out baseline (Kool, van Hoof and Welling
            2019).
        objective: "reverse_kl", KL(q || p); or "forward_kl", KL(p || q), whose Gaussian has the
            moments of the posterior, estimated by adaptive importance sampling from all modes
            found.
        steps: Maximum number of steps (a flow needs up to twice as many: it starts from a fitted
            Gaussian). The fit ends earlier once the ELBO stops rising; if it never does, the
            verdict says so.
        draws: Number of draws.

    Raises:
        ValueError: If an option is unknown, or options are incompatible.

    References:
        Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), "Automatic differentiation variational
        inference"; Kingma et al. (2016) for the flow.
    """

    guide: str | Callable = "full_rank"
    gradient: str = "pathwise"
    objective: str = "reverse_kl"
    steps: int = 20_000
    draws: int = 4000

    name = "svi"
    samples_latents = True
    use = "large data (plates that subsample), many coordinates, a guide of your own"
    counts = ("steps", "draws")

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.one_of("gradient", self.gradient, PARTICLES)
        validation.one_of("objective", self.objective, ("reverse_kl", "forward_kl"))
        if not callable(self.guide):
            validation.one_of("guide", self.guide, GUIDES)
        if self.objective == "forward_kl" and self.guide not in ("mean_field", "full_rank"):
            raise ValueError(
                "objective='forward_kl' matches the moments of a Gaussian, which "
                f"guide={self.guide!r} is not. Take guide='full_rank' or 'mean_field'."
            )
        if self.gradient == "score" and (callable(self.guide) or self.guide == "flow"):
            raise ValueError(
                "gradient='score' needs the density of the guide at any point, which a flow or a "
                "user-defined guide does not give. Take gradient='pathwise'."
            )

    @property
    def runs_side_by_side(self) -> bool:
        """True if several fits share one compiled step."""
        return not self.reads_arguments

    @property
    def reads_arguments(self) -> bool:
        """True for a user-defined guide, which is called with the arguments of the model."""
        return callable(self.guide)

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        return self._finish([self._start(target, seed, progress)], progress)[0]

    def run_many(self, targets: Sequence[Target], seeds: Sequence[int]) -> list[Fit]:
        starts = [
            self._start(target, seed, False) for target, seed in zip(targets, seeds, strict=True)
        ]
        return self._finish(starts, False)

    def _start(self, target: Target, seed: int, progress: bool) -> SVIStart:
        """Validate a target and search for its modes."""
        target.require_priors("SVI")
        if self.guide == "flow" and target.size < 2:
            raise DoesNotApplyError(
                "guide='flow' needs at least two coordinates, and the model has one. Take "
                "guide='full_rank'."
            )
        optimum = find_optimum(target, 8, seed, 1000, progress, title="SVI: modes")
        return SVIStart(target, seed, optimum.bounded())

    def _finish(self, starts: list[SVIStart], progress: bool) -> list[Fit]:
        """Fits of one model to data sets of equal shapes, together."""
        if self.objective == "forward_kl":
            return [self._forward(start, progress) for start in starts]
        families = self._families(starts, progress)
        maxima = self._maximize(families, starts, progress)
        return [
            fit_from_approximation(
                family.approximation(maximum.params),
                self.draws,
                start.seed,
                start.optimum,
                doubt=maximum.doubt,
                trace={"elbo": maximum.trace},
            )
            for family, start, maximum in zip(families, starts, maxima, strict=True)
        ]

    # -- reverse KL -------------------------------------------------------------------------------

    def _families(self, starts: list[SVIStart], progress: bool) -> Sequence[Guide | UserGuide]:
        """A family for each fit."""
        if callable(self.guide):
            return [UserGuide(start.target, self.guide) for start in starts]
        if self.guide != "flow":
            family = GUIDES[self.guide]
            return [family(self.guide, *_frame(start.optimum, self.guide)) for start in starts]
        # A flow starts from the best Gaussian: its default start is further from the posterior.
        gaussians = [
            GaussianGuide("full_rank", *_frame(start.optimum, "full_rank")) for start in starts
        ]
        maxima = SVI(steps=self.steps)._maximize(gaussians, starts, progress)
        best = [q.gaussian(m.params) for q, m in zip(gaussians, maxima, strict=True)]
        return [AutoGuide("flow", jnp.asarray(q.means[0]), jnp.asarray(q.trils[0])) for q in best]

    def _maximize(
        self, families: Sequence[Guide | UserGuide], starts: list[SVIStart], progress: bool
    ) -> list[MaximizedELBO]:
        """Maximise the ELBO of each family."""
        targets, seeds = [start.target for start in starts], [start.seed for start in starts]
        rates = self._rates(targets[0].size)
        return maximize_elbo(families, targets, seeds, self.gradient, rates, self.steps, progress)

    def _rates(self, d: int) -> list[float]:
        """Learning rates of Adam, each used until the ELBO stops rising.

        A flow has hundreds of weights and takes smaller steps. So does a full Cholesky factor of
        more than 24 coordinates: a step of Adam changes each of its d^2/2 entries, and the norm of
        the total change should not grow with d.
        """
        slower = min(1.0, 24 / d) if self.guide == "full_rank" else 1.0
        rates = (0.01, 0.003, 0.001) if self.guide == "flow" else (0.05, 0.015, 0.005)
        return [slower * rate for rate in rates]

    # -- forward KL -------------------------------------------------------------------------------

    def _forward(self, start: SVIStart, progress: bool) -> Fit:
        """The Gaussian with the moments of the posterior."""
        (target, seed, optimum), rounds = start, 3
        with Progress("SVI", rounds + 1, progress) as bar:
            q = proposal_around_modes(optimum, 5.0)
            rng = np.random.default_rng(seed)
            _, sample, weights, _ = adapt_proposal(q, target, 2 * self.draws, rounds, rng, bar)
        mean, covariance = weighted_moments(sample.z, weights.normal)
        if self.guide == "mean_field":
            covariance = np.diag(np.diag(covariance))
        q = Elliptical.at_mean(mean, robust_cholesky(covariance))
        problem = None
        if is_useless(weights):
            problem = (
                f"The moments rest on too few effective draws ({weights.ess:.0f}, k-hat "
                f"{weights.khat:.2g}). Take objective='reverse_kl' or method='nuts'."
            )
        return fit_from_approximation(q, self.draws, seed, optimum, problem)


def _frame(optimum: Optimum, guide: str) -> tuple[jax.Array, jax.Array]:
    """Centre and A of a guide, z = centre + A u: a valid mode and its sds, or 0 and unit sds."""
    d = len(optimum.z)
    tril, repaired = optimum.inverse_root
    if repaired or not optimum.converged:
        return jnp.zeros(d), jnp.eye(d)
    if guide in ("mean_field", "low_rank"):
        # The best diagonal Gaussian has the conditional sds.
        tril = np.diag(1.0 / np.sqrt(np.diag(optimum.hessian)))
    return jnp.asarray(optimum.z), jnp.asarray(tril)
