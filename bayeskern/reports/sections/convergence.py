"""Section on the convergence of chains, approximations, optima and solvers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from bayeskern.core.formatting import alike, number
from bayeskern.core.plotting import BLUE, COLORS
from bayeskern.inference.result import REGION
from bayeskern.reports.blocks import Block, folded
from bayeskern.reports.style import (
    GREY,
    as_svg,
    label_ranks,
    legend_above,
    panel,
    panels,
    title,
)
from bayeskern.reports.subject import Subject

block = partial(Block, "convergence")


def convergence(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Convergence"."""
    p = subject.posterior
    if p.has_chains:
        yield from _chains(subject)
    elif p.is_mcmc:
        regions, counts = np.unique(p.sample_stats[REGION], return_counts=True)
        yield block("resampled", regions=len(regions), shares=counts / np.sum(counts))
    elif p.is_point:
        yield block("point")
        yield from folded("Checks of the optimum", [block("optimum", optimum=p.optimum)])
    elif p.method == "exact":
        yield block("exact", residual=p.trust.evidence.get("residual"))
    else:
        yield from _approximation(subject)


# -- Markov chains ---------------------------------------------------------------------------------


def _chains(subject: Subject) -> Iterator[Block]:
    stats = subject.posterior.sample_stats
    chains, draws = subject.posterior.shape
    if draws < 4:
        # Shorter chains cannot be split in two.
        yield block("short_chains", draws=draws)
        return
    names = subject.worst_first
    if not names:
        yield block("no_variation")
        return
    if subject.not_examined:
        yield block("not_examined", counts=subject.not_examined)
    yield block("chains", e=subject.posterior.trust.evidence)
    if chains == 1:
        yield block("single_chain")
    if "diverging" not in stats:
        yield block("steps_unknown")
    yield from folded("Mixing of the chains", _chain_details(subject, names))


def _chain_details(subject: Subject, names: list[str]) -> Iterator[Block]:
    """Mixing by parameter, ranks, energy and divergences of the chains."""
    from arviz_stats.base.array import array_stats  # slow to import

    stats = subject.posterior.sample_stats
    yield _mixing(subject, names[:12])
    if subject.posterior.shape[0] > 1:
        yield block("ranks", figure=as_svg(ranks, {n: subject.varying[n] for n in names[:6]}))
    if "energy" in stats:
        yield block("energy", bfmi=np.atleast_1d(array_stats.bfmi(np.asarray(stats["energy"]))))
    if "diverging" in stats:
        yield from _divergences(subject, np.asarray(stats["diverging"], bool))


def _mixing(subject: Subject, names: list[str]) -> Block:
    """R-hat and effective sample sizes of some parameters."""
    draws = {name: subject.varying[name] for name in names}
    summary = subject.summary(draws, kind="diagnostics")
    return block(
        "mixing",
        head=("parameter", *map(str, summary.columns)),
        rows=[(name, *(number(v, 4) for v in summary.loc[name])) for name in names],
        total=len(subject.varying),
    )


def _divergences(subject: Subject, diverging: np.ndarray) -> Iterator[Block]:
    """Number of divergent draws, and parameters whose means are unusual there."""
    yield block("divergences", diverging=diverging)
    if not diverging.any():
        return
    rows = []
    for name, x in subject.varying.items():
        mean_divergent = x[diverging].mean()
        distance = abs(mean_divergent - x.mean()) / x.std()
        means = alike((mean_divergent, x.mean()), x.std(), 3)
        rows.append((distance, (name, *means, f"{distance:.2f}")))
    rows.sort(key=lambda row: -row[0])
    yield block("divergent_means", rows=[cells for _, cells in rows[:6]])


# -- approximations --------------------------------------------------------------------------------


def _approximation(subject: Subject) -> Iterator[Block]:
    p, by_weights = subject.posterior, subject.posterior.trust.evidence.get("log_evidence_is")
    log_weights = p.importance_weights.log if p.importance_weights is not None else None
    if p.weighted is not None:
        log_weights = p.weighted[1]
    if log_weights is None or not np.isfinite(log_weights).any():
        yield block("no_weights")
    else:
        w = np.sort(np.exp(log_weights))[::-1]
        yield block("weights", top=float(w[: max(1, len(w) // 100)].sum()))
    evidence = {"elbo": p.elbo, "by_weights": by_weights}
    details = []
    if subject.has_improper_prior:
        yield block("no_evidence")
    else:
        yield block("gap", **evidence)
        if p.elbo is not None or p.log_evidence is not None:
            details.append(block("evidence", log_evidence=p.log_evidence, **evidence))
    if "elbo" in p.trace and len(p.trace["elbo"]) > 1:
        details.append(block("elbo", figure=as_svg(elbo, np.asarray(p.trace["elbo"], float))))
    yield from folded("Log evidence and the ELBO", details)


# -- figures ---------------------------------------------------------------------------------------


def ranks(draws: dict[str, np.ndarray]) -> Figure:
    """Plot the ECDF of the ranks of each chain minus the uniform ECDF, by parameter.

    draws: Draws (chains, draws) by parameter.
    """
    columns = 3
    fig, axes = panels(len(draws), columns=columns, height=1.5, sharex=True)
    for ax, (name, x) in zip(axes, draws.items(), strict=True):
        _ranks_of_chains(ax, x)
        title(ax, name)
        ax.tick_params(labelsize=7.5)
    label_ranks(axes, columns)
    legend_above(fig, axes[0])
    return fig


def _ranks_of_chains(ax, x: np.ndarray) -> None:
    from arviz_stats.base.array import array_stats  # slow to import
    from scipy.stats import rankdata  # slow to import

    ess = float(array_stats.ess(x[None])[0])
    grid = np.linspace(0.0, 1.0, 60)
    shares = (rankdata(x).reshape(x.shape) - 0.5) / x.size
    # Band around 0: the 99 % quantile of Kolmogorov's distribution over the square root of the
    # effective draws per chain; 99 % because several chains are compared.
    width = 1.63 / np.sqrt(max(ess, 4.0) / len(x))
    ax.fill_between(grid, -width, width, color=GREY, alpha=0.25, linewidth=0)
    ecdfs = [np.searchsorted(np.sort(chain), grid) / len(chain) for chain in shares]
    for i, ecdf in enumerate(ecdfs):
        # The first six colours differ from the ink and the paper of the page.
        color = COLORS[i % 6]
        ax.plot(grid, ecdf - grid, color=color, linewidth=1.1, label=f"chain {i + 1}")
    largest = np.abs(np.array(ecdfs) - grid).max()
    height = 1.1 * largest if largest > 1.9 * width else 2.0 * width
    ax.set_ylim(-height, height)


def elbo(trace: np.ndarray) -> Figure:
    """Plot the ELBO by step, averaged over blocks of steps."""
    fig, ax = panel(2.2)
    parts = np.array_split(np.arange(len(trace)), min(len(trace), 300))
    means = np.array([np.mean(trace[part]) for part in parts])
    ax.plot([np.mean(part) for part in parts], means, color=BLUE)
    finite = means[np.isfinite(means)]
    last = finite[len(finite) // 2 :]
    spread = max(float(np.ptp(last)), 1e-3 * (1.0 + abs(float(np.median(last)))))
    # The axis cuts off low first values, at 12 times the range of the second half.
    low = max(float(finite.min()), float(np.median(last)) - 12.0 * spread)
    ax.set_ylim(low - 0.5 * spread, float(finite.max()) + 0.5 * spread)
    ax.set_xlabel("step")
    ax.set_ylabel("ELBO")
    return fig
