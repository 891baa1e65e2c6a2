"""The verdict, first of all: can these numbers be used, why, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted, number
from bayeskern.diagnostics.report.blocks import (
    Missing,
    Text,
    Verdict,
    khat,
    percent,
)
from bayeskern.diagnostics.report.observations import FEW

HEADLINES = {
    "good": "These draws can be used as they are.",
    "caution": "Usable with care: read the reason before relying on intervals or tails.",
    "bad": "Do not use these numbers yet.",
    "not assessable": "This fit cannot say how far its uncertainty can be trusted.",
}
# What stands in the evidence of a verdict, in words; {} is the value, {at} where it is worst.
FACTS = {
    "rhat": "R-hat is at most {}, worst at {at} (good below 1.01).",
    "ess_bulk": "Effective draws in the bulk: at least {}, fewest at {at} (good above 400).",
    "ess_tail": "Effective draws in the tails: at least {}, fewest at {at} (good above 400).",
    "divergences": "Divergent draws: {} (good: none).",
    "bfmi": "Energy is explored at E-BFMI {} (good above 0.3).",
    "khat": "Pareto k-hat of the weights is {} (good below {threshold}).",
    "ess_of_weights": "Effective draws left after weighting: {} (good above 400).",
    "mean_shift": "Weighting moves means by at most {} sd, most at {at} (good below 0.25).",
    "log_sd_ratio": "It changes the log of sds by at most {}, most at {at} (good below 0.22).",
    "ks": "It moves distribution functions by at most {}, most at {at} (good below 0.1).",
    "distinct_draws": "Distinct draws: {}.",
    "modes_missed": "Modes that the starts found but the draws do not cover: {} (good: none).",
    "inner_khat": "Integrating out the latent function has k-hat {}.",
    "gradient_norm": "The largest slope at the optimum is {} (good: next to 0).",
    "residual": "The linear system is solved to a relative residual of {}.",
}


def verdict(subject) -> Iterator:
    trust = subject.forecast.trust if subject.posterior is None else subject.posterior.trust
    known = {} if subject.posterior is None else subject.renamed
    advice, facts = _renamed(trust.advice, trust.evidence, known), _facts(trust.evidence, known)
    yield Verdict(subject.name, trust.verdict, HEADLINES[trust.verdict], advice, facts)
    if subject.trouble:
        yield Missing(f"Parts of this report could not be had: {subject.trouble}")
    yield from _coverage(subject)
    for remark in subject.forecast.remarks if subject.forecast else ():
        yield Text(f"Remark on the series: {remark}.")


def _coverage(subject) -> Iterator:
    """Of a forecast, what its intervals would have held of the past."""
    if subject.forecast is None or subject.posterior is None:
        return
    (one,) = subject.observations
    if len(one.y) < FEW:
        yield Text(
            f"With {counted(len(one.y), 'observed value')} nothing can be said of whether "
            f"the intervals hold what they claim; it takes {FEW} or more."
        )
        return
    fitted = ", at hyperparameters that were fitted with it" if subject.posterior.is_point else ""
    inside = percent(float(np.mean(2.0 * np.abs(one.pit - 0.5) <= 0.95)))
    yield Text(
        f"Predicted each from all the others{fitted}, {inside} of the {len(one.y)} observed "
        "values lie in their 95 % intervals (good: about 95 %). This fills gaps, which is easier "
        "than looking ahead: bayeskern backtest, or bk.backtest, scores forecasts from past dates."
    )


def _facts(evidence: dict, known: dict[str, str]) -> tuple[str, ...]:
    threshold = number(evidence.get("khat_threshold", 0.7), 2)
    found = []
    for name, says in FACTS.items():
        value, at = evidence.get(name), evidence.get(f"{name}_at")
        if isinstance(value, int | float):
            value = khat(value) if name.endswith("khat") else number(value)
            found.append(says.format(value, at=known.get(at, at), threshold=threshold))
    return tuple(found)


def _renamed(advice: str, evidence: dict, known: dict[str, str]) -> str:
    """The advice, in which numbers are called what this report calls them."""
    for at in {v for k, v in evidence.items() if k.endswith("_at") and known.get(v, v) != v}:
        advice = re.sub(rf"(?<!\w){re.escape(at)}", lambda _, to=known[at]: to, advice)
    return advice
