"""The verdict, first of all: can these numbers be used, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.diagnostics.report.blocks import Text, Verdict, number, percent

HEADLINES = {
    "good": "These draws can be used as they are.",
    "caution": "Usable with care: read the reason before relying on intervals or tails.",
    "bad": "Do not use these numbers yet.",
    "not assessable": "This fit cannot say how far its uncertainty can be trusted.",
}
# What stands in the evidence of a verdict, in words; {} is the value, {at} where it is worst.
FACTS = {
    "rhat": "The chains agree to R-hat {}, worst at {at} (good below 1.01).",
    "ess_bulk": "At least {} effective draws in the bulk, fewest at {at} (good above 400).",
    "ess_tail": "At least {} effective draws in the tails, fewest at {at} (good above 400).",
    "divergences": "{} divergent draws (good: none).",
    "bfmi": "Energy is explored at E-BFMI {} (good above 0.3).",
    "khat": "Pareto k-hat of the weights is {} (good below {threshold}).",
    "ess_of_weights": "After weighting, {} effective draws are left (good above 400).",
    "mean_shift": "Weighting moves means by at most {} sd, most at {at} (good below 0.25).",
    "log_sd_ratio": "It changes the log of sds by at most {}, most at {at} (good below 0.22).",
    "ks": "It moves distribution functions by at most {}, most at {at} (good below 0.1).",
    "distinct_draws": "{} of the draws are distinct.",
    "modes_missed": "{} modes found by the starts are not covered (good: none).",
    "inner_khat": "Integrating out the latent function has k-hat {}.",
    "gradient_norm": "The largest slope at the optimum is {} (good: next to 0).",
    "residual": "The linear system is solved to a relative residual of {}.",
}


def verdict(subject) -> Iterator:
    trust = subject.forecast.trust if subject.posterior is None else subject.posterior.trust
    yield Verdict(
        subject.name, trust.verdict, HEADLINES[trust.verdict], trust.advice, _facts(trust.evidence)
    )
    yield from _coverage(subject)
    for remark in subject.forecast.remarks if subject.forecast else ():
        yield Text(f"Remark on the series: {remark}.")


def _coverage(subject) -> Iterator:
    """Of a forecast, what its intervals would have held of the past."""
    if subject.forecast is None or subject.posterior is None:
        return
    (one,) = subject.observations
    inside = percent(float(np.mean(2.0 * np.abs(one.pit - 0.5) <= 0.95)))
    yield Text(
        f"Predicted each from all the others, {inside} of the {len(one.y)} observed values lie in "
        "their 95 % intervals (good: about 95 %). This fills gaps, which is easier than looking "
        "ahead: bk.backtest scores forecasts from past dates."
    )


def _facts(evidence: dict) -> tuple[str, ...]:
    threshold = number(evidence.get("khat_threshold", 0.7), 2)
    return tuple(
        says.format(number(evidence[name]), at=evidence.get(f"{name}_at"), threshold=threshold)
        for name, says in FACTS.items()
        if isinstance(evidence.get(name), int | float)
    )
