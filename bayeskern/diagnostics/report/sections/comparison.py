"""Several posteriors side by side."""

from __future__ import annotations

from collections.abc import Iterator

from bayeskern.diagnostics.comparison.comparison import (
    HEADINGS,
    MEASURES,
    compare,
    have_same_model,
    is_asymptotically_exact,
    table_cells,
)
from bayeskern.diagnostics.report.blocks import Figure, Missing, Table, Text
from bayeskern.diagnostics.report.style import svg
from bayeskern.diagnostics.report.wording import listed

SAME_MODEL = (
    "All are of one model and the same data, so differences in log evidence and elpd are errors of "
    "the methods: higher is not better here."
)
SEVERAL_MODELS = (
    "Between models of the same data, higher is better for log evidence and elpd, and a difference "
    "below two of its errors is none. Between methods on one model, a difference is an error of "
    "the methods."
)


def comparison(posteriors: dict) -> Iterator:
    if len(posteriors) < 2:
        yield Missing("There is one posterior only: give several by name to compare them.")
        return
    result = compare(posteriors)
    yield Table(
        ("posterior", *HEADINGS[1:]),
        tuple(table_cells(name, row) for name, row in result.table.items()),
        SAME_MODEL if have_same_model(posteriors) else SEVERAL_MODELS,
    )
    for remark in result.remarks:
        yield Text(remark)
    if result.reference is None:
        yield Missing(_no_reference(posteriors))
    else:
        yield Table(
            ("posterior", *MEASURES.values()),
            tuple(result.worst(name) for name in result.parameters),
            f"The worst parameter of each against {result.reference}, in its sds. Good: a mean "
            "within 0.25, a ratio of sds within 0.8 to 1.25.",
        )
    yield Figure(
        svg(result.plot),
        "Marginals of the first parameters, with 50 % and 90 % intervals. Good: they lie over one "
        "another.",
    )


def _no_reference(posteriors: dict) -> str:
    """Why nothing is measured, and what to do: no method is fit for a reference, or no verdict."""
    candidates = {name: p for name, p in posteriors.items() if is_asymptotically_exact(p)}
    if not candidates:
        return (
            "None of them is exact or a run of MCMC, so there is no reference to measure the "
            "others against: add one with method='nuts'."
        )
    descriptions = [
        f"{name} ({'exact' if p.method == 'exact' else 'MCMC'}, verdict: {p.trust.verdict})"
        for name, p in candidates.items()
    ]
    first = next(iter(candidates))
    return (
        f"Nothing is measured against {listed(descriptions)}: a reference needs a good verdict, "
        "and the advice above says what to mend. You may name it all the same: "
        f"bk.compare(..., reference={first!r})."
    )
