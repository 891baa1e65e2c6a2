"""The verdict on Markov chains: do they agree, have they moved enough, did any step go wrong?

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization, folding, and
localization: an improved R-hat"; Betancourt (2016) for E-BFMI.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.assessment.tails import heavy_tail_advice
from bayeskern.inference.model.constrain import constrain
from bayeskern.inference.result import Region
from bayeskern.inference.verdict import Trust, effective

# What good chains have, and what is still of use.
RHAT, RHAT_OF_USE = 1.01, 1.05
ESS, ESS_OF_USE = 400, 100
BFMI = 0.3
# The shares of draws that diverge, or that stop at the largest tree, which are still of use.
FEW_DIVERGENCES, FEW_SATURATED = 0.01, 0.05
# The share of a posterior that may lie where no chain is.
MISSING = 0.03
# The most, in sds, that errors of the shares of regions may move a mean by: two standard errors.
MOST_MOVED = 0.25
# Chains whose means are more sds (within chains) apart are in different places, not mixing slowly.
APART = 3.0


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
    varying = _varying(x)
    varying_names = [name for name, varies in zip(names, varying, strict=True) if varies]
    convergence = _convergence(varying_names, x[..., varying])
    evidence = convergence | _steps([posterior.sample_stats])
    evidence["constants_left_out"] = int(np.sum(~varying))
    evidence |= seen or {}
    broken = _unusable(names, x) or _stuck(posterior.z)
    if broken:
        return Trust("bad", broken, evidence)
    verdict = _verdict(evidence, chains, count, x[..., names.index(evidence["rhat_at"])])
    missing = _missing(posterior, regions, left, evidence, in_vain)
    if missing and verdict.verdict != "bad":
        return missing
    if verdict.verdict != "good":
        return verdict
    efficiency = min(1.0, evidence["ess_tail"] / (chains * count))
    tail = heavy_tail_advice(names, x.reshape(chains * count, -1), evidence, efficiency)
    return Trust("caution", tail, evidence) if tail else verdict


def assess_regions(
    posterior, regions: Sequence[Region], stats: Sequence[dict], seen: dict | None = None
) -> Trust:
    """Assess draws that were taken from each of several regions by its share.

    The chains of a region are judged by themselves, in unconstrained coordinates; stats: their
    sample statistics, region by region; seen: further evidence.
    """
    names, flat = scalar_columns(posterior.flat)
    shares = np.array([region.share.value for region in regions])
    coordinates = posterior.fitted_target.coordinates
    each = [_convergence(coordinates, region.z) for region in regions]
    worst = int(np.argmax([np.nan_to_num(e["rhat"], nan=np.inf) for e in each]))
    evidence = {key: each[worst][key] for key in ("rhat", "rhat_at")}
    for part in ("ess_bulk", "ess_tail"):
        ess = np.array([e[part] for e in each])
        evidence[part] = float(1.0 / np.sum(np.square(shares) / ess))
        evidence[f"{part}_at"] = each[int(np.argmax(np.square(shares) / ess))][f"{part}_at"]
    evidence |= _steps(stats) | (seen or {})
    evidence |= {
        "regions": len(regions),
        "shares": ", ".join(f"{share:.2g}" for share in shares),
        "share_error": float(max(region.share.error for region in regions)),
    }
    broken = _unusable(names, flat.reshape(*posterior.z.shape[:2], -1))
    if broken:
        return Trust("bad", broken, evidence)
    total = sum(region.z.shape[0] * region.z.shape[1] for region in regions)
    at = coordinates.index(evidence["rhat_at"])
    verdict = _verdict(evidence, len(regions[worst].z), total, regions[worst].z[..., at])
    moved, name = _moved(posterior, regions)
    evidence["mean_moved"], evidence["mean_moved_at"] = moved, name
    if verdict.verdict == "good" and not 2.0 * moved < MOST_MOVED:
        uncertain = (
            f"The shares of the {len(regions)} places ({evidence['shares']}) are uncertain by "
            f"{evidence['share_error']:.2g}, so that the mean of {name} is by {moved:.2g} sd: take "
            "more draws."
        )
        return Trust("caution", uncertain, evidence)
    x = flat.reshape(len(flat), -1)
    tail = heavy_tail_advice(names, x, evidence, min(1.0, evidence["ess_tail"] / len(x)))
    if verdict.verdict == "good" and tail:
        return Trust("caution", tail, evidence)
    if verdict.verdict == "good":
        good = (
            f"The chains of each of the {len(regions)} places agree, and the draws come from each "
            f"by its share ({evidence['shares']}): means, sds and quantiles can be used."
        )
        return Trust("good", good, evidence)
    return verdict


def _steps(stats: Sequence[dict]) -> dict:
    """What the steps of all chains were like."""
    return {
        "divergences": int(sum(np.sum(s["diverging"]) for s in stats)),
        "bfmi": float(min(np.min(_bfmi(s["energy"])) for s in stats)),
        "max_treedepth_reached": int(sum(np.sum(s["reached_max_treedepth"]) for s in stats)),
    }


def _moved(posterior, regions) -> tuple[float, str]:
    """How far errors of the shares move a mean, in its sds, at the worst, and where."""
    target = posterior.fitted_target
    draws = [scalar_columns(_joined(constrain(target, region.z))) for region in regions]
    names, means = draws[0][0], np.array([np.mean(x, axis=0) for _, x in draws])
    variances = np.array([np.var(x, axis=0) for _, x in draws])
    shares, errors = np.array([region.share for region in regions]).T
    mean = shares @ means
    sd = np.sqrt(shares @ (variances + np.square(means - mean)))
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = np.sqrt(np.square(errors) @ np.square(means - mean)) / sd
    moved = np.where(sd > 0, moved, 0.0)
    at = int(np.argmax(np.where(np.isnan(moved), np.inf, moved)))
    return float(moved[at]), names[at]


def _missing(posterior, regions, left: int, evidence, in_vain: bool) -> Trust | None:
    """What is wrong where much of the posterior may lie where no chain is."""
    others = [region for region in regions if not region.chains]
    if left:
        evidence["places_left"] = left
    if others:
        share = sum(region.share.value for region in others)
        evidence["share_elsewhere"] = float(share)
    # Written so that NaN is not below.
    if others and not share < MISSING:
        most = max(others, key=lambda region: np.nan_to_num(region.share.value, nan=-1.0))
        where = _where(posterior, most)
        remedy = (
            "Take bk.NUTS(modes='weigh'), which draws from each place by its share, or change the "
            "model so that one place is left."
        )
        if in_vain:
            remedy = (
                "Its share of the posterior could not be estimated, so that nothing was weighed: "
                "take more draws, or change the model so that one place is left."
            )
        if np.isnan(share):
            unknown = f"A chain that was started elsewhere stayed there ({where}). {remedy}"
            return Trust("caution", unknown, evidence)
        lies = f"About {100.0 * share:.0f} % of the posterior lies where no chain is ({where})."
        return Trust("bad", f"{lies} {remedy}", evidence)
    if left:
        unseen = (
            f"The search found {counted(left, 'more place')} that no chain came near, and that was "
            "not looked at: take more chains."
        )
        return Trust("caution", unseen, evidence)
    return None


def _where(posterior, region: Region) -> str:
    """The number of a site that tells a region best from the draws, and its means in both."""
    there = scalar_columns(_joined(constrain(posterior.fitted_target, region.z)))
    names, here = scalar_columns(posterior.fitted_draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        sds = np.abs(np.mean(there[1], axis=0) - np.mean(here, axis=0)) / np.sqrt(
            np.var(there[1], axis=0) + np.var(here, axis=0)
        )
    at = int(np.argmax(np.nan_to_num(sds)))
    means = (np.mean(x[:, at]) for x in (there[1], here))
    return "{} about {:.3g} there, {:.3g} in these draws".format(names[at], *means)


def _joined(sites: dict) -> dict:
    """(chains, draws, *site) -> (chains * draws, *site)."""
    return {name: np.reshape(x, (-1, *x.shape[2:])) for name, x in sites.items()}


def _unusable(names, x) -> str | None:
    # Ranks, on which R-hat and ESS rest, do not see an infinite value.
    count = np.sum(~np.isfinite(x), axis=(0, 1))
    at = int(np.argmax(count))
    if count[at] == 0:
        return None
    draws = counted(count[at], "draw that is", "draws that are")
    return f"{names[at]} has {draws} not finite: its moments mean nothing."


def _stuck(z) -> str | None:
    stuck = [i for i in range(len(z)) if np.any(np.ptp(z[i], axis=0) == 0)]
    if not stuck:
        return None
    return (
        f"Chain {stuck[0]} did not move: its draws are one point. Raise warmup, bring the data to "
        "a scale of about 1, or raise target_accept."
    )


def _varying(x) -> np.ndarray:
    """Which of the columns of x (chains, draws, m) are not constant, up to rounding."""
    flat = x.reshape(-1, x.shape[-1])
    finite = np.all(np.isfinite(flat), axis=0)
    with np.errstate(invalid="ignore"):
        spread = np.ptp(flat, axis=0) > 1e-13 * np.max(np.abs(flat), axis=0)
    # What is not finite is kept: it must be found, not left out.
    varying = spread | ~finite
    return varying if varying.any() else ~varying


def _convergence(names, x) -> dict:
    """The worst R-hat, bulk and tail ESS of x (chains, draws, m), and where they are."""
    from arviz_stats.base import array_stats

    x = np.moveaxis(x, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rhat = array_stats.rhat(x) if x.shape[1] > 1 else np.full(len(x), np.nan)
    statistics = {"rhat": (rhat, np.inf)}
    statistics["ess_bulk"] = (array_stats.ess(x), -np.inf)
    statistics["ess_tail"] = (array_stats.ess(x, method="tail", prob=(0.05, 0.95)), -np.inf)
    evidence = {}
    for what, (values, worst) in statistics.items():
        # NaN is the worst of all.
        ranked = np.where(np.isnan(values), worst, values)
        at = int(np.argmax(ranked) if worst > 0 else np.argmin(ranked))
        evidence[what], evidence[f"{what}_at"] = float(values[at]), names[at]
    return evidence


def _bfmi(energy) -> np.ndarray:
    """E-BFMI of each chain: (chains, draws) -> (chains,)."""
    from arviz_stats.base import array_stats

    with np.errstate(invalid="ignore", divide="ignore"):
        return array_stats.bfmi(energy)


def _verdict(evidence, chains, count, worst) -> Trust:
    e, total = evidence, chains * count
    # Comparisons are written so that NaN fails them; one chain has no R-hat to be compared.
    agree = {bound: chains == 1 or e["rhat"] < bound for bound in (RHAT, RHAT_OF_USE)}
    enough = {n: e["ess_bulk"] >= n and e["ess_tail"] >= n for n in (ESS, ESS_OF_USE)}
    saturated = not e["max_treedepth_reached"] <= FEW_SATURATED * total
    of_use = (
        agree[RHAT_OF_USE] and enough[ESS_OF_USE] and e["divergences"] < FEW_DIVERGENCES * total
    )
    problem = (
        _apart(evidence, worst, agree[RHAT])
        or _divergences(evidence, total)
        or _disagreement(evidence, agree[RHAT])
        or _slowness(evidence, enough[ESS], saturated)
    )
    if problem:
        return Trust("caution" if of_use else "bad", problem, evidence)
    if chains == 1:
        advice = "One chain cannot show that chains agree: take chains=4."
        return Trust("caution", advice, evidence)
    advice = "The chains agree, and no step went wrong: means, sds and quantiles can be used."
    return Trust("good", advice, evidence)


def _apart(e, worst, agree) -> str | None:
    if agree:
        return None
    means, within = np.mean(worst, axis=1), np.sqrt(np.mean(np.var(worst, axis=1)))
    if not np.ptp(means) > APART * within:
        return None
    return (
        f"The chains sit in different places, most at {e['rhat_at']} (R-hat {e['rhat']:.3g}): the "
        "posterior has several modes, or a narrow neck, that chains do not cross. Their shares of "
        "the draws mean nothing; look at each place by itself, or change the model (an ordering, a "
        "tighter prior, a non-centred form) so that one is left."
    )


def _disagreement(e, agree) -> str | None:
    if agree:
        return None
    shown = f"{e['rhat_at']} (R-hat {e['rhat']:.3g})"
    if np.isnan(e["rhat"]):
        return f"R-hat of {shown} cannot be computed: take more draws."
    return (
        f"The chains do not agree, most at {shown}: take more warmup and draws; if that does not "
        "help, reparametrise that site."
    )


def _divergences(e, total) -> str | None:
    if e["divergences"] == 0:
        return None
    return (
        f"{e['divergences']} of {total} draws diverged, so part of the posterior may be missing, "
        f"most likely near {e['ess_bulk_at']}: raise target_accept (0.95, 0.99), or write a "
        "hierarchical site in its non-centred form (numpyro.infer.reparam.LocScaleReparam)."
    )


def _slowness(e, enough, saturated) -> str | None:
    if not enough:
        part = "bulk" if not e["ess_bulk"] >= min(ESS, e["ess_tail"]) else "tail"
        return (
            f"Only {effective(e[f'ess_{part}'])} in the {part} of {e[f'ess_{part}_at']}: take more "
            "draws."
        )
    if not e["bfmi"] >= BFMI:
        return (
            f"The energy is explored slowly (E-BFMI {e['bfmi']:.2g}), so the tails may be missing: "
            "write hierarchical sites in their non-centred form, or bound heavy tails."
        )
    if saturated:
        return (
            f"{counted(e['max_treedepth_reached'], 'draw')} stopped at the largest tree: "
            "correct but slow. Take dense_mass=True, bring the data to a scale of about 1, or "
            "raise max_tree_depth."
        )
    return None
