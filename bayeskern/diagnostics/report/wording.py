"""Numbers and names as the sentences of a report have them."""

from __future__ import annotations

import textwrap


def percent(share: float) -> str:
    """A share as a percentage, never rounded to all or nothing."""
    if 0.0 < share < 0.01:
        return "less than 1 %"
    if 0.99 < share < 1.0:
        return "more than 99 %"
    return f"{100.0 * share:.0f} %"


def listed(names, most: int = 6) -> str:
    """Names in a sentence: "a, b and c", "a, b and 7 others"."""
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def of_series(name: str) -> str:
    """ " of sales", or nothing for "value", the name of every series without one."""
    return "" if name == "value" else f" of {name}"


def shape_text(shape: tuple[int, ...]) -> str:
    """The shape of a site: "3 x 2", or "one number"."""
    return " x ".join(map(str, shape)) or "one number"


def folded(code: str, width: int = 88) -> str:
    """A long representation of an object, broken into lines."""
    return textwrap.fill(code, width, subsequent_indent="    ", break_long_words=False)
