"""Convergence of Markov chains: R-hat, effective draws, and divergent transitions.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization, folding, and
localization: an improved R-hat"; Betancourt (2016) for E-BFMI.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.inference.result import MAX_COORDINATE, Fit
from bayeskern.inference.verdict import Trust, effective, worst_entry

# Upper limit of R-hat of good chains, and R-hat at and above which chains are bad.
GOOD_RHAT, USABLE_RHAT = 1.01, 1.05
# Fewest effective draws of good chains, in bulk and tails, and effective draws below which chains
# are bad.
GOOD_ESS, USABLE_ESS = 400, 100


def step_evidence(stats: Sequence[dict[str, np.ndarray]]) -> dict:
    """Divergences, E-BFMI and saturated trees over the known sample statistics of all chains."""
    # arviz_stats takes a while to import.
    from arviz_stats.base.array import array_stats

    evidence: dict[str, float | int] = {}
    if all("diverging" in s for s in stats):
        evidence["divergences"] = int(sum(np.sum(s["diverging"]) for s in stats))
    if all("energy" in s for s in stats):
        with np.errstate(invalid="ignore", divide="ignore"):
            evidence["bfmi"] = float(min(np.min(array_stats.bfmi(s["energy"])) for s in stats))
    if all("reached_max_treedepth" in s for s in stats):
        saturated = sum(np.sum(s["reached_max_treedepth"]) for s in stats)
        evidence["max_treedepth_reached"] = int(saturated)
    return evidence


def advice_if_not_finite(names: Sequence[str], x: np.ndarray) -> str | None:
    """Advice if draws x (chains, draws, m) are not all finite; else None."""
    # R-hat and ESS rest on ranks, which do not show an infinite value.
    count = np.sum(~np.isfinite(x), axis=(0, 1))
    worst = int(np.argmax(count))
    if count[worst] == 0:
        return None
    draws = counted(count[worst], "draw that is", "draws that are")
    return f"{names[worst]} has {draws} not finite: its moments are meaningless."


def advice_if_running_away(coordinates: Sequence[str], z: np.ndarray) -> str | None:
    """Advice if chains z (chains, draws, d) diverge to infinity; else None."""
    largest = np.max(np.abs(z), axis=(0, 1))
    worst = int(np.argmax(largest))
    if largest[worst] < MAX_COORDINATE:
        return None
    return (
        f"The chains run away, {coordinates[worst]} to {largest[worst]:.1g} in unconstrained "
        "coordinates: the posterior has no integral. Give it a proper prior."
    )


def advice_if_stuck(z: np.ndarray) -> str | None:
    """Advice if one of the chains z (chains, draws, d) did not move; else None."""
    stuck = [i for i in range(len(z)) if np.any(np.ptp(z[i], axis=0) == 0)]
    if not stuck:
        return None
    return (
        f"Chain {stuck[0]} did not move: its draws are one point. Raise warmup, bring the data to "
        "a scale of about 1, or raise target_accept."
    )


def varies(x: np.ndarray) -> np.ndarray:
    """Mask (m,) of the columns of x (chains, draws, m) that vary by more than rounding.

    If no column varies, all are kept.
    """
    flat = x.reshape(-1, x.shape[-1])
    finite = np.all(np.isfinite(flat), axis=0)
    with np.errstate(invalid="ignore"):
        spread = np.ptp(flat, axis=0) > 1e-13 * np.max(np.abs(flat), axis=0)
    # Columns that are not finite are kept, because they make the verdict bad.
    varying = spread | ~finite
    return varying if varying.any() else ~varying


def worst_convergence(names: Sequence[str], x: np.ndarray) -> dict:
    """Worst R-hat, bulk and tail ESS of x (chains, draws, m), with the names of the numbers."""
    # arviz_stats takes a while to import.
    from arviz_stats.base.array import array_stats

    x = np.moveaxis(x, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rhat = array_stats.rhat(x) if x.shape[1] > 1 else np.full(len(x), np.nan)
    bulk, tail = array_stats.ess(x), array_stats.ess(x, method="tail", prob=(0.05, 0.95))
    return (
        worst_entry("rhat", rhat, names)  # pyright: ignore[reportArgumentType]
        | worst_entry("ess_bulk", bulk, names, smallest=True)  # pyright: ignore[reportArgumentType]
        | worst_entry("ess_tail", tail, names, smallest=True)  # pyright: ignore[reportArgumentType]
    )


# -- divergences -----------------------------------------------------------------------------------


def divergence_evidence(posterior: Fit) -> dict:
    """Largest change of a mean that divergences could hide; empty without known divergences."""
    diverging = np.ravel(posterior.sample_stats.get("diverging", False)).astype(bool)
    if not diverging.any():
        return {}
    change = could_change(posterior.z.reshape(len(diverging), -1), diverging)
    return worst_entry("divergences_could_change", change, posterior.fitted_target.coordinates)


def could_change(z: np.ndarray, diverging: np.ndarray) -> np.ndarray:
    """Change of each mean, in sds, if the region of the divergent draws had twice its mass.

    A divergence shows that steps are too long for a region, often a neck, of which chains may have
    sampled too little (Betancourt, 2017, "A conceptual introduction to Hamiltonian Monte Carlo",
    section 6.2). The region is the half-space beyond the median of the divergent draws, in the
    direction that best separates them from the other draws (Fisher, 1936). If a region with a share
    s of all draws had twice that mass, the mean would move by s / (1 + s) times the distance from
    the mean to the mean of the region.

    Args:
        z: Draws, (n, d).
        diverging: True for divergent draws, at least one, (n,).

    Returns:
        Change for each coordinate, (d,); NaN if the draws have no precision matrix.
    """
    sds, unknown = z.std(axis=0), np.full(z.shape[1], np.nan)
    # A constant or NaN coordinate has no precision matrix.
    if not np.all(sds > 0.0):
        return unknown
    standard = (z - z.mean(axis=0)) / sds
    try:
        correlation = standard.T @ standard / len(z)
        direction = np.linalg.solve(correlation, standard[diverging].mean(axis=0))
    except np.linalg.LinAlgError:
        return unknown
    projection = standard @ direction
    in_region = projection >= np.median(projection[diverging])
    share = np.mean(in_region)
    return share / (1.0 + share) * np.abs(standard[in_region].mean(axis=0))


# -- verdict ---------------------------------------------------------------------------------------


# Share of divergent draws at and above which chains are bad.
MAX_DIVERGENT_SHARE = 0.01
# Upper limit of the change of a mean, in sds, that divergences may hide in good chains: the
# standard error of a mean of 400 effective draws.
MAX_MEAN_CHANGE_SDS = 0.05


def verdict_on_chains(evidence: dict, worst: np.ndarray, total: int) -> Trust:
    """Verdict on chains from their convergence and their steps.

    Args:
        evidence: Entries of `worst_convergence`, `step_evidence` and `divergence_evidence`. An
            unknown statistic of the steps cannot lower the verdict.
        worst: Draws of the number with the largest R-hat, (chains, draws).
        total: Number of draws.

    Returns:
        The verdict.
    """
    e, chains = evidence, len(worst)
    divergences = e.get("divergences", 0)
    few_divergences = divergences < MAX_DIVERGENT_SHARE * total
    # Comparisons are written so that NaN fails them. One chain has no R-hat to compare.
    agree = chains == 1 or e["rhat"] < GOOD_RHAT
    agree_roughly = chains == 1 or e["rhat"] < USABLE_RHAT
    enough = e["ess_bulk"] >= USABLE_ESS and e["ess_tail"] >= USABLE_ESS
    usable = agree_roughly and enough and few_divergences
    could_change = e.get("divergences_could_change", np.nan)
    harmless = few_divergences and could_change < MAX_MEAN_CHANGE_SDS
    problem = (
        (None if agree else _separate_modes(e, worst))
        or (None if harmless or not divergences else _divergences(e, total))
        # Chains that cannot reach the tails, or stop short, also disagree.
        or _slow_energy(e)
        or _short_trajectories(e, total)
        or (None if agree else _disagreement(e))
        or _few_draws(e)
    )
    if problem:
        return Trust("caution" if usable else "bad", problem, evidence)
    if chains == 1:
        advice = "One chain cannot show that chains agree: take chains=4."
        return Trust("caution", advice, evidence)
    steps = "no step went wrong" if "divergences" in e else "of their steps nothing is known"
    if divergences:
        steps = (
            f"{counted(divergences, 'diverging draw')} could change no mean by more than "
            f"{could_change:.2g} sd"
        )
    advice = f"The chains agree, and {steps}: means, sds and quantiles can be used."
    return Trust("good", advice, evidence)


def lacks_draws(trust: Trust) -> bool:
    """True if chains agree roughly, and the first remedy is to let them go on."""
    remedies = (_disagreement(trust.evidence), _few_draws(trust.evidence))
    is_remedy = any(advice and trust.advice.startswith(advice) for advice in remedies)
    agree_roughly = trust.evidence["rhat"] < USABLE_RHAT
    return trust.verdict != "good" and agree_roughly and is_remedy


# Distance between means of chains, in sds within chains, above which the chains are in different
# modes and do not only mix slowly.
MODE_SEPARATION_SDS = 3.0


def _separate_modes(e: dict, worst: np.ndarray) -> str | None:
    means, within = np.mean(worst, axis=1), np.sqrt(np.mean(np.var(worst, axis=1)))
    if not np.ptp(means) > MODE_SEPARATION_SDS * within:
        return None
    return (
        f"The chains sit in different regions, most at {e['rhat_at']} (R-hat {e['rhat']:.3g}): the "
        "posterior has several modes, or a narrow neck, that chains do not cross. Their shares of "
        "the draws mean nothing; study each region by itself, or change the model (an ordering, a "
        "tighter prior, a non-centred form) so that one region is left."
    )


def _disagreement(e: dict) -> str:
    shown = f"{e['rhat_at']} (R-hat {e['rhat']:.3g})"
    if np.isnan(e["rhat"]):
        return f"R-hat of {shown} cannot be computed: take more draws."
    return (
        f"The chains do not agree, most at {shown}: take more warmup and draws; if that does not "
        "help, reparametrise that site."
    )


def _divergences(e: dict, total: int) -> str:
    change = e.get("divergences_could_change", np.nan)
    where, narrower = f"most likely near {e['ess_bulk_at']}", "the scales of the model"
    if np.isfinite(change):
        name = e["divergences_could_change_at"]
        where = f"which could move the mean of {name} by {change:.2g} sd"
        narrower = f"{name}, or the scales of the model,"
    remedies = [f"give {narrower} tighter priors"]
    if "centredness" not in e:
        form = "write sites that have a latent scale in their non-centred form"
        remedies = [f"{form} (numpyro.infer.reparam.LocScaleReparam)", *remedies]
    # `NUTS` records this: it has taken smaller steps, or too many draws diverge for them to help.
    if "target_accept" not in e:
        remedies = ["raise target_accept (0.95, 0.99)", *remedies]
    return (
        f"{e['divergences']} of {total} draws diverged, so part of the posterior may be missing, "
        f"{where}: {', or '.join(remedies)}."
    )


# Smallest E-BFMI of good chains.
MIN_BFMI = 0.3


def _slow_energy(e: dict) -> str | None:
    if e.get("bfmi", np.inf) >= MIN_BFMI:
        return None
    remedy = "bound heavy tails, or give scales tighter priors"
    if "centredness" not in e:
        remedy = (
            "write sites that have a latent scale in their non-centred form, or bound heavy tails"
        )
    return (
        f"The energy is explored slowly (E-BFMI {e['bfmi']:.2g}), so the tails may be missing: "
        f"{remedy}."
    )


# Largest share of draws at the maximum tree depth in good chains.
MAX_SATURATED_SHARE = 0.05


def _short_trajectories(e: dict, total: int) -> str | None:
    if e.get("max_treedepth_reached", 0) <= MAX_SATURATED_SHARE * total:
        return None
    return (
        f"{counted(e['max_treedepth_reached'], 'draw')} stopped at the largest tree: "
        "correct but slow. Take another mass_matrix, bring the data to a scale of about 1, or "
        "raise max_tree_depth."
    )


def _few_draws(e: dict) -> str | None:
    if e["ess_bulk"] >= GOOD_ESS and e["ess_tail"] >= GOOD_ESS:
        return None
    part = "tail" if e["ess_bulk"] >= min(GOOD_ESS, e["ess_tail"]) else "bulk"
    return (
        f"Only {effective(e[f'ess_{part}'])} in the {part} of {e[f'ess_{part}_at']}: take more "
        "draws."
    )
