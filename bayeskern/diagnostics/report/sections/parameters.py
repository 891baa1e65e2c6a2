"""The posterior: table, intervals, prior against posterior, pairs of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import short
from bayeskern.core.plotting import BLUE, ORANGE, figure
from bayeskern.diagnostics.drawing import density, interval
from bayeskern.diagnostics.report.blocks import Block, heading
from bayeskern.diagnostics.report.style import (
    GREY,
    WIDTH,
    as_svg,
    curve,
    legend_above,
    panels,
    points,
    title,
)
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.inference.posterior.summary import texts

block = partial(Block, "parameters")


def parameters(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Posterior"."""
    yield from _table(subject)
    if subject.posterior.is_point:
        yield block("point")
        return
    names = subject.first_of_each_site(40)
    if not names:
        yield block("no_variation")
        return
    yield block(
        "intervals",
        figure=as_svg(forest, _joined(subject, names)),
        left_out=len(subject.varying) + subject.not_examined.total() - len(names),
    )
    yield heading("Prior against posterior")
    yield from _against_prior(subject)
    yield heading("Pairs")
    yield from _pairs(subject)


def _joined(subject: Subject, names: list[str]) -> dict[str, np.ndarray]:
    """The draws of parameters, (S,) each, with chains joined."""
    return {name: subject.varying[name].ravel() for name in names}


def _table(subject: Subject) -> Iterator[Block]:
    """Summary table of the first parameters; sites of more than 100 are only named."""
    large = [site for site, values in subject.posterior.flat.items() if values[0].size > 100]
    shown = [p for p in subject.parameters if p.site not in large]
    if shown:
        summary = subject.summary({p.name: subject.draws(p) for p in shown[:60]})
        yield block(
            "summary",
            head=("parameter", *map(str, summary.columns)),
            rows=[(name, *texts(summary.loc[name])) for name in summary.index],
            more=len(shown) - len(summary),
        )
    if large:
        yield block("large_sites", sites=large)


def _against_prior(subject: Subject) -> Iterator[Block]:
    if not subject.has_model:
        yield block("no_model")
        return
    priors = {}
    names = subject.first_of_each_site(12)
    for name in names:
        low, high = np.quantile(subject.varying[name], (0.002, 0.998))
        pad = 1.5 * (high - low)
        x = np.linspace(low - pad, high + pad, 200)
        priors[name] = (x, subject.prior_density(name, x))
    if all(y is None for _, y in priors.values()):
        yield block("no_proper_prior")
        return
    figure = as_svg(against_prior, _joined(subject, names), priors)
    yield block("against_prior", figure=figure)


def _pairs(subject: Subject) -> Iterator[Block]:
    names = subject.worst_first[:4]
    if len(names) < 2:
        yield block("no_pairs")
        return
    diverging = np.ravel(subject.posterior.sample_stats.get("diverging", False)).astype(bool)
    figure = as_svg(pairs, _joined(subject, names), diverging if diverging.any() else None)
    yield block("pairs", figure=figure, marked=diverging.any())


# -- figures ---------------------------------------------------------------------------------------


def against_prior(
    draws: dict[str, np.ndarray], priors: dict[str, tuple[np.ndarray, np.ndarray | None]]
) -> Figure:
    """Plot posterior densities from draws (S,) over priors (x, density), if known."""
    fig, axes = panels(len(draws), columns=3, height=1.5)
    for ax, (name, sample) in zip(axes, draws.items(), strict=True):
        posterior = density(sample, *np.quantile(sample, (0.002, 0.998)))
        if posterior is not None:
            curve(ax, *posterior, BLUE, "posterior")
        x, prior = priors[name]
        if prior is not None:
            # Without the tails of the prior, which would squeeze the posterior.
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
    """Median, 50 % and 95 % interval of each parameter from draws (S,)."""
    levels = (0.025, 0.25, 0.5, 0.75, 0.975)
    quantiles = {name: np.quantile(x, levels) for name, x in draws.items()}
    groups = _by_size(quantiles)
    heights = [len(names) + 1.5 for names in groups]
    fig = figure((WIDTH, 0.3 + 0.21 * sum(heights)))
    axes = fig.subplots(len(groups), 1, squeeze=False, height_ratios=heights).ravel()
    for ax, names in zip(axes, groups, strict=True):
        for i, name in enumerate(names):
            interval(ax, i, quantiles[name], BLUE)
        ax.set_yticks(range(len(names)), [short(name, 28) for name in names], fontsize=8.5)
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
    fig, axes = panels(n * n, columns=n, height=min(1.5, WIDTH / n))
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
