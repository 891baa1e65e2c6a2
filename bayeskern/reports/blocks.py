"""Blocks of a section: a macro of a Jinja template, and its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bayeskern.core.formatting import counted, number, printable_lines
from bayeskern.reports.evidence import good_values
from bayeskern.reports.wording import listed, of_series, percent, shape_text


@cache
def environment() -> Environment:
    """Templates of the report, with the formats of numbers and names as filters."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (counted, listed, number, of_series, percent, shape_text)
    templates.filters |= {function.__name__: function for function in filters}
    templates.globals["good"] = good_values()
    return templates


def _readable(value: Any) -> Any:
    """Text without characters that hide or reorder other text; HTML stays as it is."""
    return printable_lines(value) if type(value) is str else value


class Block:
    """A macro of a template with its values.

    Args:
        template: Name of the template, without ".html.j2".
        macro: Name of the macro.
        **values: Arguments of the macro. A picture is called `figure`; None shows only its caption.

    Attributes:
        fold: Title of the folded part of the section that holds the block; "" if it is in view.
    """

    fold = ""

    def __init__(self, template: str, macro: str, **values: Any):
        self.template, self.macro, self.values = template, macro, values

    @property
    def has_figure(self) -> bool:
        """True if there is a picture in this block."""
        return self.values.get("figure") is not None

    def html(self) -> Markup:
        """The block as HTML."""
        module: Any = environment().get_template(f"{self.template}.html.j2").module
        return getattr(module, self.macro)(**self.values)


def folded(title: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks in a part of the section that readers unfold by its title."""
    for block in blocks:
        block.fold = title
        yield block


def text(words: str) -> Block:
    """A paragraph."""
    return Block("blocks", "text", words=words)


def missing(reason: str) -> Block:
    """The reason why something cannot be assessed."""
    return Block("blocks", "missing", words=reason)


def heading(title: str) -> Block:
    """The title of a part of a section."""
    return Block("blocks", "heading", title=title)


def code(source: str) -> Block:
    """Preformatted text."""
    return Block("blocks", "code", source=source)
