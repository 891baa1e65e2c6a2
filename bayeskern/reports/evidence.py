"""The evidence of a verdict as text: measures, worst parameters and limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from bayeskern.core.formatting import number
from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.inference.assessment import (
    approximation,
    convergence,
    draws,
    power_scaling,
    smc,
    tails,
)
from bayeskern.inference.methods import exact


@cache
def good_values() -> dict[str, str]:
    """Range of good values of each measure, as text."""
    lower = {
        "ess_bulk": convergence.GOOD_ESS,
        "ess_tail": convergence.GOOD_ESS,
        "bfmi": convergence.MIN_BFMI,
        "ess_of_weights": approximation.GOOD_WEIGHT_ESS,
        "wider_ess": approximation.GOOD_WEIGHT_ESS,
        "acceptance": smc.MIN_ACCEPTANCE,
    }
    upper = {
        "rhat": convergence.GOOD_RHAT,
        "rhat_sorted": convergence.GOOD_RHAT,
        "divergences_could_change": convergence.MAX_MEAN_CHANGE_SDS,
        **{name: limit.good for name, limit in approximation.DIFFERENCE_LIMITS.items()},
        # The threshold of k-hat for infinitely many draws.
        "inner_khat": khat_threshold(10**9),
        "persistence": draws.MAX_PERSISTENCE,
        "log_density_gap": draws.GOOD_LOG_DENSITY_GAP,
        "tail_log_sd_ratio": tails.MAX_LOG_SD_RATIO,
        "drift": smc.MAX_DRIFT,
        "unmoved": smc.MAX_UNMOVED_SHARE,
        "prior_sensitivity": power_scaling.CONFLICT_THRESHOLD,
        "log_evidence_error": smc.MAX_LOG_EVIDENCE_ERROR,
    }
    return {
        **{name: f"above {limit:g}" for name, limit in lower.items()},
        **{name: f"below {round(limit, 2):g}" for name, limit in upper.items()},
        "residual": f"below {exact.MAX_RELATIVE_RESIDUAL:g}",
        "sd_khat": f"below {tails.MAX_SD_KHAT:g}, or below {tails.MAX_KNOWN_SD_KHAT:g} "
        "if the density beyond the draws confirms the sd",
        "distinct_draws": "nearly all",
        "gradient_norm": "near 0",
        **dict.fromkeys(("divergences", "modes_missed", "places_left"), "0"),
    }


class Measure(NamedTuple):
    """A measure of the evidence as text.

    Attributes:
        value: The number as text.
        at: Parameter with the worst value; "" if there is none.
        good: Range of good values; "" if unknown.
    """

    value: str
    at: str
    good: str


def measures(evidence: Mapping[str, Any]) -> dict[str, Measure]:
    """The measures of a verdict as text, by name. evidence: As in `Trust.evidence`."""
    largest = number(evidence.get("khat_threshold", khat_threshold(10**9)), 2)
    share = f"{approximation.MAX_UNSEEN_SHARE:.0%}"
    threshold = f"below {largest}, or with at most {share} of the weight beyond the largest weight"
    good = good_values() | dict.fromkeys(("khat", "own_khat", "wider_khat"), threshold)
    texts = {}
    for name, value in evidence.items():
        if isinstance(value, int | float | str):
            at = str(evidence.get(f"{name}_at", ""))
            texts[name] = Measure(_text(name, value), at, good.get(name, ""))
    return texts


def _text(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    # k-hat is minus infinity if all weights in the tail are equal.
    if name.endswith("khat") and value == float("-inf"):
        return "far below 0"
    return number(value)
