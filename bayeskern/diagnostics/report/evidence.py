"""The evidence of a verdict as text: each measure, its worst parameter, and its limit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from bayeskern.core.formatting import number
from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.inference.assessment import approximation, convergence, smc, tails
from bayeskern.inference.methods import exact


@cache
def good_values() -> dict[str, str]:
    """The good values of each measure as text, from the limits of the verdict."""
    chains, weights = convergence.ChainLimits(), approximation.WeightLimits()
    particles, sds = smc.ParticleLimits(), tails.TailLimits()
    lower = {
        "ess_bulk": chains.good_ess,
        "ess_tail": chains.good_ess,
        "bfmi": chains.min_bfmi,
        "ess_of_weights": weights.good_ess,
        "wider_ess": weights.good_ess,
        "acceptance": particles.min_acceptance,
    }
    upper = {
        "rhat": chains.good_rhat,
        "rhat_sorted": chains.good_rhat,
        "divergences_could_change": chains.max_mean_change_sds,
        **{name: limit.good for name, limit in approximation.DIFFERENCE_LIMITS.items()},
        # The threshold of k-hat for many draws.
        "inner_khat": khat_threshold(10**9),
        "tail_log_sd_ratio": sds.max_log_sd_ratio,
        "drift": particles.max_drift,
        "unmoved": particles.max_unmoved,
        "log_evidence_error": particles.max_log_evidence_error,
    }
    return {
        **{name: f"above {limit:g}" for name, limit in lower.items()},
        **{name: f"below {round(limit, 2):g}" for name, limit in upper.items()},
        "residual": f"below {exact.MAX_RELATIVE_RESIDUAL:g}",
        "sd_khat": f"below {sds.max_sd_khat:g}, or {sds.max_known_sd_khat:g} where the density is "
        "followed",
        "distinct_draws": "close to all",
        "gradient_norm": "next to 0",
        **dict.fromkeys(("divergences", "modes_missed", "places_left"), "0"),
    }


class Measure(NamedTuple):
    """A measure of the evidence as text.

    Attributes:
        value: The number.
        at: The parameter where it is worst, or nothing.
        good: The values that are good, or nothing.
    """

    value: str
    at: str
    good: str


def measures(evidence: Mapping[str, Any], label_of: Mapping[str, str]) -> dict[str, Measure]:
    """The measures of a verdict as text, by name.

    Args:
        evidence: As in `Trust.evidence`.
        label_of: As in `Subject.label_of`.
    """
    threshold = f"below {number(evidence.get('khat_threshold', khat_threshold(10**9)), 2)}"
    good = good_values() | dict.fromkeys(("khat", "own_khat", "wider_khat"), threshold)
    texts = {}
    for name, value in evidence.items():
        if isinstance(value, int | float | str):
            at = str(evidence.get(f"{name}_at", ""))
            texts[name] = Measure(_text(name, value), label_of.get(at, at), good.get(name, ""))
    return texts


def _text(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    # A k-hat is minus infinity where all weights of the tail are the same.
    if name.endswith("khat") and value == float("-inf"):
        return "far below 0"
    return number(value)
