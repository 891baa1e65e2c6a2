"""A report that opens everywhere: below 3 MB, by leaving out the largest figures and saying so."""

from __future__ import annotations

from bayeskern.diagnostics.report.blocks import Figure, Missing

MOST = 3_000_000
# What stands in the place of a figure, and the remark, may take so much.
SENTENCE, REMARK = 600, 1000


def leave_out(sections: list, excess: int) -> str:
    """Put a sentence in the place of the largest figures of sections, to save excess bytes.

    Returns a remark on what was done.
    """
    places = [(s, i) for s in sections for i, b in enumerate(s.blocks) if isinstance(b, Figure)]
    total, left, excess = len(places), 0, excess + REMARK
    for section, i in sorted(places, key=lambda p: -len(p[0].blocks[p[1]].svg)):
        if excess <= 0:
            break
        figure = section.blocks[i]
        shows = figure.caption.partition(" Good:")[0]
        section.blocks[i] = Missing(f"A figure was left out here, to keep the file small: {shows}")
        excess -= len(figure.svg) - SENTENCE
        left += 1
    return (
        f"To keep this file below {MOST / 1e6:g} MB, {left} of the {total} figures on single "
        "posteriors are left out, the largest first; what each showed stands in its place. A "
        "report on fewer posteriors has room for more."
    )
