"""How the method got to its draws: chains, an approximation and its weights, a point, a solve."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import alike, counted, number
from bayeskern.diagnostics.report.blocks import (
    Figure,
    Missing,
    Table,
    Text,
    khat,
    listed,
    percent,
)
from bayeskern.diagnostics.report.sections import convergence_plots as plots
from bayeskern.diagnostics.report.style import svg

PANELS, ROWS = 6, 12
# Shorter chains cannot be split in two.
SHORTEST = 4


def convergence(subject) -> Iterator:
    p = subject.posterior
    if p is None:
        yield Missing("No method was run, so there is nothing to converge.")
    elif subject.is_mcmc:
        yield from _chains(subject)
    elif p.is_point:
        yield from _point(p)
    elif p.method == "exact":
        yield from _exact(p)
    else:
        yield from _approximation(subject)


# -- Markov chains ---------------------------------------------------------------------------------


def _chains(subject) -> Iterator:
    from arviz_stats.base import array_stats

    stats = subject.posterior.sample_stats
    chains, count = np.shape(stats["diverging"])
    if count < SHORTEST:
        yield Missing(
            f"Chains of {counted(count, 'draw')} say nothing of convergence: it takes "
            f"{SHORTEST} or more, and some hundreds to be of use."
        )
        return
    names = subject.by_badness
    if not names:
        yield Missing("No number moves from draw to draw, so convergence cannot be looked at.")
        return
    worst = {name: subject.moving[name] for name in names[:ROWS]}
    table = subject.summary(worst, kind="diagnostics", round_to="none")
    yield Table(
        ("parameter", *map(str, table.columns)),
        tuple((name, *(number(v, 4) for v in table.loc[name])) for name in worst),
        f"The {len(worst)} that mix worst of {counted(len(names), 'number')}. Good: r_hat "
        "below 1.01, ess_bulk and ess_tail above 400.",
    )
    if subject.unseen:
        left = [f"{count:,} of {site}" for site, count in subject.unseen.items()]
        yield Text(
            f"Numbers that were not looked at here, for their size: {listed(left)}. The verdict "
            "above looked at all, and what it found worst was looked at here too."
        )
    if chains > 1:
        shown = names[:PANELS]
        effective = {n: float(array_stats.ess(subject.moving[n][None])[0]) for n in shown}
        yield Figure(
            svg(plots.ranks, {n: subject.moving[n] for n in shown}, effective),
            "How the ranks of each chain's draws differ from evenly spread, for the numbers that "
            "mix worst. Good: every line stays within the grey band.",
        )
    else:
        yield Missing("One chain cannot be compared with others: take chains=4.")
    bfmi = array_stats.bfmi(np.asarray(stats["energy"]))
    yield Figure(
        svg(plots.energy, np.asarray(stats["energy"])),
        f"Energy (E-BFMI by chain: {', '.join(f'{b:.2f}' for b in np.atleast_1d(bfmi))}). Good: "
        "the two shapes are about as wide, and E-BFMI is above 0.3.",
    )
    yield from _divergences(subject, np.asarray(stats["diverging"], bool))


def _divergences(subject, diverging) -> Iterator:
    total = int(diverging.sum())
    if total == 0:
        yield Text(f"None of the {diverging.size:,} draws diverged.")
        return
    by_chain = ", ".join(str(int(c.sum())) for c in diverging)
    yield Text(
        f"{total} of {diverging.size:,} draws diverged (by chain: {by_chain}): the sampler could "
        "not follow the posterior there, and may have missed what lies beyond."
    )
    rows = []
    for name, x in subject.moving.items():
        inside = x[diverging]
        rows.append((abs(inside.mean() - x.mean()) / x.std(), name, inside, x))
    rows.sort(key=lambda row: -row[0])
    yield Table(
        ("parameter", "mean where it diverged", "mean of all", "apart, in sd"),
        tuple(
            (name, *alike((inside.mean(), x.mean()), x.std(), 3), f"{apart:.2f}")
            for apart, name, inside, x in rows[:6]
        ),
        "Where the divergent draws lie, by parameter. Those far apart point at the narrow place "
        "to reparametrise.",
    )


# -- approximations --------------------------------------------------------------------------------

MEANINGS = {
    "khat": ("k-hat of the weights", "below {threshold}"),
    "ess_of_weights": ("effective draws after weighting", "above 400"),
    "distinct_draws": ("distinct draws", "close to all"),
    "own_khat": ("k-hat of these draws alone", "below {threshold}"),
    "wider_khat": ("k-hat of a wider sample", "below {threshold}"),
    "wider_ess": ("effective draws of the wider sample", "above 400"),
    "mean_shift": ("largest shift of a mean by weighting, in sd", "below 0.25"),
    "log_sd_ratio": ("largest change of a log sd by weighting", "below 0.22"),
    "ks": ("largest distance of distribution functions", "below 0.1"),
    "modes_missed": ("modes found but not covered", "0"),
    "inner_khat": ("k-hat of the latent function", "below 0.7"),
}


def _approximation(subject) -> Iterator:
    p = subject.posterior
    evidence = p.trust.evidence
    threshold = number(evidence.get("khat_threshold", 0.7), 2)
    rows = [
        (
            says,
            khat(evidence[name]) if name.endswith("khat") else number(evidence[name]),
            subject.renamed.get(at := str(evidence.get(f"{name}_at", "")), at),
            good.format(threshold=threshold),
        )
        for name, (says, good) in MEANINGS.items()
        if isinstance(evidence.get(name), int | float)
    ]
    if rows:
        yield Table(("check", "value", "worst at", "good"), tuple(rows))
    else:
        yield Missing("The method kept no measure of how far its draws can be trusted.")
    yield from _evidence_gap(subject)
    if "elbo" in p.trace and len(p.trace["elbo"]) > 1:
        yield Figure(
            svg(plots.elbo, np.asarray(p.trace["elbo"], float)),
            "The ELBO as the approximation was fitted. Good: it rises and then stays level for a "
            "long while.",
        )
    yield from _weights(subject)


def _evidence_gap(subject) -> Iterator:
    p, rows = subject.posterior, []
    if _is_improper(subject):
        yield Missing(
            "A prior that cannot be normalised, or none, leaves the evidence without a scale, so "
            "neither it nor a gap to it is shown."
        )
        return
    if p.elbo is not None:
        rows.append(("ELBO, at most the log evidence", repr(p.elbo)))
    if p.log_evidence is not None:
        rows.append(("log evidence", repr(p.log_evidence)))
    by_weights = p.trust.evidence.get("log_evidence_is")
    if by_weights is not None and p.elbo is not None:
        rows.append(("log evidence by importance sampling", f"{by_weights:.6g}"))
        rows.append(("gap", number(by_weights - p.elbo.value)))
    if rows:
        yield Table(
            ("evidence", "value"),
            tuple(rows),
            "Good: the gap between the ELBO and the log evidence is well below 1.",
        )


def _is_improper(subject) -> bool:
    """Whether a prior is; of a posterior without its model it is seen by there being no draws."""
    if subject.has_model:
        return bool(subject.posterior.target.without_prior)
    return not subject.prior


def _weights(subject) -> Iterator:
    p = subject.posterior
    log = p.weighted[1] if p.weighted is not None else subject.log_weights
    if log is None or not np.isfinite(log).any():
        yield Missing("The density of these draws is not known, or overflows: they are unweighted.")
        return
    w = np.exp(log)
    top = np.sort(w)[::-1][: max(1, len(w) // 100)].sum()
    yield Figure(
        svg(plots.weights, w / w.sum()),
        f"The heaviest 1 % of the draws carry {percent(float(top))} of the weight. Good: the line "
        "stays close to the dashed one; a few draws that carry it all would mean nothing.",
    )


# -- points and closed forms -----------------------------------------------------------------------


def _point(p) -> Iterator:
    yield Text(
        "This is a single point, such as a mode: it has no spread, so nothing can be said of its "
        "uncertainty. What can be checked is whether the optimiser got there."
    )
    o = p.optimum
    if o is None:
        yield Missing("The point was found by the model's own solver, which left no trace.")
        return
    smallest = float(np.min(o.eigenvalues))
    rows = [
        ("largest slope", number(o.gradient_norm), "next to 0"),
        ("distance to the mode, in sd", number(o.distance), "below 0.01"),
        ("smallest curvature", number(smallest), "above 0"),
        ("starts that agree", f"{o.agreeing} of {o.starts}", "most of them"),
        ("other modes found", str(len(o.others)), "0"),
    ]
    yield Table(("check", "value", "good"), tuple(rows))
    if len(o.eigenvalues) > 1 and np.isfinite(o.eigenvalues).all():
        yield Figure(
            svg(plots.curvature, o.eigenvalues),
            "Curvature of the log density at the point, by direction. Good: all are dots; a cross "
            "is a direction without curvature, which the data and the prior leave open.",
        )


def _exact(p) -> Iterator:
    yield Text("The posterior is known in closed form: its draws are independent and exact.")
    residual = p.trust.evidence.get("residual")
    if residual is None:
        yield Missing("No linear system was solved for it.")
    else:
        yield Table(
            ("check", "value", "good"),
            (("relative residual of the linear solve", number(residual), "below 1e-6"),),
        )
