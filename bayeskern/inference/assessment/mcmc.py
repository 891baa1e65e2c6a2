"""Verdict on Markov chains: their agreement, and the mass of regions without a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.assessment.convergence import (
    GOOD_ESS,
    GOOD_RHAT,
    advice_if_not_finite,
    advice_if_running_away,
    advice_if_stuck,
    divergence_evidence,
    step_evidence,
    varies,
    verdict_on_chains,
    worst_convergence,
)
from bayeskern.inference.assessment.tails import heavy_tail_caution
from bayeskern.inference.model.evaluation import constrain, join_chains
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Explored, Fit, Region
from bayeskern.inference.verdict import Trust, worst_entry

# Share of a posterior that good draws may leave out.
MAX_MISSING_SHARE = 0.03


def assess_mcmc(posterior: Fit, explored: Explored, shares_unknown: bool = False) -> Trust:
    """Verdict on the draws of several chains, over all latent and deterministic sites.

    Constant numbers, such as the diagonal of a correlation matrix, are left out; the evidence has
    their count.

    Args:
        posterior: The draws.
        explored: Result of the search for regions.
        shares_unknown: True if shares of regions were requested and could not be estimated.

    Returns:
        The verdict.
    """
    chains, count = posterior.z.shape[:2]
    names, flat = scalar_columns(posterior.flat)
    x = flat.reshape(chains, count, -1)
    varying = varies(x)
    varying_names = [name for name, varies in zip(names, varying, strict=True) if varies]
    evidence = worst_convergence(varying_names, x[..., varying])
    evidence |= step_evidence([posterior.sample_stats]) | divergence_evidence(posterior)
    evidence["constants_left_out"] = int(np.sum(~varying))
    evidence |= explored.evidence
    broken = (
        advice_if_not_finite(names, x)
        or advice_if_running_away(posterior.fitted_target.coordinates, posterior.z)
        or advice_if_stuck(posterior.z)
    )
    if broken:
        return Trust("bad", broken, evidence)
    worst = x[..., names.index(evidence["rhat_at"])]
    trust = verdict_on_chains(evidence, worst, chains * count)
    if trust.verdict != "good":
        trust = replace(trust, advice=trust.advice + _agreement(posterior, evidence))
    missing = missing_mass(posterior, explored, evidence, shares_unknown)
    if trust.verdict == "bad":
        return trust
    if missing or trust.verdict != "good":
        return missing or trust
    efficiency = min(1.0, evidence["ess_tail"] / (chains * count))
    return heavy_tail_caution(posterior, names, flat, evidence, efficiency) or trust


def _agreement(posterior: Fit, evidence: dict) -> str:
    """Advice if chains disagree on latents and agree on deterministic sites; else "".

    This happens if latents are exchangeable, such as the hidden units of a network or the
    components of a mixture: Papamarkou, Hinkle, Young and Womble (2022), "Challenges in Markov
    chain Monte Carlo for Bayesian neural networks".
    """
    draws, target = posterior.flat, posterior.target
    names = () if target is None else target.deterministics
    computed = {name: draws[name] for name in names if name in draws and draws[name].size}
    if not computed or evidence["rhat"] < GOOD_RHAT:
        return ""
    computed_names, flat = scalar_columns(computed)
    x = flat.reshape(*posterior.z.shape[:2], -1)
    worst = worst_convergence(computed_names, x[..., varies(x)])
    # With NaN there is no agreement.
    ess = min(worst["ess_bulk"], worst["ess_tail"])
    if not (worst["rhat"] < GOOD_RHAT and ess >= GOOD_ESS):
        return ""
    evidence |= {"rhat_computed": worst["rhat"], "rhat_computed_at": worst["rhat_at"]}
    return (
        f" The chains do agree on {', '.join(computed)} (R-hat {worst['rhat']:.3g}): where latents "
        "can change places without a change of the density, as hidden units can, compare these, "
        "and predictions."
    )


def missing_mass(
    posterior: Fit, explored: Explored, evidence: dict, shares_unknown: bool = False
) -> Trust | None:
    """Verdict if much of the posterior may lie in regions without a chain; else None.

    Args:
        posterior: The draws.
        explored: As in `assess_mcmc`.
        evidence: Receives the share of these regions.
        shares_unknown: As in `assess_mcmc`.
    """
    unvisited = explored.unvisited
    others = [region for region in explored.regions if not region.chains]
    if unvisited:
        evidence["places_left"] = unvisited
    share, change, name = 0.0, 0.0, ""
    if others:
        # Shares of spikes are relative to the chains alone, and may sum to more than 1.
        share = float(np.minimum(1.0, sum(region.share.value for region in others)))
        evidence["share_elsewhere"] = share
        if share < MAX_MISSING_SHARE:
            change, name = _change(posterior, others, share)
    # A mean, in sds, or a log sd may change by up to 0.15, but not by NaN.
    if share < MAX_MISSING_SHARE and change < 0.15:
        return Trust("bad", unvisited_advice(unvisited), evidence) if unvisited else None
    largest = max(others, key=lambda region: np.nan_to_num(region.share.value, nan=-1.0))
    where = _where(posterior, largest)
    remedy = (
        "Take method='importance' or 'smc', which give each region its share of the draws, or "
        "change the model so that one region is left."
    )
    if shares_unknown:
        remedy = (
            "Its share of the posterior could not be estimated, so the draws were not weighted: "
            "take more draws, or change the model so that one region is left."
        )
    if np.isnan(share):
        unknown = f"A chain that was started elsewhere stayed there ({where}). {remedy}"
        return Trust("caution", unknown, evidence)
    advice = f"About {100.0 * share:.2g} % of the posterior lies where there are no draws ({where})"
    if share < MAX_MISSING_SHARE:
        advice += f", which changes the mean or the sd of {name} by {change:.2g} sd"
    return Trust("bad", f"{advice}. {remedy}", evidence)


class RegionMoments(NamedTuple):
    """Moments of numbers over several regions, and over the posterior that they make up.

    Attributes:
        names: Name of each number.
        means: Mean in each region, (k, m).
        mean: Mean over all regions by their shares, (m,).
        sd: Sd over all regions, (m,).
    """

    names: list[str]
    means: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    @classmethod
    def from_regions(
        cls, sites: Sequence[dict[str, np.ndarray]], shares: Sequence[float]
    ) -> RegionMoments:
        """Moments of draws of the sites in each region, each (n, *site), and its share."""
        columns = [scalar_columns(region) for region in sites]
        means = np.array([np.mean(x, axis=0) for _, x in columns])
        variances = np.array([np.var(x, axis=0) for _, x in columns])
        mean = np.array(shares) @ means
        sd = np.sqrt(np.array(shares) @ (variances + np.square(means - mean)))
        return cls(columns[0][0], means, mean, sd)


def region_draws(target: Target, region: Region) -> dict[str, np.ndarray]:
    """Sites at the draws of a region, each (n, *site)."""
    return join_chains(constrain(target, region.z))


def _change(posterior: Fit, others: list[Region], share: float) -> tuple[float, str]:
    """Largest change of a mean, in sds, or log sd by other regions, and the name of the number."""
    own = posterior.fitted_draws
    sites = [own, *(region_draws(posterior.fitted_target, region) for region in others)]
    shares = [1.0 - share, *(region.share.value for region in others)]
    moments = RegionMoments.from_regions(sites, shares)
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.abs(moments.means[0] - moments.mean) / moments.sd
        log_ratio = np.log(moments.sd / np.std(scalar_columns(own)[1], axis=0))
    change = np.nan_to_num(np.maximum(shift, log_ratio), nan=np.inf)
    change = np.where(moments.sd > 0.0, change, 0.0)
    largest = int(np.argmax(change))
    return float(change[largest]), moments.names[largest]


def unvisited_advice(count: int) -> str:
    """Advice if a search found points that no chain visited."""
    points = counted(
        count,
        "more point that no chain came near and that was not visited",
        "more points that no chain came near and that were not visited",
    )
    return (
        f"A search or an earlier fit found {points}: how much of the posterior lies there is not "
        "known. Take more chains, or method='smc'."
    )


def _where(posterior: Fit, region: Region) -> str:
    """The number that separates a region best from the draws, and its means in both."""
    names, own = scalar_columns(posterior.fitted_draws)
    other = scalar_columns(region_draws(posterior.fitted_target, region))[1]
    means = np.mean(other, axis=0), np.mean(own, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.abs(means[0] - means[1]) / np.sqrt(
            np.var(other, axis=0) + np.var(own, axis=0)
        )
    i = int(np.argmax(np.nan_to_num(distance)))
    return f"{names[i]} about {means[0][i]:.3g} there, {means[1][i]:.3g} in these draws"


def regions_mean_error(posterior: Fit, regions: Sequence[Region]) -> dict:
    """Largest error of a mean, in sds, due to errors of the shares of regions."""
    sites = [region_draws(posterior.fitted_target, region) for region in regions]
    errors = np.array([region.share.error for region in regions])
    moments = RegionMoments.from_regions(sites, [region.share.value for region in regions])
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.square(errors) @ np.square(moments.means - moments.mean))
        errors_in_sds = np.where(moments.sd > 0, spread / moments.sd, 0.0)
    return worst_entry("mean_moved", errors_in_sds, moments.names)
