"""The house style of figures, and how they come into a page.

Figures are SVG inside the page, so that they take its ink: black is what the page writes in, light
grey its rules, white its paper, in light and in dark. What has many points is drawn as pixels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable

import numpy as np
from markupsafe import Markup

# Okabe and Ito: told apart by people who see red and green alike.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SERIES = (BLUE, ORANGE, GREEN, PINK, "#E69F00", "#56B4E9")
INK, GREY, RULE, PAPER = "#000000", "#8a8a8a", "#dddddd", "#ffffff"
# Pixels cannot take the colours of the page, so they have such as are seen on any paper.
PIXELS = {INK: GREY, BLUE: "#2a86c6"}
LEVELS = (0.5, 0.8, 0.95)
# How dark the band of each of LEVELS is, over those around it.
ALPHAS = (0.30, 0.22, 0.15)
# Inches: on a phone text of this size can still be read.
WIDTH = 5.2
# Along an axis of that width.
MOST_DATES = 8
# More points than this are drawn as pixels.
MANY = 400

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bayeskern",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    # A name may have dollars in it, which are no formulas.
    "text.parse_math": False,
    "axes.formatter.useoffset": False,
    "figure.dpi": 130,
    "savefig.dpi": 144,
}
COLOURS = {
    INK: "currentColor",
    "#333333": "currentColor",
    RULE: "var(--rule)",
    PAPER: "var(--paper)",
    BLUE.lower(): "var(--blue)",
}


def svg(draw: Callable, *args, **options) -> Markup:
    """The figure that draw(*args) returns, as SVG to be put into a page."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Names may have letters that the font has not; the browser's has.
        warnings.simplefilter("ignore")
        made, buffer = draw(*args, **options), io.StringIO()
        empty = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        made.savefig(buffer, format="svg", transparent=True, metadata=empty)
    return Markup(_inline(buffer.getvalue()))


def _inline(text: str) -> str:
    """SVG as it may stand in HTML: no prolog, no metadata, no address, the colours of the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<style type=.*?</style>", "", text, flags=re.S)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r'\1 role="img"', text, count=1)
    # A hundredth of a point is finer than any screen.
    # How wide it is by itself, so that the page draws its text neither too large nor too small.
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1])
    text = text.replace("<svg", f'<svg style="--width: {width:.0f}"', 1)
    text = re.sub(r' (d|points)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), text)
    return _in_tags(lambda tag: re.sub(r'="[^"]*"', _coloured, tag), text)


def _in_tags(change: Callable[[str], str], text: str) -> str:
    """Change what stands between < and >: outside of them stand the names of the user."""
    return re.sub(r"<[^>]*>", lambda tag: change(tag[0]), text)


def _coloured(attribute: re.Match) -> str:
    text = attribute[0]
    if "base64" in text:
        return text
    for colour, own in COLOURS.items():
        text = text.replace(colour, own)
    return re.sub(r"'?DejaVu Sans'?(, [^;\"]*)?", "system-ui, sans-serif", text)


def own_ids(text: str, prefix: str) -> Markup:
    """The same SVG with names of its own, since a page may have each only once."""

    def owned(tag: str) -> str:
        return re.sub(r'(\bid="|url\(#|\bhref="#)', rf"\g<1>{prefix}", tag)

    return Markup(_in_tags(owned, text))


def panels(count: int, columns: int = 2, height: float = 1.9, **options):
    """A figure with so many panels, and their axes; what is left over is hidden."""
    from bayeskern.core.plotting import figure

    columns = min(columns, count)
    rows = -(-count // columns)
    made = figure((WIDTH, 0.3 + height * rows))
    axes = made.subplots(rows, columns, squeeze=False, **options).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    return made, axes[:count]


def bands(axis, x, quantile, colour: str = BLUE, step: bool = False) -> None:
    """Central bands at LEVELS; quantile: probability -> values at x."""
    for level, alpha in zip(reversed(LEVELS), reversed(ALPHAS), strict=True):
        tail = 0.5 * (1.0 - level)
        axis.fill_between(
            x,
            quantile(tail),
            quantile(1.0 - tail),
            color=colour,
            alpha=alpha,
            linewidth=0,
            step="mid" if step else None,
            label=f"{100 * level:g} %",
        )


def points(axis, x, y, colour: str = BLUE, size: float = 7.0, alpha: float = 0.7, label=None):
    """Dots, larger where there are few; as pixels where there are many."""
    many = len(x) > MANY
    if many and colour in PIXELS:
        colour, alpha = PIXELS[colour], max(alpha, 0.5)
    size = size * (2.5 if len(x) < 40 else 1.5 if len(x) < 150 else 1.0)
    axis.scatter(
        x, y, s=size, color=colour, alpha=alpha, label=label, linewidths=0, rasterized=many
    )


def dates(axis, x) -> None:
    """Where x are dates: so few of them along the axis, and so short, that each can be read."""
    if np.asarray(x).dtype.kind != "M":
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=MOST_DATES)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def below(figure, axis, columns: int = 4) -> None:
    """The legend of an axis, above the figure, where it hides nothing."""
    handles, labels = axis.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known, loc="outside upper left", ncols=columns, handlelength=1.4)
