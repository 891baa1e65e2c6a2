"""A picture of a kernel: its covariances with single points, and its Gram matrix."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import short, three_digits
from bayeskern.core.plotting import COLORS, along, figure, legend_above, tidy
from bayeskern.hyperparameters import at_medians

# Where it is drawn by default.
REACH = (-3.0, 3.0)
# The points x0 of a kernel that is not stationary, as shares of the way.
REFERENCES = (0.2, 0.5, 0.8)
# Covariances that differ by less than this share of the largest are the same to the eye, and one
# that is less far below 0 is 0.
SAME = 1e-6
# The most letters of the kernel, and of the name of the input.
LETTERS, NAME_LETTERS = 100, 32


def kernel(k, X=None, fig=None):
    """Two panels: k(x, x0) along a line, and the Gram matrix on it; returns the figure."""
    X, columns = validation.inputs(REACH if X is None else X, "X")
    points, concrete = along(X, "X"), at_medians(k.resolve(columns))
    K, x = np.asarray(concrete(points)), points[:, 0]
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"{concrete!r} is NaN or infinite at some of these points. Give another X, or other "
            "hyperparameters."
        )
    fig = figure((9.0, 3.8)) if fig is None else fig
    left, right = fig.subplots(1, 2, width_ratios=(1.2, 1.0))
    name = short(columns[0], NAME_LETTERS) if columns else "x"
    if np.allclose(K[1:, 1:], K[:-1, :-1], rtol=0.0, atol=SAME * np.abs(K).max()):
        _along_lags(left, x - x[0], K[0])
    else:
        _from_references(left, x, K, name)
    _image(right, x, K, name)
    values = {name: three_digits(v) for name, v in concrete.hyperparameters().items()}
    fig.suptitle(short(repr(concrete.at(values)), LETTERS), fontsize=10, parse_math=False)
    return fig


def _along_lags(ax, lags, covariances) -> None:
    ax.plot(lags, covariances, color=COLORS[0], linewidth=1.6)
    ax.set_title("k depends on the lag alone", loc="left", fontsize=9)
    ax.set_xlabel("lag")
    ax.set_ylabel("k")
    _finish(ax, covariances)


def _from_references(ax, x, K, name: str) -> None:
    rows = [round(share * (len(x) - 1)) for share in REFERENCES]
    for i, color in zip(rows, COLORS, strict=False):
        ax.plot(x, K[i], color=color, linewidth=1.6, label=f"x₀ = {x[i]:.3g}")
        ax.plot(x[i], K[i, i], "o", color=color, markersize=5)
    ax.set_xlabel(name, parse_math=False)
    ax.set_ylabel("k(x, x₀)")
    legend_above(ax)
    _finish(ax, K[rows])


def _finish(ax, covariances) -> None:
    """Light axes, in which 0 is seen: how far from it a covariance is, is what it says."""
    low, high = np.min(covariances, initial=0.0), np.max(covariances, initial=0.0)
    room = 0.05 * (high - low) or 1.0
    ax.set_ylim(low - room if _reaches_below_0(covariances) else 0.0, high + room)
    ax.axhline(0.0, color="#8a8a8a", linewidth=0.8, zorder=0)
    tidy(ax)


def _image(ax, x, K, name: str) -> None:
    top = np.abs(K).max() or 1.0
    # White is 0: no covariance.
    colors, low = ("RdBu_r", -top) if _reaches_below_0(K) else ("Blues", 0.0)
    extent = (x[0], x[-1], x[0], x[-1])
    image = ax.imshow(K, cmap=colors, vmin=low, vmax=top, origin="lower", extent=extent)
    ax.set_title("Gram matrix", loc="left", fontsize=9)
    ax.set_xlabel(name, parse_math=False)
    ax.set_ylabel(name, parse_math=False)
    ax.figure.colorbar(image, ax=ax, fraction=0.046).outline.set_visible(False)


def _reaches_below_0(covariances) -> bool:
    return np.min(covariances) < -SAME * np.abs(covariances).max()
