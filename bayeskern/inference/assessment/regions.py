"""Verdict on draws from several regions, in proportion to their shares of the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.assessment.convergence import (
    advice_if_not_finite,
    divergence_evidence,
    step_evidence,
    verdict_on_chains,
    worst_convergence,
)
from bayeskern.inference.assessment.mcmc import assess_mcmc, regions_mean_error, unvisited_advice
from bayeskern.inference.assessment.tails import heavy_tail_caution
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.result import Explored, Fit
from bayeskern.inference.verdict import Trust


@dataclass(frozen=True, eq=False)
class ChainAssessment:
    """Assessment of chains as they ran.

    Attributes:
        explored: Result of the search for regions.
        shares_unknown: True if shares of regions were requested and could not be estimated.
    """

    explored: Explored
    shares_unknown: bool = False

    def __call__(self, posterior: Fit) -> Trust:
        """Verdict on the chains, with exchangeable members sorted if they stay in one order."""
        if self.explored.in_one_order and len(self.explored.regions) == 1:
            return assess_one_order(posterior, self.explored)
        return assess_mcmc(posterior, self.explored, self.shares_unknown)


@dataclass(frozen=True, eq=False)
class RegionAssessment:
    """Assessment of draws from several regions, in proportion to their shares.

    Attributes:
        explored: The regions.
        stats: Sample statistics of the chains of each region.
    """

    explored: Explored
    stats: Sequence[dict[str, np.ndarray]]

    def __call__(self, posterior: Fit) -> Trust:
        """Verdict on the draws."""
        return assess_regions(posterior, self.explored, self.stats)


def assess_regions(
    posterior: Fit, explored: Explored, stats: Sequence[dict[str, np.ndarray]]
) -> Trust:
    """Verdict on draws from several regions, in proportion to their shares.

    The chains of each region are judged separately, in unconstrained coordinates. Exchangeable
    members are in random order in the draws.

    Args:
        posterior: The draws.
        explored: The regions.
        stats: Sample statistics of the chains of each region.

    Returns:
        The verdict.
    """
    regions, unvisited = explored.regions, explored.unvisited
    names, flat = scalar_columns(posterior.flat)
    shares = np.array([region.share.value for region in regions])
    coordinates = posterior.fitted_target.coordinates
    convergence = [worst_convergence(coordinates, region.z) for region in regions]
    worst = int(np.argmax([np.nan_to_num(c["rhat"], nan=np.inf) for c in convergence]))
    evidence = {key: convergence[worst][key] for key in ("rhat", "rhat_at")}
    for part in ("ess_bulk", "ess_tail"):
        # 1 / ESS = sum_k share_k^2 / ESS_k, as for a stratified sample.
        variances = np.square(shares) / np.array([c[part] for c in convergence])
        evidence[part] = float(1.0 / np.sum(variances))
        evidence[f"{part}_at"] = convergence[int(np.argmax(variances))][f"{part}_at"]
    evidence |= step_evidence(stats) | divergence_evidence(posterior) | explored.evidence
    evidence |= {
        "regions": len(regions),
        "shares": ", ".join(f"{share:.2g}" for share in shares),
        "share_error": float(max(region.share.error for region in regions)),
    }
    broken = advice_if_not_finite(names, flat.reshape(*posterior.z.shape[:2], -1))
    if broken:
        return Trust("bad", broken, evidence)
    total = sum(region.z.shape[0] * region.z.shape[1] for region in regions)
    column = coordinates.index(evidence["rhat_at"])
    trust = verdict_on_chains(evidence, regions[worst].z[..., column], total)
    evidence |= regions_mean_error(posterior, regions)
    if unvisited:
        evidence["places_left"] = unvisited
        if trust.verdict != "bad":
            return Trust("bad", unvisited_advice(unvisited), evidence)
    if trust.verdict != "good":
        return trust
    # Two standard errors of a mean may reach a quarter of an sd.
    error = evidence["mean_moved"]
    if not 2.0 * error < 0.25:
        uncertain = (
            f"The shares of the {len(regions)} regions ({evidence['shares']}) are uncertain by "
            f"{evidence['share_error']:.2g}, which makes the mean of {evidence['mean_moved_at']} "
            f"uncertain by {error:.2g} sd: take more draws."
        )
        return Trust("caution", uncertain, evidence)
    efficiency = min(1.0, evidence["ess_tail"] / len(flat))
    good = Trust(
        "good", _good_advice(evidence["shares"], len(regions), explored.exchanges), evidence
    )
    return heavy_tail_caution(posterior, names, flat, evidence, efficiency) or good


def assess_one_order(posterior: Fit, explored: Explored) -> Trust:
    """Verdict on chains that stay in one or a few orders of exchangeable members.

    The sorted chains may still agree. The verdict is caution then, together with the advice on any
    other problem. R-hat and effective draws in the evidence belong to the unsorted chains.

    Args:
        posterior: The chains.
        explored: Result of the search for regions.

    Returns:
        The verdict.
    """
    trust = assess_regions(posterior, explored, [posterior.sample_stats])
    unsorted = worst_convergence(posterior.fitted_target.coordinates, posterior.z)
    evidence = trust.evidence | {"rhat_sorted": trust.evidence["rhat"]} | unsorted
    if trust.verdict == "bad":
        return replace(trust, evidence=evidence)
    advice = (
        f"The {explored.exchanges} can change places without a change of the density, and the "
        "chains do not visit every order: use only results that do not depend on the order, such "
        "as predictions, or take method='importance', whose draws have all orders equally often."
    )
    advice += "" if trust.verdict == "good" else f" {trust.advice}"
    return Trust("caution", advice, evidence)


def _good_advice(shares: str, count: int, exchanges: Exchanges) -> str:
    advice = "The chains agree"
    if count > 1:
        advice = (
            f"The chains of each of the {count} regions agree, and each region has its share of "
            f"the draws ({shares})"
        )
    if exchanges:
        advice += f", and the {exchanges}, which can change places, are in every order"
    return f"{advice}: means, sds and quantiles can be used."
