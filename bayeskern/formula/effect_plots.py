"""Pictures of the effects of a regression beside the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeskern.core import validation
from bayeskern.core.batching import evenly
from bayeskern.core.plotting import COLORS, ORANGE, legend_below, panels, tidy
from bayeskern.formula.answer_plots import curve, height_of, intervals, points
from bayeskern.formula.groups import GroupTerm, Varying
from bayeskern.formula.marginal import (
    Fitted,
    datagrid,
    is_factor,
    levels_of,
    predictions,
    predictors,
    regression_of,
    thinned,
    times_of_walks,
)
from bayeskern.formula.model import Regression
from bayeskern.formula.predictive import contributions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Points of a curve, and most rows of the data in a panel.
GRID_POINTS, MAX_POINTS = 100, 2000
# Bins of a number in which observations that are not Gaussian are averaged.
BINS = 12


def caterpillar(posterior: Fitted, group: str | None = None) -> Figure:
    """Plot the effects of each group in order, with intervals of 50 and 90 %.

    Under Gaussian noise a hollow marker has the effect by least squares in the group alone, given
    the other terms: its distance from the posterior mean is the shrinkage.

    Args:
        posterior: Posterior of a `bk.regression`.
        group: The grouping factor; the first one by default.

    Raises:
        ValueError: The model has no such groups.
    """
    model = regression_of(posterior)
    terms = [term for term in model.groups if isinstance(term.effects, Varying)]
    if not terms:
        raise ValueError(f"the formula {model.formulas[0]!r} has no effects of groups.")
    group = validation.one_of("group", group or terms[0].group, [term.group for term in terms])
    terms = [term for term in terms if term.group == group]
    sites = [site for term in terms for site in term.effects.sites_of_groups]
    alone = _unpooled(posterior, model, terms) if model.is_gaussian else None
    fig, axes = panels(len(sites), 3, (4.6, height_of(terms[0].count)))
    for i, (ax, site) in enumerate(zip(axes, sites, strict=True)):
        draws = posterior.flat[site]
        order = np.argsort(-draws.mean(axis=0))
        y = intervals(ax, draws[:, order], [str(terms[0].levels.value[j]) for j in order], 0.0)
        if alone is not None:
            hollow = {"markerfacecolor": "none", "color": ORANGE, "markersize": 4.5}
            ax.plot(alone[order, i], y, "o", **hollow, label="least squares, group alone")
        ax.set_xlabel(site)
    if alone is not None:
        legend_below(fig, axes[0])
    return fig


def _unpooled(posterior: Fitted, model: Regression, terms: list[GroupTerm]) -> np.ndarray:
    """Effects of the terms by least squares in each group, given other terms: (G, q)."""
    frame, names = model.source.value.frame, [term.effects.name for term in terms]
    residuals = np.asarray(model.y - model.rows.offset)
    for name, values in contributions(model, thinned(posterior, frame), frame, "known", 0):
        if name not in names:
            residuals = residuals - values.mean(axis=0)
    Z, codes = np.hstack([t.effects.columns(frame) for t in terms]), terms[0].codes(frame)
    effects = np.full((terms[0].count, Z.shape[1]), np.nan)
    for g in range(len(effects)):
        solution, _, rank, _ = np.linalg.lstsq(Z[codes == g], residuals[codes == g])
        # The data of the group alone may not tell its effects apart.
        effects[g] = solution if rank == Z.shape[1] else np.nan
    return effects


def conditional(posterior: Fitted, variables: str | list[str] | None = None) -> Figure:
    """Plot expected responses along each variable, the others typical, beside the data.

    Group effects are 0. A function s(x, by=g) has a curve for each of a few groups. Points are
    partial residuals under Gaussian noise: the expectation at the row's value of the variable plus
    the residual of the row. Otherwise circles are their means at a level or in a bin. Bands and
    lines are intervals of 50 and 90 %.

    Args:
        posterior: Posterior of a `bk.regression`.
        variables: Columns, a panel each; all by default.
    """
    model = regression_of(posterior)
    names = predictors(model) if variables is None else variables
    names = [names] if isinstance(names, str) else names
    response, classes = model.source.value.syntax.response, model.classes or ()
    scale = "probability" if "trials" in model.extra else "response"
    shown, residuals = response, None
    if scale == "probability" or classes:
        shown = f"probability of {response}" + (f" = {classes[1]}" if len(classes) == 2 else "")
    if len(classes) <= 2:
        y = np.asarray(model.y) / np.asarray(model.extra.get("trials", 1.0))
        residuals = y - predictions(posterior, scale=scale).draws.mean(axis=0)
    fig, axes = panels(len(names), 3, (4.2, 3.2))
    plain: list[Axes] = []
    for ax, name in zip(axes, names, strict=True):
        data, has_levels = model.source.value.frame[name], is_factor(model, name)
        x: Any = levels_of(data) if has_levels else np.linspace(data.min(), data.max(), GRID_POINTS)
        group, labels = _groups_of_curves(model, name), ["expectation"]
        lines = np.zeros(len(data), int)
        if group is None:
            grid, groups = datagrid(model, **{name: x}), "none"
            labels = labels if residuals is not None else list(map(str, classes))
        else:
            levels = levels_of(model.source.value.frame[group])
            if name in times_of_walks(model):
                x = np.unique(data)
            # The groups of a row of the grid change fastest.
            grid, groups = datagrid(model, **{group: levels, name: x}), "known"
            labels = list(map(str, levels))
            lines = pd.Index(levels).get_indexer(model.source.value.frame[group])
        at = np.arange(len(x)) if has_levels else np.asarray(x)
        draws = predictions(posterior, grid, groups=groups, scale=scale).draws
        draws = draws.reshape(len(draws), len(x), -1)
        # A mean over rows of several groups is no residual of a curve.
        if residuals is not None and (group is None or model.is_gaussian):
            rows = pd.Index(x).get_indexer(data) if has_levels else data.to_numpy(float)
            curves = [np.interp(rows, at, mean) for mean in draws.mean(axis=0).T]
            partial = np.stack(curves)[lines, np.arange(len(rows))] + residuals
            _partial_residuals(ax, rows, partial, model.is_gaussian, has_levels)
        for k, (label, color) in enumerate(zip(labels, COLORS, strict=False)):
            if has_levels:
                points(ax, at + 0.1 * k, draws[..., k], color, label)
            else:
                curve(ax, at, draws[..., k], color, label)
        tidy(ax)
        if group is None:
            plain.append(ax)
        else:
            legend = ax.legend(handles=ax.lines, title=group, frameon=False, fontsize=8)
            for words in (legend.get_title(), *legend.get_texts()):
                # Dollar signs in names are not formulas.
                words.set_parse_math(False)
        if has_levels:
            ax.margins(x=0.15)
            ax.set_xticks(at, list(map(str, x)), parse_math=False)
        ax.set(xlabel=name, ylabel=shown)
    # Effects of several variables can be compared on one scale.
    ends = np.array([ax.get_ylim() for ax in axes])
    for ax in axes:
        ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())
    if plain:
        legend_below(fig, plain[0])
    return fig


def _groups_of_curves(model: Regression, name: str) -> str | None:
    """Column of the few groups that each have a function of this variable, or None."""
    frame, classes = model.source.value.frame, model.classes or ()
    for call in model.source.value.syntax.calls:
        group = str(call.options.get("by"))
        if name in call.arguments and group in frame and len(classes) <= 2:
            return group if frame[group].nunique() <= len(COLORS) else None
    return None


def _partial_residuals(
    ax: Axes, x: np.ndarray, y: np.ndarray, each: bool, has_levels: bool
) -> None:
    """Draw partial residuals of each row, or their means at each level or in bins of x."""
    if each:
        rows = evenly(len(x), MAX_POINTS)
        # Rows of a level lie side by side.
        beside = np.random.default_rng(0).uniform(-0.12, 0.12, len(rows)) if has_levels else 0.0
        style = {"s": 9.0, "color": "#999999", "alpha": 0.6, "linewidths": 0.0}
        ax.scatter(x[rows] + beside, y[rows], **style, label="partial residuals", zorder=1)
        return
    bins = x if has_levels or len(np.unique(x)) <= BINS else pd.qcut(x, BINS, duplicates="drop")
    means: Any = pd.DataFrame({"x": x, "y": y}).groupby(bins, observed=True).mean()
    style = {"s": 26.0, "facecolors": "none", "edgecolors": "#666666", "zorder": 3}
    ax.scatter(means["x"], means["y"], **style, label="mean partial residuals")
