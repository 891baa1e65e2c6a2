"""Numbers, names and tables as text that is safe to show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

# A spread below this fraction of the values counts as rounding error.
ROUNDING_ERROR = 1e-13
# Maximum length of an error message, in characters.
MAX_MESSAGE_LENGTH = 2000


def printable(text: object) -> str:
    r"""Text on one line without characters that control the terminal.

    Line breaks and tabs become spaces. Other control characters, marks of text direction, invisible
    characters and lone surrogates are written as in Python, such as \x1b and \u202e.

    Examples:
        >>> print(printable("sales\x1b[2J\tof \u202e2020"))
        sales\x1b[2J of \u202e2020
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character in "\t\n\r\v\f":
        return " "
    # Joiners (zero width) are part of words in Persian and Hindi, and of emoji.
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    if not hidden or character in "\u200c\u200d":
        return character
    return character.encode("unicode_escape").decode()


def printable_lines(text: object) -> str:
    """Text of several lines, each made `printable`."""
    return "\n".join(map(printable, str(text).split("\n")))


def message_of(error: BaseException | str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Message of an error on one printable line; a longer one loses its middle."""
    return short(" ".join(str(error).split()), max_length)


@contextmanager
def printable_errors() -> Iterator[None]:
    """Make the message of a ValueError printable, in a block or a decorated function."""
    try:
        yield
    except ValueError as error:
        # The text of a UnicodeError is not its argument; it shows bytes as numbers.
        if not isinstance(error, UnicodeError):
            error.args = (message_of(error),)
        raise


def spreadsheet_text(text: str) -> str:
    """Text of a CSV cell that spreadsheets do not run as a formula.

    An apostrophe is put before = + - @ at the start of the cell, and after characters that may
    start another cell. Numbers stay as they are. Lone surrogates, which no file can hold, become
    escapes. Carriage returns, which Python before 3.13 writes without quotation marks, become line
    feeds.

    References:
        OWASP, "CSV Injection".
    """
    text = re.sub(r"\r\n?", "\n", text.encode(errors="backslashreplace").decode())
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return text
    # Full-width forms are formulas too. Programs that split at semicolons ignore quotation marks
    # inside a cell.
    return re.sub(r"((?:^|[;\t\n])\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])", r"\1'", text)


def counted(number: int | str, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 draw", "2 draws", "2 series"."""
    plural = plural or (noun if noun.endswith("series") else f"{noun}s")
    return f"{number} {noun if str(number) == '1' else plural}"


def abbreviated(names: Iterable[object], max_names: int = 3) -> str:
    """The first of several names, with dots in place of the others: "a, b, c, ..."."""
    texts = [*map(str, names)]
    return ", ".join(texts[:max_names]) + (", ..." if len(texts) > max_names else "")


def suggestion(name: object, options: Iterable[object]) -> str:
    """Hint " Did you mean 'nuts'?" with the most similar option; "" without a similar one."""
    closest = get_close_matches(str(name), [*map(str, options)], n=1)
    return f" Did you mean {closest[0]!r}?" if closest else ""


def number(x: SupportsFloat, digits: int = 3) -> str:
    """Number with `digits` significant digits, whole numbers in full; a dash for NaN."""
    x = float(x)
    if x != x:
        return "-"
    if x in (float("inf"), float("-inf")):
        return "∞" if x > 0 else "-∞"
    if x == int(x) and abs(x) < 1e6:
        return f"{int(x):,}"
    if abs(x) >= 10 ** (digits - 1) and abs(x) < 1e6:
        return f"{x:,.0f}"
    return f"{x:.{digits}g}"


def three_digits(x: ArrayLike) -> np.ndarray:
    """Numbers rounded to three significant digits."""
    return np.reshape([float(f"{v:.3g}") for v in np.ravel(x)], np.shape(x))


def alike(values: ArrayLike, spread: float, digits: int = 4) -> tuple[str, ...]:
    """Numbers as text with the same number of decimals, for comparison.

    The decimals resolve a hundredth of the spread, and give the largest number at least `digits`
    significant digits. A number close to 0 among positive numbers, such as the end of a heavy tail,
    is formatted separately.

    Args:
        values: The numbers.
        spread: Their sd; if it is 0 or unknown, each number is formatted separately.
        digits: Minimum number of significant digits of the largest number.
    """
    values = np.asarray(values, float)
    largest = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
    if not (ROUNDING_ERROR * largest < spread < np.inf):
        return tuple(number(x, digits) for x in values)
    # The last decimal is about spread / 100.
    decimals = 2 - int(np.floor(np.log10(spread)))
    if largest > 0.0:
        decimals = max(decimals, digits - 1 - int(np.floor(np.log10(largest))))
    tiny = largest < 1e-4
    # With fixed decimals, these numbers would have one digit or none.
    near_0 = np.all(values > 0.0) & (values < 10.0 ** (1 - max(0, decimals))) & (not tiny)
    separate = near_0 | ~np.isfinite(values)
    return tuple(
        number(x, digits) if is_separate else _fixed(x, decimals, tiny)
        for x, is_separate in zip(values, separate, strict=True)
    )


def _fixed(x: float, decimals: int, tiny: bool) -> str:
    """Number with `decimals` decimals; tiny and huge ones with an exponent."""
    if x != 0.0 and (tiny or abs(x) >= 1e7):
        return f"{x:.{max(0, int(np.floor(np.log10(abs(x)))) + decimals)}e}"
    return f"{x:z,.{max(0, decimals)}f}"


def short(name: str, max_length: int) -> str:
    """Printable name of at most `max_length` characters, without its middle."""
    name = printable(name)
    if len(name) <= max_length:
        return name
    head = (max_length - 1) // 2
    tail = max_length - 1 - head
    return f"{name[:head]}…{name[len(name) - tail :]}"


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column is left-aligned, the others right-aligned."""
    rows = [list(map(printable, row)) for row in rows]
    first_width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths, strict=True))
        lines.append("  ".join([first.ljust(first_width), *cells]).rstrip())
    return lines
