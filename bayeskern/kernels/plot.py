"""Plot of a kernel: covariances with reference points, and the Gram matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.core.formatting import short, three_digits
from bayeskern.core.plotting import COLORS, along, figure, legend_above, tidy
from bayeskern.hyperparameters import at_medians

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Differences below this share of the largest covariance are invisible, and treated as 0.
VISIBLE_SHARE = 1e-6


def kernel(k, X: ArrayLike | None = None, fig: Figure | None = None) -> Figure:
    """Plot k(x, x0) against x, or k against the lag, and the Gram matrix."""
    X, columns = validation.inputs((-3.0, 3.0) if X is None else X, "X")
    points, concrete = along(X, "X"), at_medians(k.resolve(columns))
    K, x = np.asarray(concrete(points)), points[:, 0]
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"{concrete!r} is NaN or infinite at some of these points. Use another X, or other "
            "hyperparameters."
        )
    fig = figure((9.0, 3.8)) if fig is None else fig
    left, right = fig.subplots(1, 2, width_ratios=(1.2, 1.0))
    name = short(columns[0], 32) if columns else "x"
    if np.allclose(K[1:, 1:], K[:-1, :-1], rtol=0.0, atol=VISIBLE_SHARE * np.abs(K).max()):
        _along_lags(left, x - x[0], K[0])
    else:
        _from_references(left, x, K, name)
    _image(right, x, K, name)
    values = {name: three_digits(v) for name, v in concrete.hyperparameters().items()}
    fig.suptitle(short(repr(concrete.at(values)), 100), fontsize=10, parse_math=False)
    return fig


def _along_lags(ax, lags, covariances) -> None:
    ax.plot(lags, covariances, color=COLORS[0], linewidth=1.6)
    ax.set_title("k depends on the lag alone", loc="left", fontsize=9)
    ax.set_xlabel("lag")
    ax.set_ylabel("k")
    _finish(ax, covariances)


def _from_references(ax, x, K, name: str) -> None:
    rows = [round(share * (len(x) - 1)) for share in (0.2, 0.5, 0.8)]
    for i, color in zip(rows, COLORS, strict=False):
        ax.plot(x, K[i], color=color, linewidth=1.6, label=f"x₀ = {x[i]:.3g}")
        ax.plot(x[i], K[i, i], "o", color=color, markersize=5)
    ax.set_xlabel(name, parse_math=False)
    ax.set_ylabel("k(x, x₀)")
    legend_above(ax)
    _finish(ax, K[rows])


def _finish(ax, covariances) -> None:
    """Format the axes; their limits include 0."""
    low, high = np.min(covariances, initial=0.0), np.max(covariances, initial=0.0)
    margin = 0.05 * (high - low) or 1.0
    ax.set_ylim(low - margin if _reaches_below_0(covariances) else 0.0, high + margin)
    ax.axhline(0.0, color="#8a8a8a", linewidth=0.8, zorder=0)
    tidy(ax)


def _image(ax, x, K, name: str) -> None:
    top = np.abs(K).max() or 1.0
    # In both color maps white is a covariance of 0.
    colors, low = ("RdBu_r", -top) if _reaches_below_0(K) else ("Blues", 0.0)
    extent = (x[0], x[-1], x[0], x[-1])
    image = ax.imshow(K, cmap=colors, vmin=low, vmax=top, origin="lower", extent=extent)
    ax.set_title("Gram matrix", loc="left", fontsize=9)
    ax.set_xlabel(name, parse_math=False)
    ax.set_ylabel(name, parse_math=False)
    ax.figure.colorbar(image, ax=ax, fraction=0.046).outline.set_visible(False)


def _reaches_below_0(covariances) -> bool:
    return np.min(covariances) < -VISIBLE_SHARE * np.abs(covariances).max()
