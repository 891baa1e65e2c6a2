"""The verdict on draws from several regions, each by its share of the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.assessment.convergence import (
    advice_if_not_finite,
    step_evidence,
    verdict_on_chains,
    worst_convergence,
)
from bayeskern.inference.assessment.density_tail import density_tail
from bayeskern.inference.assessment.divergences import divergence_evidence
from bayeskern.inference.assessment.mcmc import Parts, joined, unvisited
from bayeskern.inference.assessment.tails import heavy_tail_advice
from bayeskern.inference.model.evaluation import constrain
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.result import Region
from bayeskern.inference.verdict import Trust

# The most, in sds, that errors of the shares of regions may move a mean by: two standard errors.
MOST_MOVED = 0.25


def assess_regions(
    posterior,
    regions: Sequence[Region],
    stats: Sequence[dict],
    exchanges: Exchanges,
    left: int = 0,
    seen: dict | None = None,
) -> Trust:
    """Assess draws that were taken from each of several regions by its share.

    The chains of a region are judged by themselves, in unconstrained coordinates; stats: their
    sample statistics, region by region; exchanges: members that can change places, which the
    regions have in one order, the draws in any; left: places that a search found and that were not
    visited; seen: further evidence.
    """
    names, flat = scalar_columns(posterior.flat)
    shares = np.array([region.share.value for region in regions])
    coordinates = posterior.fitted_target.coordinates
    each = [worst_convergence(coordinates, region.z) for region in regions]
    worst = int(np.argmax([np.nan_to_num(e["rhat"], nan=np.inf) for e in each]))
    evidence = {key: each[worst][key] for key in ("rhat", "rhat_at")}
    for part in ("ess_bulk", "ess_tail"):
        ess = np.array([e[part] for e in each])
        evidence[part] = float(1.0 / np.sum(np.square(shares) / ess))
        evidence[f"{part}_at"] = each[int(np.argmax(np.square(shares) / ess))][f"{part}_at"]
    evidence |= step_evidence(stats) | divergence_evidence(posterior) | (seen or {})
    evidence |= {
        "regions": len(regions),
        "shares": ", ".join(f"{share:.2g}" for share in shares),
        "share_error": float(max(region.share.error for region in regions)),
    }
    broken = advice_if_not_finite(names, flat.reshape(*posterior.z.shape[:2], -1))
    if broken:
        return Trust("bad", broken, evidence)
    total = sum(region.z.shape[0] * region.z.shape[1] for region in regions)
    at = coordinates.index(evidence["rhat_at"])
    verdict = verdict_on_chains(evidence, regions[worst].z[..., at], total)
    moved, name = _moved(posterior, regions)
    evidence["mean_moved"], evidence["mean_moved_at"] = moved, name
    if left:
        evidence["places_left"] = left
    if verdict.verdict != "bad" and left:
        return Trust("bad", unvisited(left), evidence)
    if verdict.verdict == "good" and not 2.0 * moved < MOST_MOVED:
        uncertain = (
            f"The shares of the {len(regions)} places ({evidence['shares']}) are uncertain by "
            f"{evidence['share_error']:.2g}, so that the mean of {name} is by {moved:.2g} sd: take "
            "more draws."
        )
        return Trust("caution", uncertain, evidence)
    x = flat.reshape(len(flat), -1)
    tail = heavy_tail_advice(
        names,
        x,
        evidence,
        min(1.0, evidence["ess_tail"] / len(x)),
        partial(density_tail, posterior),
    )
    if verdict.verdict == "good" and tail:
        return Trust("caution", tail, evidence)
    if verdict.verdict == "good":
        return Trust("good", _good(evidence["shares"], len(regions), exchanges), evidence)
    return verdict


def assess_one_order(
    posterior,
    regions: Sequence[Region],
    stats: dict,
    exchanges: Exchanges,
    left: int,
    seen: dict,
) -> Trust:
    """Assess chains that stay in one order of members that can change places, or in few orders.

    Sorted, the chains may agree all the same: caution then, with what else is wrong. R-hat and
    effective draws in the evidence are those of the chains as they ran. stats: of the chains; the
    rest as in `assess_regions`.
    """
    trust = assess_regions(posterior, regions, [stats], exchanges, left, seen)
    as_they_ran = worst_convergence(posterior.fitted_target.coordinates, posterior.z)
    evidence = trust.evidence | {"rhat_sorted": trust.evidence["rhat"]} | as_they_ran
    if trust.verdict == "bad":
        return replace(trust, evidence=evidence)
    advice = (
        f"The {exchanges} can change places without a change of the density, and the chains do not "
        "take every order: use what does not depend on the order, such as predictions, or take "
        "method='importance', whose draws take every order alike."
    )
    advice += "" if trust.verdict == "good" else f" {trust.advice}"
    return Trust("caution", advice, evidence)


def _good(shares: str, count: int, exchanges: Exchanges) -> str:
    """Advice on draws that can be used."""
    says = "The chains agree"
    if count > 1:
        says = (
            f"The chains of each of the {count} places agree, and the draws come from each by its "
            f"share ({shares})"
        )
    if exchanges:
        says += f", and the {exchanges}, which can change places, are in every order"
    return f"{says}: means, sds and quantiles can be used."


def _moved(posterior, regions) -> tuple[float, str]:
    """How far errors of the shares move a mean, in its sds, at the worst, and where."""
    target = posterior.fitted_target
    draws = [scalar_columns(joined(constrain(target, region.z))) for region in regions]
    names, errors = draws[0][0], np.array([region.share.error for region in regions])
    parts = Parts.of([x for _, x in draws], [region.share.value for region in regions])
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = np.sqrt(np.square(errors) @ np.square(parts.means - parts.mean)) / parts.sd
    moved = np.where(parts.sd > 0, moved, 0.0)
    at = int(np.argmax(np.where(np.isnan(moved), np.inf, moved)))
    return float(moved[at]), names[at]
