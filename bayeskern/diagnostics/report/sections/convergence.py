"""How the method got to its draws: chains, an approximation and its weights, a point, a solve."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import alike, counted, number
from bayeskern.diagnostics.report.blocks import Figure, Missing, Table, Text
from bayeskern.diagnostics.report.evidence import GOOD, checks
from bayeskern.diagnostics.report.sections import convergence_plots as plots
from bayeskern.diagnostics.report.style import svg
from bayeskern.diagnostics.report.wording import listed, percent
from bayeskern.inference.result import REGION

PANELS, ROWS, DIVERGENCE_ROWS = 6, 12, 6
# Shorter chains cannot be split in two.
MIN_DRAWS = 4


def convergence(subject) -> Iterator:
    p = subject.posterior
    if p is None:
        yield Missing("No method was run, so there is nothing to converge.")
    elif p.has_chains:
        yield from _chains(subject)
    elif p.is_mcmc:
        yield from _resampled(p)
    elif p.is_point:
        yield from _point(p)
    elif p.method == "exact":
        yield from _exact(p)
    else:
        yield from _approximation(subject)


# -- Markov chains ---------------------------------------------------------------------------------


def _chains(subject) -> Iterator:
    stats = subject.posterior.sample_stats
    chains, draws = np.shape(stats["diverging"])
    if draws < MIN_DRAWS:
        yield Missing(
            f"Chains of {counted(draws, 'draw')} say nothing of convergence: it takes "
            f"{MIN_DRAWS} or more, and some hundreds to be of use."
        )
        return
    names = subject.worst_first
    if not names:
        yield Missing("No number moves from draw to draw, so convergence cannot be looked at.")
        return
    yield from _mixing(subject, names)
    if chains > 1:
        yield _ranks(subject, names[:PANELS])
    else:
        yield Missing("One chain cannot be compared with others: take chains=4.")
    yield _energy(np.asarray(stats["energy"]))
    yield from _divergences(subject, np.asarray(stats["diverging"], bool))


def _resampled(posterior) -> Iterator:
    region, counts = np.unique(posterior.sample_stats[REGION], return_counts=True)
    shares = [percent(count / np.sum(counts)) for count in counts]
    yield Text(
        f"The chains sat in {counted(len(region), 'place')}. These draws were resampled from the "
        f"chains of each place by its share of the posterior ({listed(shares)}), so that they are "
        "no chains and have no R-hat. The verdict above judges the chains of each place."
    )


def _mixing(subject, names: list[str]) -> Iterator:
    worst = {name: subject.varying[name] for name in names[:ROWS]}
    table = subject.summary(worst, kind="diagnostics", round_to="none")
    yield Table(
        ("parameter", *map(str, table.columns)),
        tuple((name, *(number(v, 4) for v in table.loc[name])) for name in worst),
        f"The {len(worst)} that mix worst of {counted(len(names), 'number')}. Good: r_hat "
        f"{GOOD['rhat']}, ess_bulk and ess_tail {GOOD['ess_bulk']}.",
    )
    if subject.not_examined:
        left_out = [f"{count:,} of {site}" for site, count in subject.not_examined.items()]
        yield Text(
            f"Numbers that were not looked at here, for their size: {listed(left_out)}. The "
            "verdict above looked at all, and what it found worst was looked at here too."
        )


def _ranks(subject, names: list[str]) -> Figure:
    from arviz_stats.base import array_stats  # slow to import

    draws = {name: subject.varying[name] for name in names}
    effective = {name: float(array_stats.ess(x[None])[0]) for name, x in draws.items()}
    return Figure(
        svg(plots.ranks, draws, effective),
        "How the ranks of each chain's draws differ from evenly spread, for the numbers that "
        "mix worst. Good: every line stays within the grey band.",
    )


def _energy(energy) -> Figure:
    from arviz_stats.base import array_stats  # slow to import

    by_chain = ", ".join(f"{bfmi:.2f}" for bfmi in np.atleast_1d(array_stats.bfmi(energy)))
    return Figure(
        svg(plots.energy, energy),
        f"Energy (E-BFMI by chain: {by_chain}). Good: the two shapes are about as wide, and E-BFMI "
        f"is {GOOD['bfmi']}.",
    )


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
    for name, x in subject.varying.items():
        mean_there = x[diverging].mean()
        apart = abs(mean_there - x.mean()) / x.std()
        means = alike((mean_there, x.mean()), x.std(), 3)
        rows.append((apart, (name, *means, f"{apart:.2f}")))
    rows.sort(key=lambda row: -row[0])
    yield Table(
        ("parameter", "mean where it diverged", "mean of all", "apart, in sd"),
        tuple(cells for _, cells in rows[:DIVERGENCE_ROWS]),
        "Where the divergent draws lie, by parameter. Those far apart point at the narrow place "
        "to reparametrise.",
    )


# -- approximations --------------------------------------------------------------------------------


def _approximation(subject) -> Iterator:
    p = subject.posterior
    rows = checks(p.trust.evidence, subject.label_of)
    if rows:
        yield Table(("check", "value", "worst at", "good"), rows)
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
    if _has_improper_prior(subject):
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


def _has_improper_prior(subject) -> bool:
    if subject.has_model:
        return bool(subject.posterior.target.without_prior)
    # Without its model a posterior shows it by having no draws from the prior.
    return not subject.has_prior_draws


def _log_weights(p) -> np.ndarray | None:
    if p.weighted is not None:
        return p.weighted[1]
    return None if p.importance_weights is None else p.importance_weights.log


def _weights(subject) -> Iterator:
    log_weights = _log_weights(subject.posterior)
    if log_weights is None or not np.isfinite(log_weights).any():
        yield Missing("The density of these draws is not known, or overflows: they are unweighted.")
        return
    w = np.exp(log_weights)
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
    optimum = p.optimum
    if optimum is None:
        yield Missing("The point was found by the model's own solver, which left no trace.")
        return
    smallest = float(np.min(optimum.eigenvalues))
    rows = [
        ("largest slope", number(optimum.gradient_norm), "next to 0"),
        ("distance to the mode, in sd", number(optimum.distance), "below 0.01"),
        ("smallest curvature", number(smallest), "above 0"),
        ("starts that agree", f"{optimum.agreeing} of {optimum.starts}", "most of them"),
        ("other modes found", str(len(optimum.others)), GOOD["modes_missed"]),
    ]
    yield Table(("check", "value", "good"), tuple(rows))
    if len(optimum.eigenvalues) > 1 and np.isfinite(optimum.eigenvalues).all():
        yield Figure(
            svg(plots.curvature, optimum.eigenvalues),
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
            (("relative residual of the linear solve", number(residual), GOOD["residual"]),),
        )
