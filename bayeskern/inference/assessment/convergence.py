"""What good chains have: agreement, effective draws, and steps of which none went wrong.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization, folding, and
localization: an improved R-hat"; Betancourt (2016) for E-BFMI.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.inference.result import RUN_AWAY
from bayeskern.inference.verdict import Trust, effective

# What good chains have, and what is still of use.
RHAT, RHAT_OF_USE = 1.01, 1.05
ESS, ESS_OF_USE = 400, 100
BFMI = 0.3
# The shares of draws that diverge, or that stop at the largest tree, which are still of use.
FEW_DIVERGENCES, FEW_SATURATED = 0.01, 0.05
# Divergences that are few, and could change no mean by more sds than this, are of no account: good
# chains of 400 effective draws are as far off.
NO_CHANGE = 0.05
# Chains whose means are more sds (within chains) apart are in different places, not mixing slowly.
APART = 3.0


def step_evidence(stats: Sequence[dict]) -> dict:
    """What the steps of all chains were like."""
    return {
        "divergences": int(sum(np.sum(s["diverging"]) for s in stats)),
        "bfmi": float(min(np.min(_bfmi(s["energy"])) for s in stats)),
        "max_treedepth_reached": int(sum(np.sum(s["reached_max_treedepth"]) for s in stats)),
    }


def advice_if_not_finite(names, x) -> str | None:
    """What to say of x (chains, draws, m) where some of it is not finite."""
    # Ranks, on which R-hat and ESS rest, do not see an infinite value.
    count = np.sum(~np.isfinite(x), axis=(0, 1))
    at = int(np.argmax(count))
    if count[at] == 0:
        return None
    draws = counted(count[at], "draw that is", "draws that are")
    return f"{names[at]} has {draws} not finite: its moments mean nothing."


def advice_if_running_away(coordinates, z) -> str | None:
    """Advice on chains z (chains, draws, d) that have gone further than any posterior."""
    largest = np.max(np.abs(z), axis=(0, 1))
    at = int(np.argmax(largest))
    if largest[at] < RUN_AWAY:
        return None
    return (
        f"The chains run away, {coordinates[at]} to {largest[at]:.1g} in unconstrained "
        "coordinates: the posterior has no integral. Give it a proper prior."
    )


def advice_if_stuck(z) -> str | None:
    """What to say of chains z (chains, draws, d) of which one did not move."""
    stuck = [i for i in range(len(z)) if np.any(np.ptp(z[i], axis=0) == 0)]
    if not stuck:
        return None
    return (
        f"Chain {stuck[0]} did not move: its draws are one point. Raise warmup, bring the data to "
        "a scale of about 1, or raise target_accept."
    )


def varies(x) -> np.ndarray:
    """Which of the columns of x (chains, draws, m) are not constant, up to rounding."""
    flat = x.reshape(-1, x.shape[-1])
    finite = np.all(np.isfinite(flat), axis=0)
    with np.errstate(invalid="ignore"):
        spread = np.ptp(flat, axis=0) > 1e-13 * np.max(np.abs(flat), axis=0)
    # What is not finite is kept: it must be found, not left out.
    varying = spread | ~finite
    return varying if varying.any() else ~varying


def worst_convergence(names, x) -> dict:
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


def verdict_on_chains(evidence, worst, total: int) -> Trust:
    """The verdict on chains from their convergence and their steps.

    worst: (chains, draws) of the number that agrees least; total: how many draws took steps.
    """
    e, chains = evidence, len(worst)
    few = e["divergences"] < FEW_DIVERGENCES * total
    # Comparisons are written so that NaN fails them; one chain has no R-hat to be compared.
    agree = {bound: chains == 1 or e["rhat"] < bound for bound in (RHAT, RHAT_OF_USE)}
    enough = {n: e["ess_bulk"] >= n and e["ess_tail"] >= n for n in (ESS, ESS_OF_USE)}
    saturated = not e["max_treedepth_reached"] <= FEW_SATURATED * total
    of_use = agree[RHAT_OF_USE] and enough[ESS_OF_USE] and few
    # Written so that NaN, and what is not known, are not below.
    harmless = few and e.get("divergences_could_change", np.nan) < NO_CHANGE
    problem = (
        _apart(evidence, worst, agree[RHAT])
        or (None if harmless else _divergences(evidence, total))
        or _disagreement(evidence, agree[RHAT])
        or _slowness(evidence, enough[ESS], saturated)
    )
    if problem:
        return Trust("caution" if of_use else "bad", problem, evidence)
    if chains == 1:
        advice = "One chain cannot show that chains agree: take chains=4."
        return Trust("caution", advice, evidence)
    steps = "no step went wrong"
    if e["divergences"]:
        steps = (
            f"what {counted(e['divergences'], 'diverging draw')} could hide would move no mean by "
            f"more than {e['divergences_could_change']:.2g} sd"
        )
    advice = f"The chains agree, and {steps}: means, sds and quantiles can be used."
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
    could = e.get("divergences_could_change", np.nan)
    where = f"most likely near {e['ess_bulk_at']}"
    if np.isfinite(could):
        where = f"which could move the mean of {e['divergences_could_change_at']} by {could:.2g} sd"
    return (
        f"{e['divergences']} of {total} draws diverged, so part of the posterior may be missing, "
        f"{where}: raise target_accept (0.95, 0.99), or write a hierarchical site in its "
        "non-centred form (numpyro.infer.reparam.LocScaleReparam)."
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
