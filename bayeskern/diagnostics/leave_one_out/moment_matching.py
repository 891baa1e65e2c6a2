"""Leave-one-out by moment matching, for observations too influential for PSIS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.batching import batch_size, evenly
from bayeskern.diagnostics.leave_one_out.estimates import LeftOut, log_mean
from bayeskern.inference import Posterior, Target
from bayeskern.inference.approximation.moment_matching import Matched, Proposal, match_moments
from bayeskern.inference.approximation.proposals import Evaluable
from bayeskern.inference.approximation.psis import pareto_smooth
from bayeskern.inference.model.evaluation import constrain, join_chains, log_densities
from bayeskern.inference.posterior.log_likelihood import masks_of, powers_of, site_densities
from bayeskern.inference.posterior.predictive import at_each
from bayeskern.protocols import HasLogLikelihood


@dataclass(frozen=True, eq=False)
class Observation:
    """One observation of a model, in unconstrained coordinates.

    Attributes:
        target: The model and its data.
        site: Name of its site.
        index: Its index in the site, flattened; masked observations count.
        batch: Number of draws that are evaluated at once; None for one draw.
        power: Power of its likelihood in the posterior, as under `numpyro.handlers.scale`.
    """

    target: Target
    site: str
    index: int
    batch: int | None
    power: float = 1.0

    def densities(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(z) of the posterior, and log p(y_i | z), at z (S, d): each (S,)."""
        if isinstance(self.target.model, HasLogLikelihood):
            draws = join_chains(constrain(self.target, z[None]))
            return log_densities(self.target, z), self._from_model(draws)
        function = eqx.Partial(_densities, self.target, np.asarray(self.index), site=self.site)
        return at_each(function, (z,), 2, self.batch)

    def _from_model(self, draws: dict[str, np.ndarray]) -> np.ndarray:
        values = self.target.model.pointwise(draws, *self.target.args, **self.target.kwargs)
        values = values[self.site] if isinstance(values, dict) else values
        return np.asarray(values).reshape(len(values), -1)[:, self.index]


def _densities(
    target: Target, index: jax.Array, z: jax.Array, *, site: str
) -> tuple[jax.Array, jax.Array]:
    values = target.constrain(z)
    draw = {s.name: values[s.name] for s in target.latents}
    return target.log_density(z), site_densities(target, draw)[site][0].reshape(-1)[index]


@dataclass(frozen=True, eq=False)
class Matching:
    """Draws of a posterior, to be matched to the posterior without one observation.

    Attributes:
        target: The model and its data.
        proposal: The draws.
        masks: Masks of the observed sites; None for a site without masked values.
        powers: Powers of unmasked observations under `numpyro.handlers.scale`, by site.
        batch: Number of draws that are evaluated at once; None for one draw.
    """

    target: Target
    proposal: Proposal
    masks: dict[str, np.ndarray | None]
    powers: dict[str, np.ndarray]
    batch: int | None

    @classmethod
    def from_posterior(cls, posterior: Posterior, count: int, efficiency: float) -> Matching | None:
        """Draws of a posterior with its model; None if it has no latents.

        Args:
            posterior: The posterior.
            count: Number of evenly spaced draws of each chain, as in its log likelihood.
            efficiency: Effective draws per draw.
        """
        target = posterior.known_target
        if not target.latents:
            return None
        has_log_likelihood = isinstance(target.model, HasLogLikelihood)
        sites = target.sites().values()
        size = sum(int(np.prod(site.shape)) for site in sites if site.kind == "observed")
        return cls(
            target,
            as_proposal(posterior, count, efficiency),
            {} if has_log_likelihood else masks_of(posterior),
            powers_of(posterior),
            None if any(site.conditional for site in sites) else batch_size(size),
        )

    def observation(self, site: str, row: int) -> Observation:
        """The observation with an index among the unmasked observations of a site."""
        mask = self.masks.get(site)
        index = row if mask is None else int(np.flatnonzero(mask)[row])
        powers = self.powers.get(site)
        power = 1.0 if powers is None else float(powers.flat[row])
        return Observation(self.target, site, index, self.batch, power)

    def leave_out(self, observation: Observation) -> LeftOut:
        """Estimate log p(y_i | others) by draws moved towards the posterior without y_i."""

        def log_target(z: np.ndarray) -> np.ndarray:
            log_p, log_likelihood = observation.densities(z)
            # Where both are -inf, the density without this observation is unknown: NaN, which
            # rejects the step.
            with np.errstate(invalid="ignore"):
                return log_p - observation.power * log_likelihood

        matched = match_moments(self.proposal, log_target)
        log_likelihood = observation.densities(matched.z)[1]
        return left_out(matched, matched.weights.raw, log_likelihood, self.proposal.efficiency)


def as_proposal(posterior: Posterior, count: int, efficiency: float) -> Proposal:
    """Draws of a posterior in unconstrained coordinates, and their log density.

    Draws of an approximation whose density is unknown beyond the draws (after loading a file, or
    with latents integrated out) count as draws of the posterior, as in PSIS.

    Args:
        posterior: The posterior, with its model.
        count: Number of evenly spaced draws of each chain.
        efficiency: Effective draws per draw.
    """
    target = posterior.known_target
    rows = evenly(posterior.shape[1], count)
    draws = join_chains({s.name: posterior.draws[s.name][:, rows] for s in target.latents})
    z = at_each(eqx.Partial(_unconstrain, target), (draws,), target.size, batch_size(1))
    log_p, log_ratios, q = log_densities(target, z), posterior.log_ratios, posterior.approximation
    if log_ratios is None or posterior.marginalized is not None or not isinstance(q, Evaluable):
        return Proposal(z, log_p, partial(log_densities, target), efficiency)
    return Proposal(z, log_p - log_ratios[rows], q.log_density, efficiency)


def left_out(
    matched: Matched, log_ratios: np.ndarray, log_likelihood: np.ndarray, efficiency: float
) -> LeftOut:
    """Estimate log p(y_i | others), the log of a weighted mean of p(y_i | draw).

    Args:
        matched: Draws matched to the posterior with or without y_i.
        log_ratios: Log density of the posterior without y_i over the density of the draws, (S,).
        log_likelihood: log p(y_i | draw), (S,).
        efficiency: Effective draws per draw.
    """
    weights = pareto_smooth(log_ratios, efficiency)
    elpd, error = log_mean(weights.log, log_likelihood, efficiency)
    # Weights of the posterior without y_i and weights of the posterior with y_i must both be
    # reliable.
    with_observation = pareto_smooth(log_ratios + log_likelihood, efficiency)
    khat = np.max([matched.khat, weights.khat, with_observation.khat])
    return LeftOut(float(elpd), float(khat), float(error))


def _unconstrain(target: Target, draw: dict) -> jax.Array:
    return target.unconstrain(draw)[0]
