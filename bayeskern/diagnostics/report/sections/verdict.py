"""The verdict with its reasons and advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bayeskern.diagnostics.report.blocks import Block, text
from bayeskern.diagnostics.report.evidence import measures
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.inference.assessment.power_scaling import conflict_advice


def verdict(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Verdict"."""
    trust, label_of = subject.posterior.trust, subject.label_of
    yield Block(
        "verdict",
        "of_draws",
        name=subject.name,
        verdict=trust.verdict,
        advice=_relabel(trust.advice, trust.evidence, label_of),
        e=measures(trust.evidence, label_of),
    )
    # The verdict leaves out this check if the density is costly.
    is_unchecked = "prior_sensitivity" not in trust.evidence
    if is_unchecked and trust.verdict in ("good", "caution"):
        conflicts = {
            name: s.prior
            for name, s in subject.sensitivities.items()
            if s.is_conflict and subject.by_name[name].site in subject.scaled_densities.sites
        }
        if conflicts:
            worst = max(conflicts, key=lambda name: conflicts[name])
            yield text(conflict_advice(worst, len(conflicts)))


def _relabel(advice: str, evidence: Mapping[str, Any], label_of: Mapping[str, str]) -> str:
    """Replace the names of parameters in an advice by their names in this report."""
    for name in {value for key, value in evidence.items() if key.endswith("_at")}:
        label = label_of.get(name, name)
        advice = re.sub(rf"(?<!\w){re.escape(name)}", lambda _, to=label: to, advice)
    return advice
