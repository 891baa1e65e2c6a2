"""The house style of figures, and how they come into a page.

Figures are SVG inside the page, so that they take its ink: black is what the page writes in, light
grey its rules, white its paper, in light and in dark. What has many points is drawn as pixels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable

from markupsafe import Markup

from bayeskern.core.formatting import short
from bayeskern.core.plotting import BLUE, COLORS, figure

# Black and yellow are not seen beside the ink, or on the paper, of the page.
SERIES = COLORS[:6]
INK, GREY, RULE, PAPER = "#000000", "#8a8a8a", "#dddddd", "#ffffff"
# Pixels cannot take the colours of the page, so they have others that are seen on any paper.
PIXELS = {INK: GREY, BLUE: "#2a86c6"}
LEVELS = (0.5, 0.8, 0.95)
# How dark the band of each of LEVELS is, over those around it.
ALPHAS = (0.30, 0.22, 0.15)
# Inches: on a phone text of this size can still be read.
WIDTH = 5.2
# The most letters of the name of a small panel.
TITLE_LETTERS = 24
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
# The colours of matplotlib, and those of the page that take their place.
PAGE_COLORS = {
    INK: "currentColor",
    "#333333": "currentColor",
    RULE: "var(--rule)",
    PAPER: "var(--paper)",
    BLUE.lower(): "var(--blue)",
}


def svg(draw: Callable, *args, **options) -> Markup:
    """The figure that draw(*args) returns, as SVG to be put into a page."""
    import matplotlib  # slow to import

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Names may have letters that the font has not; the browser's has.
        warnings.simplefilter("ignore")
        fig, buffer = draw(*args, **options), io.StringIO()
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        fig.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
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
    # How wide it is by itself, so that the page draws its text neither too large nor too small.
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1])
    text = text.replace("<svg", f'<svg style="--width: {width:.0f}"', 1)
    # A hundredth of a point is finer than any screen.
    text = re.sub(r' (d|points)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), text)
    return _in_tags(lambda tag: re.sub(r'="[^"]*"', _restyled, tag), text)


def _in_tags(change: Callable[[str], str], text: str) -> str:
    """Change what stands between < and >: outside of them stand the names of the user."""
    return re.sub(r"<[^>]*>", lambda tag: change(tag[0]), text)


def _restyled(attribute: re.Match) -> str:
    """The value of an attribute with the colours and the font of the page."""
    text = attribute[0]
    if "base64" in text:
        return text
    for color, page_color in PAGE_COLORS.items():
        text = text.replace(color, page_color)
    return re.sub(r"'?DejaVu Sans'?(, [^;\"]*)?", "system-ui, sans-serif", text)


def with_prefixed_ids(text: str, prefix: str) -> Markup:
    """The same SVG with a prefix to its ids, since a page may have each only once."""

    def prefixed(tag: str) -> str:
        return re.sub(r'(\bid="|url\(#|\bhref="#)', rf"\g<1>{prefix}", tag)

    return Markup(_in_tags(prefixed, text))


# -- parts of figures ------------------------------------------------------------------------------


def panels(count: int, columns: int = 2, height: float = 1.9, **options):
    """A figure with so many panels, and their axes; what is left over is hidden."""
    columns = min(columns, count)
    rows = -(-count // columns)
    fig = figure((WIDTH, 0.3 + height * rows))
    axes = fig.subplots(rows, columns, squeeze=False, **options).ravel()
    for ax in axes[count:]:
        ax.set_visible(False)
    return fig, axes[:count]


def title(ax, name: str) -> None:
    """A name above a small panel."""
    ax.set_title(short(name, TITLE_LETTERS), fontsize=8.5)


def curve(ax, x, y, color: str, label=None) -> None:
    """A line, and a shade of its color below."""
    ax.plot(x, y, color=color, label=label)
    ax.fill_between(x, y, color=color, alpha=0.13, linewidth=0)


def bands(ax, x, quantile, color: str = BLUE) -> None:
    """Central bands at LEVELS; quantile: probability -> values at x."""
    for level, alpha in zip(reversed(LEVELS), reversed(ALPHAS), strict=True):
        tail = 0.5 * (1.0 - level)
        ax.fill_between(
            x,
            quantile(tail),
            quantile(1.0 - tail),
            color=color,
            alpha=alpha,
            linewidth=0,
            label=f"{100 * level:g} %",
        )


def points(ax, x, y, color: str = BLUE, size: float = 7.0, alpha: float = 0.7, label=None):
    """Dots, larger where there are few; as pixels where there are many."""
    many = len(x) > MANY
    if many and color in PIXELS:
        color, alpha = PIXELS[color], max(alpha, 0.5)
    size = size * (2.5 if len(x) < 40 else 1.5 if len(x) < 150 else 1.0)
    ax.scatter(x, y, s=size, color=color, alpha=alpha, label=label, linewidths=0, rasterized=many)


def legend_above(fig, ax, columns: int = 4) -> None:
    """The legend of an axes, above the figure, where it hides nothing."""
    handles, labels = ax.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    fig.legend(
        by_label.values(), by_label, loc="outside upper left", ncols=columns, handlelength=1.4
    )
