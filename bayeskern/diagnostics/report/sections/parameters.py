"""The posterior: a table, intervals, prior against posterior, and pairs of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bayeskern.diagnostics.report.blocks import Block, heading
from bayeskern.diagnostics.report.figures import parameters as plots
from bayeskern.diagnostics.report.figures.style import drawn
from bayeskern.diagnostics.report.priors import DensityCurve, density_of_draws
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
        figure=drawn(plots.forest, _joined(subject, names)),
        left_out=len(subject.varying) + sum(subject.not_examined.values()) - len(names),
    )
    yield heading("Prior against posterior")
    yield from _against_prior(subject)
    yield heading("Pairs")
    yield from _pairs(subject)


def _joined(subject: Subject, names: list[str]) -> dict[str, np.ndarray]:
    """The draws of parameters, (S,) each, with chains joined."""
    return {name: subject.varying[name].ravel() for name in names}


def _table(subject: Subject, max_rows: int = 60, max_site_size: int = 100) -> Iterator[Block]:
    """Summary table; larger sites than `max_site_size` are only named."""
    flat, draws = subject.posterior.flat, subject.posterior.draws
    sizes = {site: values[0].size for site, values in flat.items()}
    columns = {
        subject.names[site][i]: draws[site].reshape(*draws[site].shape[:2], -1)[..., i]
        for site, size in sizes.items()
        if size <= max_site_size
        for i in range(size)
    }
    if columns:
        rows = dict(list(columns.items())[:max_rows])
        summary = subject.summary(rows, round_to="none")
        yield block(
            "summary",
            head=("parameter", *map(str, summary.columns)),
            rows=[(name, *texts(summary.loc[name])) for name in rows],
            more=len(columns) - len(rows),
        )
    large = [site for site, size in sizes.items() if size > max_site_size]
    if large:
        yield block("large_sites", sites=large)


def _against_prior(subject: Subject) -> Iterator[Block]:
    if not subject.has_model:
        yield block("no_model")
        return
    names = subject.first_of_each_site(12)
    densities = {name: _prior_density(subject, name) for name in names}
    curves = {name: density for name, density in densities.items() if density is not None}
    if not curves:
        yield block("no_proper_prior")
        return
    figure = drawn(plots.against_prior, _joined(subject, names), curves)
    yield block("against_prior", figure=figure)


def _prior_density(subject: Subject, name: str) -> DensityCurve | None:
    """Prior density of a parameter, if it is proper."""
    site, index = subject.locations[name]
    prior = next((p for p in subject.priors if p.site == site), None)
    if prior is None or prior.distribution is None:
        return None
    if prior.is_constant and prior.is_iid:
        return subject.prior_density(prior)
    draws = subject.prior_draws(site)
    return None if draws is None else density_of_draws(name, draws[(slice(None), *index)])


def _pairs(subject: Subject) -> Iterator[Block]:
    names = subject.worst_first[:4]
    if len(names) < 2:
        yield block("no_pairs")
        return
    diverging = subject.posterior.sample_stats.get("diverging")
    diverging = None if diverging is None else np.asarray(diverging, bool).ravel()
    marked = bool(diverging is not None and diverging.any())
    figure = drawn(plots.pairs, _joined(subject, names), diverging if marked else None)
    yield block("pairs", figure=figure, marked=marked)
