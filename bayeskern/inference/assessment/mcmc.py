"""The verdict on Markov chains: do they agree, and does the posterior lie where they are?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.assessment.convergence import (
    ESS,
    RHAT,
    advice_if_not_finite,
    advice_if_running_away,
    advice_if_stuck,
    step_evidence,
    varies,
    verdict_on_chains,
    worst_convergence,
)
from bayeskern.inference.assessment.density_tail import density_tail
from bayeskern.inference.assessment.divergences import divergence_evidence
from bayeskern.inference.assessment.tails import heavy_tail_advice
from bayeskern.inference.model.evaluation import constrain
from bayeskern.inference.result import Region
from bayeskern.inference.verdict import Trust

# The share of a posterior that may lie where no chain is, and the change of a mean in sds, or of a
# log sd, that it may make.
MISSING, MAX_CHANGE = 0.03, 0.15


def assess_mcmc(
    posterior,
    regions: Sequence[Region] = (),
    left: int = 0,
    seen: dict | None = None,
    in_vain: bool = False,
) -> Trust:
    """Assess the draws of several chains, over all latent and deterministic sites.

    Numbers that are the same in all draws, such as the diagonal of a correlation matrix, are left
    out, and counted in the evidence.

    regions: where the chains are, and where a search has found other places; left: how many places
    that it found were not looked at; seen: further evidence; in_vain: whether regions were to be
    weighed, and could not be.
    """
    chains, count = posterior.z.shape[:2]
    names, flat = scalar_columns(posterior.flat)
    x = flat.reshape(chains, count, -1)
    varying = varies(x)
    varying_names = [name for name, varies in zip(names, varying, strict=True) if varies]
    evidence = worst_convergence(varying_names, x[..., varying])
    evidence |= step_evidence([posterior.sample_stats]) | divergence_evidence(posterior)
    evidence["constants_left_out"] = int(np.sum(~varying))
    evidence |= seen or {}
    broken = (
        advice_if_not_finite(names, x)
        or advice_if_running_away(posterior.fitted_target.coordinates, posterior.z)
        or advice_if_stuck(posterior.z)
    )
    if broken:
        return Trust("bad", broken, evidence)
    worst = x[..., names.index(evidence["rhat_at"])]
    verdict = verdict_on_chains(evidence, worst, chains * count)
    if verdict.verdict != "good":
        verdict = replace(verdict, advice=verdict.advice + _agreed(posterior, evidence))
    missing = _missing(posterior, regions, left, evidence, in_vain)
    if missing and verdict.verdict != "bad":
        return missing
    if verdict.verdict != "good":
        return verdict
    efficiency = min(1.0, evidence["ess_tail"] / (chains * count))
    flat = x.reshape(chains * count, -1)
    tail = heavy_tail_advice(names, flat, evidence, efficiency, partial(density_tail, posterior))
    return Trust("caution", tail, evidence) if tail else verdict


def _agreed(posterior, evidence) -> str:
    """What to add where the chains disagree on latents but not on what is computed from them.

    So it is where latents can change places, as the hidden units of a network or the components of
    a mixture do: Papamarkou, Hinkle, Young and Womble (2022), "Challenges in Markov chain Monte
    Carlo for Bayesian neural networks".
    """
    draws, names = posterior.flat, posterior.target.deterministics
    computed = {name: draws[name] for name in names if name in draws and draws[name].size}
    if not computed or evidence["rhat"] < RHAT:
        return ""
    names, flat = scalar_columns(computed)
    x = flat.reshape(*posterior.z.shape[:2], -1)
    found = worst_convergence(names, x[..., varies(x)])
    # Written so that NaN is no agreement.
    if not (found["rhat"] < RHAT and min(found["ess_bulk"], found["ess_tail"]) >= ESS):
        return ""
    evidence["rhat_computed"], evidence["rhat_computed_at"] = found["rhat"], found["rhat_at"]
    return (
        f" The chains do agree on {', '.join(computed)} (R-hat {found['rhat']:.3g}): where latents "
        "can change places without a change of the density, as hidden units can, compare these, "
        "and predictions."
    )


def _missing(posterior, regions, left: int, evidence, in_vain: bool) -> Trust | None:
    """What is wrong where much of the posterior may lie where no chain is."""
    others = [region for region in regions if not region.chains]
    if left:
        evidence["places_left"] = left
    if others:
        share = sum(region.share.value for region in others)
        evidence["share_elsewhere"] = float(share)
    changed, at = _changed(posterior, others, share) if others and share < MISSING else (0.0, "")
    # Written so that NaN is not below.
    if others and not (share < MISSING and changed < MAX_CHANGE):
        most = max(others, key=lambda region: np.nan_to_num(region.share.value, nan=-1.0))
        where = _where(posterior, most)
        remedy = (
            "Take method='importance' or 'smc', which draw from each place by its share, or change "
            "the model so that one place is left."
        )
        if in_vain:
            remedy = (
                "Its share of the posterior could not be estimated, so that nothing was weighed: "
                "take more draws, or change the model so that one place is left."
            )
        if np.isnan(share):
            unknown = f"A chain that was started elsewhere stayed there ({where}). {remedy}"
            return Trust("caution", unknown, evidence)
        lies = f"About {100.0 * share:.2g} % of the posterior lies where no chain is ({where})"
        if share < MISSING:
            lies += f", which changes the mean or the sd of {at} by {changed:.2g} sd"
        return Trust("bad", f"{lies}. {remedy}", evidence)
    if left:
        return Trust("bad", unvisited(left), evidence)
    return None


class Parts(NamedTuple):
    """Moments of each number over draws from several parts of a posterior, and over all of it.

    means: of each part, (k, m); mean, sd: over all parts by their shares, (m,).
    """

    means: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    @classmethod
    def of(cls, draws: list[np.ndarray], shares: list[float]) -> Parts:
        """Moments by the draws of each part, (n, m)."""
        means = np.array([np.mean(x, axis=0) for x in draws])
        variances = np.array([np.var(x, axis=0) for x in draws])
        mean = np.array(shares) @ means
        sd = np.sqrt(np.array(shares) @ (variances + np.square(means - mean)))
        return cls(means, mean, sd)


def _changed(posterior, others: list[Region], share: float) -> tuple[float, str]:
    """The largest change of a mean, in sds, or log sd by what lies elsewhere, and where it is."""
    target, shares = posterior.fitted_target, [region.share.value for region in others]
    names, here = scalar_columns(posterior.fitted_draws)
    there = [scalar_columns(joined(constrain(target, region.z)))[1] for region in others]
    parts = Parts.of([here, *there], [1.0 - share, *shares])
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.abs(parts.means[0] - parts.mean) / parts.sd
        change = np.maximum(shift, np.log(parts.sd / np.std(here, axis=0)))
    change = np.where(parts.sd > 0.0, np.nan_to_num(change, nan=np.inf), 0.0)
    at = int(np.argmax(change))
    return float(change[at]), names[at]


def unvisited(left: int) -> str:
    """Advice where a search found places that no chain has been near."""
    places = counted(
        left,
        "more place that no chain came near and that was not visited",
        "more places that no chain came near and that were not visited",
    )
    return (
        f"A search or an earlier fit found {places}: how much of the posterior lies there is not "
        "known. Take more chains, or method='smc'."
    )


def _where(posterior, region: Region) -> str:
    """The number of a site that tells a region best from the draws, and its means in both."""
    there = scalar_columns(joined(constrain(posterior.fitted_target, region.z)))
    names, here = scalar_columns(posterior.fitted_draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        sds = np.abs(np.mean(there[1], axis=0) - np.mean(here, axis=0)) / np.sqrt(
            np.var(there[1], axis=0) + np.var(here, axis=0)
        )
    at = int(np.argmax(np.nan_to_num(sds)))
    means = (np.mean(x[:, at]) for x in (there[1], here))
    return "{} about {:.3g} there, {:.3g} in these draws".format(names[at], *means)


def joined(sites: dict) -> dict:
    """Sites with their chains joined: each (chains, draws, *site) -> (chains * draws, *site)."""
    return {name: np.reshape(x, (-1, *x.shape[2:])) for name, x in sites.items()}
