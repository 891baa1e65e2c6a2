"""Several posteriors side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from bayeskern.core.verdict import VERDICTS
from bayeskern.diagnostics.comparison.comparison import (
    DISTANCES,
    HEADINGS,
    STACKING,
    Comparison,
    compare_posteriors,
    stacking_cells,
    table_cells,
)
from bayeskern.diagnostics.comparison.stacking import are_one_model
from bayeskern.reports.blocks import Block, heading, text
from bayeskern.reports.sections import parameters
from bayeskern.reports.sections.answer import question
from bayeskern.reports.sections.verdict import advice
from bayeskern.reports.style import as_svg
from bayeskern.reports.subject import Subject

block = partial(Block, "comparison")
# Largest number of rows in the figure of marginals.
MAX_MARGINALS = 6


@dataclass(frozen=True, eq=False)
class Compared:
    """Subjects of a report on several posteriors."""

    subjects: Sequence[Subject]

    @cached_property
    def result(self) -> Comparison:
        """The posteriors side by side."""
        return compare_posteriors({s.name: s.posterior for s in self.subjects})

    @cached_property
    def is_one_model(self) -> bool:
        """True if all posteriors are of one model and the same data."""
        first, *others = (s.posterior.observed() for s in self.subjects)
        same_data = all(
            first.keys() == data.keys()
            and all(np.array_equal(first[k], data[k], equal_nan=True) for k in first)
            for data in others
        )
        return same_data and are_one_model([s.posterior for s in self.subjects])

    @property
    def best(self) -> Subject:
        """Reference of the comparison, or else the first subject with the best verdict."""
        if self.result.reference is not None:
            return next(s for s in self.subjects if s.name == self.result.reference)
        return min(self.subjects, key=lambda s: VERDICTS.index(s.posterior.trust.verdict))


def answer(compared: Compared) -> Iterator[Block]:
    """Blocks of the section "Answer" of the report on several posteriors."""
    names = [s.name for s in compared.subjects]
    if compared.is_one_model:
        yield block("methods", question=question(compared.best), names=names)
    else:
        yield block("models", names=names)
    verdicts = {
        verdict: [s.name for s in compared.subjects if s.posterior.trust.verdict == verdict]
        for verdict in VERDICTS
    }
    yield block("verdicts", verdicts={v: names for v, names in verdicts.items() if names})
    names = compared.best.first_of_each_site(MAX_MARGINALS)
    yield block("marginals", figure=as_svg(compared.result.plot, names))
    if compared.is_one_model:
        yield heading(f"Estimates by {compared.best.name}")
        yield from parameters.table(compared.best)


def trust(compared: Compared) -> Iterator[Block]:
    """Blocks of the section "How far to trust each"."""
    for subject in compared.subjects:
        yield from advice(subject)


def comparison(compared: Compared) -> Iterator[Block]:
    """Blocks of the section "Comparison"."""
    result = compared.result
    rows = [table_cells(name, row) for name, row in result.table.items()]
    yield block("numbers", head=("posterior", *HEADINGS[1:]), rows=rows)
    weights = stacking_cells(result.table)
    if weights:
        yield block("stacking", head=("posterior", *STACKING), rows=weights)
    for remark in result.remarks:
        yield text(remark)
    if result.reference is None:
        yield block("no_reference")
    else:
        head = ("posterior", *DISTANCES.values())
        rows = [result.worst(name) for name in result.parameters]
        yield block("differences", head=head, rows=rows, reference=result.reference)
