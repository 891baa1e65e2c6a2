"""Several posteriors side by side."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bayeskern.diagnostics.comparison.comparison import (
    HEADINGS,
    MEASURES,
    STACKING,
    compare_posteriors,
    stacking_cells,
    table_cells,
)
from bayeskern.diagnostics.report.blocks import Block, text
from bayeskern.diagnostics.report.style import as_svg
from bayeskern.inference import Posterior

block = partial(Block, "comparison")


def comparison(posteriors: dict[str, Posterior]) -> Iterator[Block]:
    """Blocks of the section "Comparison"."""
    if len(posteriors) < 2:
        yield block("single")
        return
    result = compare_posteriors(posteriors)
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
        head = ("posterior", *MEASURES.values())
        rows = [result.worst(name) for name in result.parameters]
        yield block("differences", head=head, rows=rows, reference=result.reference)
    yield block("marginals", figure=as_svg(result.plot))
