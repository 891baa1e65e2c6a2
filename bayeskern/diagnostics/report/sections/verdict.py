"""The verdict, first of all: can these numbers be used, why, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.diagnostics.report.blocks import Missing, Text, Verdict
from bayeskern.diagnostics.report.evidence import sentences
from bayeskern.diagnostics.report.observations import MIN_OBSERVATIONS
from bayeskern.diagnostics.report.wording import percent

HEADLINES = {
    "good": "These draws can be used as they are.",
    "caution": "Usable with care: read the reason before relying on intervals or tails.",
    "bad": "Do not use these numbers yet.",
    "not assessable": "This fit cannot say how far its uncertainty can be trusted.",
}


def verdict(subject) -> Iterator:
    trust = subject.forecast.trust if subject.posterior is None else subject.posterior.trust
    label_of = {} if subject.posterior is None else subject.label_of
    advice = _relabelled(trust.advice, trust.evidence, label_of)
    facts = sentences(trust.evidence, label_of)
    yield Verdict(subject.name, trust.verdict, HEADLINES[trust.verdict], advice, facts)
    if subject.failure:
        yield Missing(f"Parts of this report could not be had: {subject.failure}")
    yield from _coverage(subject)
    for remark in subject.forecast.remarks if subject.forecast else ():
        yield Text(f"Remark on the series: {remark}.")


def _coverage(subject) -> Iterator:
    """The share of its past that the intervals of a forecast would have held."""
    if subject.forecast is None or subject.posterior is None:
        return
    (site,) = subject.observations
    if len(site.y) < MIN_OBSERVATIONS:
        yield Text(
            f"With {counted(len(site.y), 'observed value')} nothing can be said of whether "
            f"the intervals hold what they claim; it takes {MIN_OBSERVATIONS} or more."
        )
        return
    fitted = ", at hyperparameters that were fitted with it" if subject.posterior.is_point else ""
    inside = percent(float(np.mean(2.0 * np.abs(site.pit - 0.5) <= 0.95)))
    yield Text(
        f"Predicted each from all the others{fitted}, {inside} of the {len(site.y)} observed "
        "values lie in their 95 % intervals (good: about 95 %). This fills gaps, which is easier "
        "than looking ahead: bayeskern backtest, or bk.backtest, scores forecasts from past dates."
    )


def _relabelled(advice: str, evidence: dict, label_of: dict[str, str]) -> str:
    """The advice, with each number under the name that this report gives it."""
    worst = {value for name, value in evidence.items() if name.endswith("_at")}
    for name in worst:
        if label_of.get(name, name) != name:
            advice = re.sub(rf"(?<!\w){re.escape(name)}", lambda _, to=label_of[name]: to, advice)
    return advice
