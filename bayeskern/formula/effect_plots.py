"""Pictures of the effects of a regression beside the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeskern.core import validation
from bayeskern.core.batching import evenly
from bayeskern.core.plotting import COLORS, ORANGE, legend_below, panels, tidy
from bayeskern.formula.answer_plots import MAX_LABELED_ROWS, ROW_HEIGHT, curve, intervals
from bayeskern.formula.groups import Varying
from bayeskern.formula.marginal import (
    Fitted,
    datagrid,
    is_factor,
    levels_of,
    predictions,
    predictors,
    regression_of,
)
from bayeskern.formula.predictive import contributions
from bayeskern.linear.prediction import thinned_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeskern.formula.model import Regression

LEVELS = (0.5, 0.9)
# Points of a curve, and most rows of the data in a panel.
GRID_POINTS, MAX_POINTS = 100, 2000
# Bins of a number in which observations that are not Gaussian are averaged.
BINS = 12


def caterpillar(
    posterior: Fitted, group: str | None = None, levels: tuple[float, float] = LEVELS
) -> Figure:
    """Plot the effects of each group in order, with two intervals each.

    Under Gaussian noise a hollow marker has the effect by least squares in the group alone, given
    the other terms: its distance from the posterior mean is the shrinkage.

    Args:
        posterior: Fitted of a `bk.regression`.
        group: The grouping factor; the first one by default.
        levels: Probabilities of the thick and of the thin interval.

    Raises:
        ValueError: The model has no such groups.
    """
    model = regression_of(posterior)
    terms = [term for term in model.groups if isinstance(term.effects, Varying)]
    names = list(dict.fromkeys(term.group for term in terms))
    if not names:
        raise ValueError(f"the formula {model.formulas[0]!r} has no effects of groups.")
    group = validation.one_of("group", names[0] if group is None else group, names)
    terms = [term for term in terms if term.group == group]
    sites = [site for term in terms for site in term.effects.sites_of_groups]
    alone = _unpooled(posterior, model, [term.effects.name for term in terms])
    height = 0.6 + ROW_HEIGHT * min(terms[0].count, MAX_LABELED_ROWS)
    fig, axes = panels(len(sites), 3, (4.6, height))
    for i, (ax, site) in enumerate(zip(axes, sites, strict=True)):
        draws = posterior.flat[site]
        order = np.argsort(-draws.mean(axis=0))
        texts = [str(terms[0].levels.value[j]) for j in order]
        y = intervals(ax, draws[:, order], texts, levels)
        if alone is not None:
            style = {"markerfacecolor": "none", "color": ORANGE, "markersize": 4.5}
            ax.plot(alone[order, i], y, "o", **style, zorder=2, label="least squares, group alone")
        ax.axvline(0.0, color="#888888", linewidth=0.8, zorder=0)
        ax.set_xlabel(site)
    if alone is not None:
        legend_below(fig, axes[0])
    return fig


def _unpooled(posterior: Fitted, model: Regression, names: list[str]) -> np.ndarray | None:
    """Effects by least squares in each group, given the other terms, (G, q); None if not Gaussian."""
    if not model.is_gaussian:
        return None
    frame = model.source.value.frame
    indices = thinned_draws(len(next(iter(posterior.flat.values()))), len(frame))
    draws = {site: values[indices] for site, values in posterior.flat.items()}
    residuals = np.asarray(model.y - model.rows.offset)
    for name, values in contributions(model, draws, frame, "known", 0):
        if name not in names:
            residuals = residuals - values.mean(axis=0)
    terms = [term for term in model.groups if term.effects.name in names]
    Z, codes = np.hstack([t.effects.columns(frame) for t in terms]), terms[0].codes(frame)
    effects = np.full((terms[0].count, Z.shape[1]), np.nan)
    for g in range(terms[0].count):
        rows = codes == g
        solution, _, rank, _ = np.linalg.lstsq(Z[rows], residuals[rows])
        if rank == Z.shape[1]:
            effects[g] = solution
    return effects


def conditional(
    posterior: Fitted,
    variables: str | list[str] | None = None,
    levels: tuple[float, float] = LEVELS,
) -> Figure:
    """Plot expected responses along each variable, the others typical, beside the data.

    Group effects are 0. Points are partial residuals under Gaussian noise: the expectation at the
    row's value of the variable plus the residual of the row. Otherwise circles are
    their means at a level or in a bin.

    Args:
        posterior: Fitted of a `bk.regression`.
        variables: Columns, a panel each; all by default.
        levels: Probabilities of the two bands.
    """
    model = regression_of(posterior)
    names = predictors(model) if variables is None else variables
    names = [names] if isinstance(names, str) else names
    scale = "probability" if "trials" in model.extra else "response"
    residuals = None
    if model.classes is None or len(model.classes) == 2:
        y = np.asarray(model.y) / np.asarray(model.extra.get("trials", 1.0))
        residuals = y - predictions(posterior, scale=scale).draws.mean(axis=0)
    fig, axes = panels(len(names), 3, (4.2, 3.2))
    for ax, name in zip(axes, names, strict=True):
        data = model.source.value.frame[name]
        has_levels = is_factor(model, name)
        x = levels_of(data) if has_levels else np.linspace(data.min(), data.max(), GRID_POINTS)
        grid = datagrid(model, **{name: x})
        draws = predictions(posterior, grid, groups="none", scale=scale).draws
        draws = draws.reshape(len(draws), len(x), -1)
        at = np.arange(len(x)) if has_levels else x
        if residuals is not None:
            rows = pd.Index(x).get_indexer(data) if has_levels else data.to_numpy(float)
            partial = np.interp(rows, at, draws[..., 0].mean(axis=0)) + residuals
            _points(ax, rows, partial, model.is_gaussian, has_levels)
        for k, color in zip(range(draws.shape[2]), COLORS, strict=False):
            label = str(model.classes[k]) if residuals is None and model.classes else "expectation"
            if has_levels:
                _vertical(ax, at + 0.1 * k, draws[..., k], levels, color, label)
            else:
                curve(ax, at, draws[..., k], levels, color, label)
        if has_levels:
            ax.set_xticks(at, list(map(str, x)), parse_math=False)
        response = model.source.value.syntax.response
        is_chance = scale == "probability" or model.classes is not None
        ax.set(xlabel=name, ylabel=f"probability of {response}" if is_chance else response)
    legend_below(fig, axes[0])
    return fig


def _points(ax: Axes, x: np.ndarray, y: np.ndarray, each: bool, has_levels: bool) -> None:
    """Draw partial residuals, of each row or averaged at each level or in bins of x."""
    if each:
        rows = evenly(len(x), MAX_POINTS)
        # Rows of a level lie side by side.
        beside = np.random.default_rng(0).uniform(-0.12, 0.12, len(rows)) if has_levels else 0.0
        style = {"s": 9.0, "color": "#999999", "alpha": 0.6, "linewidths": 0.0}
        ax.scatter(x[rows] + beside, y[rows], **style, label="partial residuals", zorder=1)
        return
    bins = x if has_levels or len(np.unique(x)) <= BINS else pd.qcut(x, BINS, duplicates="drop")
    means = pd.DataFrame({"x": x, "y": y}).groupby(bins, observed=True).agg("mean")
    label = "mean partial residuals"
    style = {"s": 26.0, "facecolors": "none", "edgecolors": "#666666"}
    ax.scatter(means["x"], means["y"], **style, label=label, zorder=3)


def _vertical(
    ax: Axes,
    x: np.ndarray,
    draws: np.ndarray,
    levels: tuple[float, float],
    color: str,
    label: str,
) -> None:
    """Draw the mean of draws (S, m) at x (m,), with a vertical line for each level."""
    for level, width in zip(sorted(levels), (3.4, 1.1), strict=True):
        lower, upper = np.quantile(draws, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
        ax.vlines(x, lower, upper, color=color, linewidth=width)
    ax.plot(x, draws.mean(axis=0), "o", color=color, markersize=4.5, label=label)
    tidy(ax)
    ax.margins(x=0.15)
