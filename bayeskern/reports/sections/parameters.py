"""Posterior in figures and tables: intervals, prior against posterior, pairs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import short
from bayeskern.core.plotting import BLUE, ORANGE, figure
from bayeskern.diagnostics.drawing import density, interval
from bayeskern.inference.posterior.summary import texts
from bayeskern.reports.blocks import Block, folded
from bayeskern.reports.style import (
    FIGURE_INCHES,
    GREY,
    as_svg,
    curve,
    legend_above,
    panels,
    points,
    title,
)
from bayeskern.reports.subject import ScalarParameter, Subject

block = partial(Block, "parameters")
# Maximum number of rows of the first table.
MAX_TABLE_ROWS = 20
# Maximum number of intervals in the figure of intervals.
MAX_INTERVALS = 40
# Maximum number of densities in the main figure.
MAX_DENSITIES = 3


def main_figure(subject: Subject) -> str:
    """Name of the main figure of a posterior: "prior", "intervals", or "" for none."""
    names = subject.first_of_each_site(MAX_INTERVALS)
    if subject.posterior.is_point or not names:
        return ""
    are_few = len(names) <= MAX_DENSITIES
    return "prior" if are_few and subject.has_model else "intervals"


def figures(subject: Subject, name: str) -> Iterator[Block]:
    """Figure with a name from `main_figure`, or the reason why there is none."""
    if subject.posterior.is_point:
        yield block("point")
    elif not subject.varying:
        yield block("no_variation")
    elif name == "prior":
        yield from _against_prior(subject)
    else:
        names = subject.first_of_each_site(MAX_INTERVALS)
        left_out = len(subject.varying) + subject.not_examined.total() - len(names)
        figure = as_svg(forest, _joined(subject, names))
        yield block("intervals", figure=figure, left_out=left_out)


def table(subject: Subject) -> Iterator[Block]:
    """Mean, sd and interval of the first parameters.

    Sites with more than 100 elements are only named.
    """
    shown, large = _in_tables(subject)
    if shown:
        first = shown[:MAX_TABLE_ROWS]
        kind = "stats" if subject.posterior.is_mcmc else None
        table = _summary(subject, first, kind)
        columns = [str(c) for c in table.columns]
        ends = [c for c in columns if c.startswith("eti")]
        others = [c for c in columns if c not in ends]
        rows = []
        for name in table.index:
            cells = dict(zip(columns, texts(table.loc[name]), strict=True))
            interval = [" to ".join(cells[c] for c in ends)] if ends else []
            rows.append((name, *(cells[c] for c in others), *interval))
        level = [f"{ends[0][3:].partition('_')[0]} % interval"] if ends else []
        yield block("summary", head=("parameter", *others, *level), rows=rows)
    if large:
        yield block("large_sites", sites=large)


def more(subject: Subject, shown: str) -> Iterator[Block]:
    """Whole table, intervals, priors and pairs, in folds.

    shown: Name of the main figure, which is not repeated.
    """
    in_tables, _ = _in_tables(subject)
    if len(in_tables) > MAX_TABLE_ROWS or (in_tables and subject.posterior.has_chains):
        yield from folded("Table of all parameters", _whole_table(subject, in_tables))
    if subject.posterior.is_point or not subject.varying:
        return
    if shown != "intervals":
        yield from folded("Intervals", figures(subject, "intervals"))
    if shown != "prior":
        yield from folded("Prior against posterior", _against_prior(subject))
    if len(subject.worst_first) > 1:
        yield from folded("Pairs of parameters", _pairs(subject))


def _joined(subject: Subject, names: list[str]) -> dict[str, np.ndarray]:
    """Draws of parameters, (S,) each, with chains joined."""
    return {name: subject.varying[name].ravel() for name in names}


def _in_tables(subject: Subject) -> tuple[list[ScalarParameter], list[str]]:
    """Parameters of sites with at most 100 elements, and the other sites."""
    large = [site for site, values in subject.posterior.flat.items() if values[0].size > 100]
    return [p for p in subject.parameters if p.site not in large], large


def _whole_table(subject: Subject, shown: list[ScalarParameter]) -> Iterator[Block]:
    table = _summary(subject, shown[:60])
    yield block(
        "all_parameters",
        head=("parameter", *map(str, table.columns)),
        rows=[(name, *texts(table.loc[name])) for name in table.index],
        more=len(shown) - len(table),
    )


def _summary(subject: Subject, shown: list[ScalarParameter], kind: str | None = None) -> Any:
    """Table of `posterior.summary` for some parameters."""
    known = {p.name: m for p in shown if (m := subject.known_marginal(p)) is not None}
    draws = {p.name: subject.draws(p) for p in shown}
    return subject.summary(draws, known, **({} if kind is None else {"kind": kind}))


def _against_prior(subject: Subject) -> Iterator[Block]:
    if not subject.has_model:
        yield block("no_model")
        return
    densities = {}
    names = subject.first_of_each_site(12)
    for name in names:
        low, high = np.quantile(subject.varying[name], (0.002, 0.998))
        pad = 1.5 * (high - low)
        x = np.linspace(low - pad, high + pad, 200)
        densities[name] = (x, subject.prior_density(name, x))
    if all(y is None for _, y in densities.values()):
        yield block("no_proper_prior")
        return
    exact = {}
    for name in names:
        if (known := subject.known_marginal(subject.by_name[name])) is not None:
            low, high = known.scipy.ppf((0.001, 0.999))
            x = np.linspace(low, high, 200)
            exact[name] = (x, known.scipy.pdf(x))
    figure = as_svg(against_prior, _joined(subject, names), densities, exact)
    yield block("against_prior", figure=figure)


def _pairs(subject: Subject) -> Iterator[Block]:
    names = subject.worst_first[:4]
    diverging = np.ravel(subject.posterior.sample_stats.get("diverging", False)).astype(bool)
    figure = as_svg(pairs, _joined(subject, names), diverging if diverging.any() else None)
    yield block("pairs", figure=figure, marked=diverging.any())


# -- figures ---------------------------------------------------------------------------------------


def against_prior(
    draws: dict[str, np.ndarray],
    priors: dict[str, tuple[np.ndarray, np.ndarray | None]],
    exact: dict[str, tuple[np.ndarray, np.ndarray]],
) -> Figure:
    """Plot posterior densities over priors (x, density), if known.

    Args:
        draws: Draws (S,) of each parameter, for an estimate of its density.
        priors: (x, density) of each prior.
        exact: (x, density) of each posterior that is known.
    """
    fig, axes = panels(len(draws), columns=3, height=1.5)
    for ax, (name, sample) in zip(axes, draws.items(), strict=True):
        posterior = exact.get(name) or density(sample, *np.quantile(sample, (0.002, 0.998)))
        if posterior is not None:
            curve(ax, *posterior, BLUE, "posterior")
        x, prior = priors[name]
        if prior is not None:
            # The tails of the prior would squeeze the posterior.
            shown = prior > 0.01 * np.nanmax(prior)
            ax.plot(x[shown], prior[shown], color=GREY, linestyle="--", label="prior")
        title(ax, name)
        ax.set_yticks([])
        ax.set_ylim(bottom=0.0)
        ax.spines["left"].set_visible(False)
        ax.grid(visible=False)
        ax.locator_params(axis="x", nbins=4)
        ax.tick_params(labelsize=8)
    legend_above(fig, *axes)
    return fig


def forest(draws: dict[str, np.ndarray]) -> Figure:
    """Plot the median, 50 % and 95 % intervals of each parameter from draws (S,)."""
    levels = (0.025, 0.25, 0.5, 0.75, 0.975)
    quantiles = {name: np.quantile(x, levels) for name, x in draws.items()}
    groups = _by_size(quantiles)
    heights = [len(names) + 1.5 for names in groups]
    fig = figure((FIGURE_INCHES, 0.3 + 0.21 * sum(heights)))
    axes = fig.subplots(len(groups), 1, squeeze=False, height_ratios=heights).ravel()
    for ax, names in zip(axes, groups, strict=True):
        for i, name in enumerate(names):
            interval(ax, i, quantiles[name], BLUE)
        ax.set_yticks(range(len(names)), [short(name, 26) for name in names], fontsize=8.5)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
    return fig


def _by_size(quantiles: dict[str, np.ndarray]) -> list[list[str]]:
    """Group names by the size of their values, so that no interval shrinks to a dot."""
    groups: dict[int, list[str]] = {}
    for name, values in quantiles.items():
        size = np.max(np.abs(values))
        groups.setdefault(int(np.round(np.log10(max(size, 1e-300)) / 1.5)), []).append(name)
    return list(groups.values())


def pairs(columns: dict[str, np.ndarray], diverging: np.ndarray | None) -> Figure:
    """Plot draws (S,) of all pairs of parameters; divergent draws are marked."""
    names = list(columns)
    n = len(names) - 1
    fig, axes = panels(n * n, columns=n, height=min(1.5, FIGURE_INCHES / n))
    for i, row in enumerate(names[1:]):
        for j, column in enumerate(names[:-1]):
            ax = axes[n * i + j]
            ax.set_visible(j <= i)
            ax.tick_params(labelsize=7)
            ax.grid(visible=False)
            ax.locator_params(nbins=3)
            x, y = columns[column], columns[row]
            keep = evenly(len(x), 1500)
            points(ax, x[keep], y[keep], size=3, alpha=0.35)
            if diverging is not None:
                points(ax, x[diverging], y[diverging], ORANGE, size=12, alpha=1.0)
            if i == n - 1:
                ax.set_xlabel(short(column, 18), fontsize=8)
            if j == 0:
                ax.set_ylabel(short(row, 18), fontsize=8)
    return fig
