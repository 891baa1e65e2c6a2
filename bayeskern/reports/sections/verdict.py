"""The verdict with its advice and its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bayeskern.core.scalars import with_labels
from bayeskern.inference.assessment.power_scaling import conflict_advice
from bayeskern.reports.blocks import Block, folded, text
from bayeskern.reports.evidence import measures
from bayeskern.reports.subject import Subject

block = partial(Block, "verdict")


def verdict(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "How far to trust it": verdict, advice and evidence."""
    yield from advice(subject)
    yield from folded("Evidence for the verdict", evidence(subject))


def advice(subject: Subject) -> Iterator[Block]:
    """The verdict with its advice, and conflicts of priors and data."""
    trust = subject.posterior.trust
    yield block("of_draws", name=subject.name, verdict=trust.verdict, advice=trust.advice)
    # The verdict omits this check if the density is costly.
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


def evidence(subject: Subject) -> Iterator[Block]:
    """Measures behind the verdict with their good values, and the methods tried."""
    p = subject.posterior
    yield block("evidence", e=measures(p.trust.evidence))
    if p.attempts:
        attempts = [a._replace(reason=with_labels(a.reason, p.labels)) for a in p.attempts]
        yield block("attempts", attempts=attempts)
