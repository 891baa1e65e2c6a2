"""Several posteriors side by side."""

from __future__ import annotations

from collections.abc import Iterator

from bayeskern.diagnostics.compare import HEADINGS, MEASURES, cells, compare
from bayeskern.diagnostics.report.blocks import Figure, Missing, Table, Text
from bayeskern.diagnostics.report.style import svg


def comparison(posteriors: dict) -> Iterator:
    if len(posteriors) < 2:
        yield Missing("There is one posterior only: give several by name to compare them.")
        return
    found = compare(posteriors)
    yield Table(
        ("posterior", *HEADINGS[1:]),
        tuple(cells(name, row) for name, row in found.table.items()),
        "Higher is better for log evidence and elpd; a difference below two of its errors is none.",
    )
    for remark in found.remarks:
        yield Text(remark)
    if found.reference is None:
        yield Missing(
            "None of them is exact or a good run of MCMC, so there is no reference to measure the "
            "others against: add one with method='nuts'."
        )
    else:
        yield Table(
            ("posterior", *MEASURES.values()),
            tuple(found.worst(name) for name in found.parameters),
            f"The worst parameter of each against {found.reference}, in its sds. Good: a mean "
            "within 0.25, a ratio of sds within 0.8 to 1.25.",
        )
    yield Figure(
        svg(found.plot),
        "Marginals of the first parameters, with 50 % and 90 % intervals. Good: they lie over one "
        "another.",
    )
