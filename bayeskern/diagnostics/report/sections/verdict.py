"""The verdict: can the numbers be used, why, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bayeskern.diagnostics.report.blocks import Block, missing, text
from bayeskern.diagnostics.report.evidence import measures
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.forecast.evaluate.rolling_origin import compared
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.forecast.result import Forecast

block = partial(Block, "verdict")


def verdict(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Verdict"."""
    if subject.forecast is not None:
        yield from _of_forecast(subject.forecast, subject.name)
        return
    trust, label_of = subject.posterior.trust, subject.label_of
    yield block(
        "of_draws",
        name=subject.name,
        verdict=trust.verdict,
        advice=_relabelled(trust.advice, trust.evidence, label_of),
        e=measures(trust.evidence, label_of),
    )
    if subject.failure:
        yield missing(f"Parts of this report are missing: {subject.failure}")


def _of_forecast(f: Forecast, name: str) -> Iterator[Block]:
    yield block("of_forecast", name=name, verdict=f.trust.verdict, advice=f.trust.advice)
    for remark in f.remarks:
        yield text(f"Remark on the series: {remark}.")
    if f.look_back is not None:
        yield block("rolling_origins", back=f.look_back, levels=COVERAGES, compared=compared)


def _relabelled(advice: str, evidence: Mapping[str, Any], label_of: Mapping[str, str]) -> str:
    """The advice, with each parameter under its name in this report."""
    for name in {value for key, value in evidence.items() if key.endswith("_at")}:
        label = label_of.get(name, name)
        advice = re.sub(rf"(?<!\w){re.escape(name)}", lambda _, to=label: to, advice)
    return advice
