"""Verdict on particles: agreement of islands, independent draws, and modes left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.approximation.proposals import Approximation, Sample
from bayeskern.inference.approximation.psis import pareto_smooth, weighted_difference
from bayeskern.inference.assessment.approximation import (
    MAX_WEIGHTED_DRAWS,
    Difference,
    difference_verdict,
    differences_evidence,
    is_reliable,
    missed_advice,
    with_places,
)
from bayeskern.inference.assessment.clusters import effective_sizes
from bayeskern.inference.assessment.convergence import (
    GOOD_ESS,
    USABLE_ESS,
    advice_if_not_finite,
    advice_if_running_away,
    varies,
)
from bayeskern.inference.assessment.mcmc import MAX_MISSING_SHARE
from bayeskern.inference.assessment.overdispersed import OverdispersedSample, overdispersed_sample
from bayeskern.inference.assessment.tails import heavy_tail_caution
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.result import ANCESTOR, ISLAND, Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust, effective, worst_entry

# Upper limit of the change of a mean, in sds, or of a log sd by the moves at the last temperature.
MAX_DRIFT = 0.1
# Such a change at and above which the posterior may have no integral.
BAD_DRIFT = 0.5


@dataclass(frozen=True, eq=False)
class ParticleAssessment:
    """Assessment of particles, by the moves of their sampler and its start distribution.

    Attributes:
        acceptance: Mean acceptance probability at the last temperature.
        unmoved: Share of the particles that did not move at the last temperature.
        exhausted: True if the moves at the last temperature ended at their maximum number.
        origin: Each draw before these moves, in unconstrained coordinates, (S, d).
        temperature: The last temperature; 1 if the posterior was reached.
        temperatures: Number of temperatures.
        evaluations: Number of gradients of the log density, over all particles.
        log_evidence: Log marginal likelihood, up to a constant if the prior is improper.
        start: The start distribution.
        first: Draws of the start distribution, with their densities.
    """

    acceptance: float
    unmoved: float
    exhausted: bool
    origin: np.ndarray
    temperature: float
    temperatures: int
    evaluations: int
    log_evidence: Estimate
    start: Approximation
    first: Sample

    def __call__(self, posterior: Fit) -> Trust:
        """Verdict on equally weighted draws of a particle sampler, over all sites.

        Good particles meet the condition for good chains: 400 effective draws of every number in
        bulk and tails. With K islands, R-hat of their means is about sqrt(1 + K / ESS), so that
        R-hat below 1.01 for eight islands is the same condition. Weighted draws of the start
        distribution, of a wider Student t and of the prior must agree with the particles wherever
        their weights are reliable.
        """
        names, x = scalar_columns(posterior.flat)
        varying, log_evidence = varies(x[None]), self.log_evidence
        evidence = _convergence(posterior, names, x, varying) | {
            "ancestors": len(np.unique(posterior.sample_stats[ANCESTOR])),
            "log_evidence_error": log_evidence.error,
            "acceptance": self.acceptance,
            "unmoved": self.unmoved,
            "temperatures": self.temperatures,
            "gradients": self.evaluations,
            "constants_left_out": int(np.sum(~varying)),
        }
        missed = missed_modes(posterior, self.first, log_evidence.value)
        evidence["modes_missed"] = len(missed)
        if posterior.optimum is not None:
            evidence |= posterior.optimum.search_evidence
        broken = (
            advice_if_not_finite(names, x[None])
            or advice_if_running_away(posterior.fitted_target.coordinates, posterior.z)
            or self._unfinished()
            or (missed_advice(len(missed)) if missed else None)
        )
        if broken:
            return Trust("bad", broken, evidence)
        drift = self._drift(posterior, evidence)
        wider, reliable = self._compare(posterior, evidence)
        efficiency = min(1.0, evidence["ess_tail"] / len(x))
        tail = heavy_tail_caution(posterior, names, x, evidence, efficiency)
        different = difference_verdict(evidence) if reliable else None
        good = Trust(
            "good",
            "The islands of particles agree, and so do weighted draws from a wider distribution: "
            "means, sds and quantiles can be used.",
        )
        problems = [
            p for p in (drift, different, _particle_problem(evidence), tail) if p is not None
        ]
        # `min` returns the first bad verdict or, without a bad verdict, the first caution.
        trust = min(problems, key=lambda problem: problem.verdict != "bad", default=good)
        return with_places(replace(trust, evidence=evidence), posterior, wider)

    def _unfinished(self) -> str | None:
        if self.temperature == 1.0:
            return None
        return (
            f"The particles did not reach the posterior: after {self.temperatures} temperatures, "
            f"the temperature is {self.temperature:.2g}, not 1. The density may have no bound; "
            "give it tighter priors."
        )

    def _drift(self, posterior: Fit, evidence: dict) -> Trust | None:
        """Verdict if moves at the last temperature changed the distribution of the particles.

        Reweighted particles already have the posterior distribution, which moves do not change. If
        the density has no integral, there is no such distribution, and particles spread without
        end.
        """
        shift = weighted_difference(self.origin, posterior.z[0])
        changes = np.nan_to_num(np.maximum(shift.mean, shift.log_sd), nan=np.inf)
        evidence |= worst_entry("drift", changes, posterior.fitted_target.coordinates)
        evidence["exhausted"] = self.exhausted
        if not evidence["drift"] < MAX_DRIFT:
            advice = (
                f"The particles still spread at the posterior, most along {evidence['drift_at']}: "
                "it may have no integral, or tails that the start distribution does not reach. "
                "Give every site a proper prior, or take more particles."
            )
            verdict = "caution" if evidence["drift"] < BAD_DRIFT else "bad"
            return Trust(verdict, advice, evidence)
        if self.exhausted:
            advice = "The moves ended before the particles had moved far enough: raise max_moves."
            return Trust("caution", advice, evidence)
        return None

    def _compare(self, posterior: Fit, evidence: dict) -> tuple[OverdispersedSample, bool]:
        """A wider weighted sample, and True if its weights are reliable.

        The difference between the particles and a reliable sample is added to the evidence.
        """
        z, target = posterior.z[0], posterior.fitted_target
        names, delivered = scalar_columns(posterior.fitted_draws)
        first = Sample(*(part[:MAX_WEIGHTED_DRAWS] for part in self.first))
        count = min(len(z), MAX_WEIGHTED_DRAWS)
        wider = overdispersed_sample(target, self.start, first, z, count, posterior.progress)
        own = pareto_smooth(self.first.log_p - self.first.log_q)
        evidence |= {
            "start_khat": own.khat,
            "start_ess": own.ess,
            "wider_khat": wider.weights.khat,
            "wider_ess": wider.weights.ess,
        }
        reliable = is_reliable(wider.weights)
        if reliable:
            numbers = scalar_columns(wider.draws)[1]
            shift = weighted_difference(delivered, numbers, y_weights=wider.weights.normal)
            difference = Difference(shift, min(wider.weights.ess, evidence["ess_bulk"]))
            evidence |= differences_evidence(names, wider.weights, [difference])
        return wider, reliable


def _convergence(posterior: Fit, names: list[str], x: np.ndarray, varying: np.ndarray) -> dict:
    """Smallest effective sample sizes of the numbers and of the log density, with their names.

    The log density reveals wrong shares of mixture components with one mean and different widths.
    """
    lp, ancestors, islands = (posterior.sample_stats[k][0] for k in ("lp", ANCESTOR, ISLAND))
    columns = [*(n for n, v in zip(names, varying, strict=True) if v), "log density"]
    numbers = np.column_stack([x[:, varying], lp])
    if not np.all(np.isfinite(numbers)):
        return {"ess_bulk": 0.0, "ess_bulk_at": names[0], "ess_tail": 0.0, "ess_tail_at": names[0]}
    bulk, tail = effective_sizes(numbers, ancestors, islands)
    return worst_entry("ess_bulk", bulk, columns, smallest=True) | worst_entry(
        "ess_tail", tail, columns, smallest=True
    )


# Upper limit of the standard error of the log marginal likelihood; with a larger error the shares
# of islands are uncertain.
MAX_LOG_EVIDENCE_ERROR = 0.5
# Such an error at and above which particles are bad.
BAD_LOG_EVIDENCE_ERROR = 1.0
# Upper limit of the share of particles that did not move at the last temperature, and lower limit
# of the mean acceptance probability there, for good particles.
MAX_UNMOVED_SHARE, MIN_ACCEPTANCE = 0.1, 0.4


def _particle_problem(e: dict) -> Trust | None:
    """Verdict if the particles are too few, too dependent or did not move."""
    part = "bulk" if e["ess_bulk"] <= e["ess_tail"] else "tail"
    size, name = e[f"ess_{part}"], e[f"ess_{part}_at"]
    error = e["log_evidence_error"]
    # Comparisons are written so that NaN fails them.
    if not (size >= GOOD_ESS and error < MAX_LOG_EVIDENCE_ERROR):
        usable = size >= USABLE_ESS and error < BAD_LOG_EVIDENCE_ERROR
        advice = (
            f"The islands of particles disagree, or few particles are independent: "
            f"{effective(size)} in the {part} of {name}, log marginal likelihood ± {error:.2g}. "
            "Take more particles, or method='nuts' where there is one mode."
        )
        return Trust("caution" if usable else "bad", advice, e)
    if not (e["unmoved"] < MAX_UNMOVED_SHARE and e["acceptance"] > MIN_ACCEPTANCE):
        advice = (
            f"{100.0 * e['unmoved']:.0f} % of the particles did not move at the last temperature "
            f"(acceptance {e['acceptance']:.2g}), so that details may be missing: raise max_moves, "
            "or take more particles."
        )
        return Trust("caution", advice, e)
    return None


# -- modes without particles -----------------------------------------------------------------------


def missed_modes(posterior: Fit, first: Sample, log_evidence: float) -> list[Optimum]:
    """Modes found by a search that the draws do not reach.

    A mode outside the draws is missed unless weighted draws show that its mass is negligible, as in
    a neck, which has a high mode without mass. A mode with few draws nearby is missed if weighted
    draws or, where these are few, Laplace's method predict many; such modes count if their shares
    sum to MAX_MISSING_SHARE or more.

    Args:
        posterior: Draws, with the search of their fit and the findings of earlier fits.
        first: Draws of a start distribution that covers the modes, with their densities.
        log_evidence: Log marginal likelihood.

    Returns:
        The missed modes.
    """
    z, optimum = posterior.z[0], posterior.optimum
    outside = posterior.findings.missed(posterior.fitted_target.coordinates, z)
    own = () if optimum is None else (optimum, *optimum.others)
    known = [mode for mode in outside if not any(mode is other for other in own)]
    missed, sparse = [], []
    for mode in (*own, *known):
        share = _share_near(mode, first, log_evidence)
        min_share = share.value - 2.0 * share.error
        if np.isnan(share.value):
            min_share = np.exp(min(mode.log_evidence - log_evidence, 0.0))
        # An unknown share, NaN, is not negligible.
        if any(mode is other for other in outside):
            if not share.value + 2.0 * share.error < MAX_MISSING_SHARE:
                missed.append(mode)
        # Fewer than ten expected draws may all be missing by chance.
        elif min_share * len(z) >= 10.0 and np.mean(_is_near(mode, z)) < 0.2 * min_share:
            sparse.append((mode, min_share))
    if sum(min_share for _, min_share in sparse) >= MAX_MISSING_SHARE:
        missed += [mode for mode, _ in sparse]
    return missed


def _is_near(mode: Optimum, z: np.ndarray) -> np.ndarray:
    """True for each of z (n, d) in the ellipsoid of a mode with 99 % of its normal draws: (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = mode.squared_distances(z)
    return square < chdtri(len(mode.z), 0.01)


def _share_near(mode: Optimum, first: Sample, log_evidence: float) -> Estimate:
    """Share of the posterior near a mode, by weighted draws of the start distribution.

    The mean, over draws of q0, of p / (Z q0) near the mode and 0 elsewhere; NaN if fewer than 20
    draws are near the mode.
    """
    near = _is_near(mode, first.z)
    if near.sum() < 20:
        return Estimate(np.nan, np.nan)
    with np.errstate(over="ignore"):
        weights = np.where(near, np.exp(first.log_p - first.log_q - log_evidence), 0.0)
    return Estimate(float(np.mean(weights)), float(np.std(weights) / np.sqrt(len(weights))))
