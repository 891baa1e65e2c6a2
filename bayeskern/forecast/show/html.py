"""Pages of HTML for notebooks, with a picture and a table, without scripts."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from bayeskern.core.formatting import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _text(text: str) -> str:
    """Text without markup and without control characters."""
    return escape(printable(text))


def page(
    title: str,
    figure: Figure | None,
    rows: str,
    remarks: Sequence[str] = (),
    words: Sequence[str] = (),
) -> str:
    """Block of HTML: title, words, remarks, a picture and the result of `table`.

    Title, words and remarks are escaped.
    """
    words = [*words, *([f"Remarks: {'; '.join(remarks)}."] if remarks else [])]
    texts = "".join(f"<p>{_text(text)}</p>" for text in words)
    picture = "" if figure is None else _picture(figure, title)
    return (
        '<div style="max-width: 60em; font-variant-numeric: tabular-nums">'
        f"<p><strong>{_text(title)}</strong></p>{texts}{picture}{rows}</div>"
    )


def _picture(figure: Figure, title: str) -> str:
    """A figure as a picture inside the page."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=90)
    data = base64.b64encode(png.getvalue()).decode("ascii")
    source = f"data:image/png;base64,{data}"
    return f'<img alt="{_text(title)}" style="width: 100%; background: white" src="{source}">'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table with right-aligned cells, and a note below it."""
    style = ' style="text-align: right; padding: 0.1em 0.8em"'
    cells = "".join(f"<th{style}>{_text(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    below = f"<p>{_text(note)}</p>" if note else ""
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{below}"
