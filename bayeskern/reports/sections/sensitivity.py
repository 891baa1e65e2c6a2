"""Sensitivity to the prior, by power scaling of prior and likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bayeskern.inference.assessment import power_scaling
from bayeskern.reports.blocks import Block, folded, missing
from bayeskern.reports.subject import Subject
from bayeskern.reports.wording import listed

block = partial(Block, "sensitivity")
# Largest number of rows of the table.
MAX_ROWS = 40


def sensitivity(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Sensitivity to the prior"."""
    if why := power_scaling.reason_not_scalable(subject.posterior):
        yield block(why)
    elif not subject.varying:
        yield block("no_variation")
    else:
        yield from _power_scaling(subject)


def _power_scaling(subject: Subject) -> Iterator[Block]:
    densities = subject.scaled_densities
    if why := power_scaling.reason_not_weighted(densities):
        yield missing(why)
        return
    table = subject.sensitivities
    proper = [p.site for p in subject.priors.values() if p.distribution is not None]
    yield block("conflicts", names=[name for name, s in table.items() if s.diagnosis])
    details = block(
        "table",
        head=("parameter", "prior", "likelihood", "diagnosis"),
        rows=[
            (name, f"{s.prior:.3f}", f"{s.likelihood:.3f}", s.diagnosis or "✓")
            for name, s in list(table.items())[:MAX_ROWS]
        ],
        sites=listed(densities.sites, 10),
        not_scaled=[site for site in proper if site not in densities.sites],
    )
    yield from folded("Sensitivity of each parameter", [details])
