"""A report that opens everywhere: below 3 MB, by leaving out the largest figures and saying so."""

from __future__ import annotations

from bayeskern.diagnostics.report.blocks import Figure, Missing

MAX_BYTES = 3_000_000
# The most bytes that the sentence in the place of a figure takes, and the remark on all of them.
SENTENCE, REMARK = 600, 1000


def leave_out(sections: list, excess: int) -> str:
    """Replace the largest figures of sections by a sentence, to save `excess` bytes.

    Returns a remark on what was done.
    """
    figures = [(s, i) for s in sections for i, b in enumerate(s.blocks) if isinstance(b, Figure)]
    left_out, excess = 0, excess + REMARK
    for section, i in sorted(figures, key=lambda place: -len(place[0].blocks[place[1]].svg)):
        if excess <= 0:
            break
        figure = section.blocks[i]
        content = figure.caption.partition(" Good:")[0]
        section.blocks[i] = Missing(
            f"A figure was left out here, to keep the file small: {content}"
        )
        excess -= len(figure.svg) - SENTENCE
        left_out += 1
    return (
        f"To keep this file below {MAX_BYTES / 1e6:g} MB, {left_out} of the {len(figures)} figures "
        "on single posteriors are left out, the largest first; what each showed stands in its "
        "place. A report on fewer posteriors has room for more."
    )
