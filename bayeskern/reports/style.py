"""Style of figures, and their conversion to SVG in a page.

Figures are SVG in the page and take its colours: black becomes the ink, light grey the rules, white
the paper, on light and on dark screens. Many points are drawn as pixels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from markupsafe import Markup

from bayeskern.core.formatting import short
from bayeskern.core.plotting import BLUE, figure

INK, GREY, RULE = "#000000", "#8a8a8a", "#dddddd"
# Inches; text of this size can be read on a phone.
FIGURE_INCHES = 5.2


def as_svg(draw: Callable, *args, **options) -> Markup:
    """The figure that draw(*args, **options) returns, as SVG for a page."""
    style = Path(__file__).parent / "templates" / "report.mplstyle"
    with matplotlib.style.context(style), warnings.catch_warnings():
        # Names may have letters that the font lacks; the font of the browser has them.
        warnings.simplefilter("ignore")
        fig, buffer = draw(*args, **options), io.StringIO()
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        fig.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    return Markup(_inline(buffer.getvalue()))


def _inline(text: str) -> str:
    """SVG for HTML: without prolog, metadata and URLs, in the colours of the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<style type=.*?</style>", "", text, flags=re.S)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r'\1 role="img"', text, count=1)
    # The page sizes the figure by this width, so that all figures have one size of text.
    box = re.search(r'viewBox="0 0 ([\d.]+)', text)
    width = float(box[1]) if box else 72.0 * FIGURE_INCHES
    text = text.replace("<svg", f'<svg style="--width: {width:.0f}"', 1)
    # A hundredth of a point is finer than any screen.
    text = re.sub(r' (d|points)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), text)
    return _in_tags(lambda tag: re.sub(r'="[^"]*"', _restyled, tag), text)


def _in_tags(change: Callable[[str], str], text: str) -> str:
    """Change only the tags of a text: names from the user stand outside of tags."""
    return re.sub(r"<[^>]*>", lambda tag: change(tag[0]), text)


def _restyled(attribute: re.Match) -> str:
    """An attribute with the colours and the font of the page."""
    text = attribute[0]
    if "base64" in text:
        return text
    page_colors = {
        INK: "currentColor",
        "#333333": "currentColor",
        RULE: "var(--rule)",
        "#ffffff": "var(--paper)",
        BLUE.lower(): "var(--blue)",
    }
    for color, page_color in page_colors.items():
        text = text.replace(color, page_color)
    return re.sub(r"'?DejaVu Sans'?(, [^;\"]*)?", "system-ui, sans-serif", text)


def with_prefixed_ids(text: str, prefix: str) -> Markup:
    """Add a prefix to the ids of an SVG, which must be unique in a page."""

    def prefixed(tag: str) -> str:
        return re.sub(r'(\bid="|url\(#|\bhref="#)', rf"\g<1>{prefix}", tag)

    return Markup(_in_tags(prefixed, text))


# -- parts of figures ------------------------------------------------------------------------------


def panels(count: int, columns: int = 2, height: float = 1.9, **options) -> tuple[Any, Any]:
    """A figure with `count` panels, and their axes."""
    columns = min(columns, count)
    rows = -(-count // columns)
    fig = figure((FIGURE_INCHES, 0.3 + height * rows))
    axes = fig.subplots(rows, columns, squeeze=False, **options).ravel()
    for ax in axes[count:]:
        ax.set_visible(False)
    return fig, axes[:count]


def panel(height: float) -> tuple[Any, Any]:
    """A figure with one panel, and its axes."""
    fig, (ax,) = panels(1, height=height)
    return fig, ax


def title(ax, name: str) -> None:
    """A name above a small panel."""
    ax.set_title(short(name, 24), fontsize=8.5)


def curve(ax, x, y, color: str, label: str | None = None) -> None:
    """Draw a line, and shade the area below it."""
    ax.plot(x, y, color=color, label=label)
    ax.fill_between(x, y, color=color, alpha=0.13, linewidth=0)


def bands(ax, x, quantile: Callable[[float], np.ndarray]) -> None:
    """Draw central bands at 50, 80 and 95 %.

    quantile: Function probability -> quantiles at x.
    """
    for level, alpha in ((0.95, 0.15), (0.8, 0.22), (0.5, 0.30)):
        tail = 0.5 * (1.0 - level)
        ends = quantile(tail), quantile(1.0 - tail)
        label = f"{100 * level:g} %"
        ax.fill_between(x, *ends, color=BLUE, alpha=alpha, linewidth=0, label=label)


def label_ranks(axes: Any, columns: int) -> None:
    """Label panels with the ECDF of ranks, in rows of `columns`."""
    # Panels above an empty place in the last row need labels too.
    for ax in axes[-columns:]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("rank, as a share", fontsize=8)
    for ax in axes[::columns]:
        ax.set_ylabel("ECDF - uniform", fontsize=8)


def points(
    ax, x, y, color: str = BLUE, size: float = 7.0, alpha: float = 0.7, label: str | None = None
) -> None:
    """Draw dots, larger ones if there are few; as pixels if there are more than 400."""
    raster = len(x) > 400
    # Pixels do not take the colours of the page: these are visible on light and dark paper.
    pixel_colors = {INK: GREY, BLUE: "#2a86c6"}
    if raster and color in pixel_colors:
        color, alpha = pixel_colors[color], max(alpha, 0.5)
    size = size * (2.5 if len(x) < 40 else 1.5 if len(x) < 150 else 1.0)
    ax.scatter(x, y, s=size, color=color, alpha=alpha, label=label, linewidths=0, rasterized=raster)


def legend_above(fig, *axes) -> None:
    """Draw one legend of all panels above the figure, with each label once."""
    by_label = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles, strict=True))
    fig.legend(by_label.values(), by_label, loc="outside upper left", ncols=6, handlelength=1.4)
