"""The verdict, first of all: can these numbers be used, why, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayeskern.core.formatting import counted
from bayeskern.diagnostics.report.blocks import Missing, Table, Text, Verdict
from bayeskern.diagnostics.report.evidence import sentences
from bayeskern.diagnostics.report.wording import percent
from bayeskern.forecast.evaluate.look_back import compared
from bayeskern.forecast.evaluate.scores import COVERAGES

HEADLINES = {
    "good": "These draws can be used as they are.",
    "caution": "Usable with care: read the reason before relying on intervals or tails.",
    "bad": "Do not use these numbers yet.",
    "not assessable": "This fit cannot say how far its uncertainty can be trusted.",
}
# Of a forecast, the advice says the rest.
OF_FORECASTS = {
    "good": "This forecast can be used as it is.",
    "caution": "Usable with care.",
    "bad": "Do not use these intervals.",
    "not assessable": "Nothing shows how far these intervals can be trusted.",
}


def verdict(subject) -> Iterator:
    if subject.forecast is not None:
        yield from _of_forecast(subject)
        return
    trust, label_of = subject.posterior.trust, subject.label_of
    advice = _relabelled(trust.advice, trust.evidence, label_of)
    facts = sentences(trust.evidence, label_of)
    yield Verdict(subject.name, trust.verdict, HEADLINES[trust.verdict], advice, facts)
    if subject.failure:
        yield Missing(f"Parts of this report could not be had: {subject.failure}")


def _of_forecast(subject) -> Iterator:
    f = subject.forecast
    trust = f.trust
    yield Verdict(subject.name, trust.verdict, OF_FORECASTS[trust.verdict], trust.advice, ())
    for remark in f.remarks:
        yield Text(f"Remark on the series: {remark}.")
    back = f.look_back
    if back is None:
        return
    held = [
        (
            f"{100 * level:g} % intervals held",
            f"{percent(back.coverage(level))} (give or take {percent(back.coverage_error(level))})",
        )
        for level in COVERAGES
    ]
    yield Table(
        ("looking back", f"{counted(back.count, 'value')} from {len(back.origins)} past dates"),
        (
            *held,
            ("absolute error", f"{compared(back.error_ratio)} seasonal naive"),
            ("CRPS", f"{compared(back.crps_ratio)} seasonal naive"),
        ),
        f"Forecasts of {counted(back.steps, 'step')} from past dates of the series itself, each "
        "from the values up to that date, at hyperparameters fitted to the whole series.",
    )


def _relabelled(advice: str, evidence: dict, label_of: dict[str, str]) -> str:
    """The advice, with each number under the name that this report gives it."""
    worst = {value for name, value in evidence.items() if name.endswith("_at")}
    for name in worst:
        if label_of.get(name, name) != name:
            advice = re.sub(rf"(?<!\w){re.escape(name)}", lambda _, to=label_of[name]: to, advice)
    return advice
