"""Convergence: chains, an approximation and its weights, a point, or a solve."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from arviz_stats.base.array import array_stats

from bayeskern.core.formatting import alike, number
from bayeskern.diagnostics.report.blocks import Block
from bayeskern.diagnostics.report.evidence import measures
from bayeskern.diagnostics.report.figures import convergence as plots
from bayeskern.diagnostics.report.figures.style import drawn
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.inference import Posterior
from bayeskern.inference.result import REGION

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
        yield from _point(p)
    elif p.method == "exact":
        yield block("exact", residual=p.trust.evidence.get("residual"))
    else:
        yield from _approximation(subject)


# -- Markov chains ---------------------------------------------------------------------------------


def _chains(subject: Subject, panels: int = 6, min_draws: int = 4) -> Iterator[Block]:
    """min_draws: shorter chains cannot be split in two."""
    stats = subject.posterior.sample_stats
    chains, draws = np.shape(stats["diverging"])
    if draws < min_draws:
        yield block("short_chains", draws=draws, min_draws=min_draws)
        return
    names = subject.worst_first
    if not names:
        yield block("no_variation")
        return
    yield _mixing(subject, names[:12])
    if subject.not_examined:
        yield block("not_examined", counts=subject.not_examined)
    if chains > 1:
        values = {name: subject.varying[name] for name in names[:panels]}
        ess = {name: float(array_stats.ess(x[None])[0]) for name, x in values.items()}
        yield block("ranks", figure=drawn(plots.ranks, values, ess))
    else:
        yield block("single_chain")
    energy = np.asarray(stats["energy"])
    bfmi = np.atleast_1d(array_stats.bfmi(energy))
    yield block("energy", figure=drawn(plots.energy, energy), bfmi=bfmi)
    yield from _divergences(subject, np.asarray(stats["diverging"], bool))


def _mixing(subject: Subject, names: list[str]) -> Block:
    """R-hat and effective sample sizes of some parameters."""
    draws = {name: subject.varying[name] for name in names}
    summary = subject.summary(draws, kind="diagnostics", round_to="none")
    return block(
        "mixing",
        head=("parameter", *map(str, summary.columns)),
        rows=[(name, *(number(v, 4) for v in summary.loc[name])) for name in names],
        total=len(subject.varying),
    )


def _divergences(subject: Subject, diverging: np.ndarray, max_rows: int = 6) -> Iterator[Block]:
    """Number of divergent draws, and the parameters whose mean is unusual there."""
    yield block("divergences", diverging=diverging)
    if not diverging.any():
        return
    rows = []
    for name, x in subject.varying.items():
        mean_there = x[diverging].mean()
        distance = abs(mean_there - x.mean()) / x.std()
        means = alike((mean_there, x.mean()), x.std(), 3)
        rows.append((distance, (name, *means, f"{distance:.2f}")))
    rows.sort(key=lambda row: -row[0])
    yield block("divergent_means", rows=[cells for _, cells in rows[:max_rows]])


# -- approximations --------------------------------------------------------------------------------


def _approximation(subject: Subject) -> Iterator[Block]:
    p = subject.posterior
    yield block("checks", e=measures(p.trust.evidence, subject.label_of))
    if subject.has_improper_prior:
        yield block("no_evidence")
    else:
        yield block(
            "evidence",
            elbo=p.elbo,
            log_evidence=p.log_evidence,
            by_weights=p.trust.evidence.get("log_evidence_is"),
        )
    if "elbo" in p.trace and len(p.trace["elbo"]) > 1:
        yield block("elbo", figure=drawn(plots.elbo, np.asarray(p.trace["elbo"], float)))
    log_weights = p.importance_weights.log if p.importance_weights is not None else None
    if p.weighted is not None:
        log_weights = p.weighted[1]
    if log_weights is None or not np.isfinite(log_weights).any():
        yield block("no_weights")
        return
    w = np.exp(log_weights)
    top = float(np.sort(w)[::-1][: max(1, len(w) // 100)].sum())
    yield block("weights", figure=drawn(plots.weights, w / w.sum()), top=top)


# -- points ----------------------------------------------------------------------------------------


def _point(p: Posterior) -> Iterator[Block]:
    optimum = p.optimum
    yield block("point", optimum=optimum)
    if optimum is None:
        return
    eigenvalues = np.asarray(optimum.eigenvalues)
    if len(eigenvalues) > 1 and np.isfinite(eigenvalues).all():
        yield block("curvature", figure=drawn(plots.curvature, eigenvalues))
