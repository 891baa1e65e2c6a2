"""Numbers and names in the sentences of a report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable


def percent(share: float) -> str:
    """A share as a percentage; only 0 and 1 are written as 0 % and 100 %."""
    if 0.0 < share < 0.01:
        return "less than 1 %"
    if 0.99 < share < 1.0:
        return "more than 99 %"
    return f"{100.0 * share:.0f} %"


def with_error(value: float, error: float = 0.0) -> str:
    """A number with two decimals and, if it is not 0, its error; "unknown" for NaN."""
    if value != value:
        return "unknown"
    return f"{value:.2f} ± {error:.2f}" if error else f"{value:.2f}"


def listed(names: Iterable[str], max_names: int = 6) -> str:
    """Names in a sentence: "a, b and c", "a, b and 7 others"."""
    words = list(names)
    if len(words) > max_names:
        words = [*words[: max_names - 1], f"{len(words) - max_names + 1} others"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def of_series(name: str) -> str:
    """Phrase " of sales" for the name "sales"; "" for "value", the placeholder."""
    return "" if name == "value" else f" of {name}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Shape of a site: "3 x 2", or "one number"."""
    return " x ".join(map(str, shape)) or "one number"


def wrap_code(code: str, width: int = 88) -> str:
    """Wrap the repr of an object to `width` columns."""
    return textwrap.fill(code, width, subsequent_indent="    ", break_long_words=False)
