"""The posterior: a table, intervals, what the data added to the prior, and the worst pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.diagnostics.report.blocks import Figure, Heading, Missing, Table, Text
from bayeskern.diagnostics.report.priors import DensityCurve, density_of_draws, prior_density
from bayeskern.diagnostics.report.sections import parameters_plots as plots
from bayeskern.diagnostics.report.style import svg
from bayeskern.diagnostics.report.wording import listed
from bayeskern.inference.posterior.summary import texts

MAX_ROWS = 60
# Sites of more numbers than this are not put into the table.
MAX_SITE_SIZE = 100


def parameters(subject) -> Iterator:
    p = subject.posterior
    if p is None:
        yield Missing("There are no parameters: nothing was fitted.")
        return
    yield from _table(subject)
    if p.is_point:
        yield Missing("A point has no intervals, no density and no pairs to show.")
        return
    names = subject.first_of_each_site(plots.MAX_ROWS)
    if not names:
        yield Missing("No number moves from draw to draw, so there are no intervals to show.")
        return
    total = len(subject.varying) + sum(subject.not_examined.values())
    yield Figure(
        svg(plots.forest, _joined(subject, names)),
        "Median, 50 % interval (thick) and 95 % interval (thin). Look whether an interval that "
        f"matters to you leaves out the value that would change your mind.{_more(total, names)}",
    )
    yield Heading("Prior against posterior")
    yield from _against_prior(subject)
    yield Heading("Pairs")
    yield from _pairs(subject)


def _joined(subject, names: list[str]) -> dict[str, np.ndarray]:
    """The draws of numbers with chains joined: (S,) each."""
    return {name: subject.varying[name].ravel() for name in names}


def _more(total: int, names: list[str]) -> str:
    more = total - len(names)
    return f" Not shown: {counted(more, 'more number')}." if more > 0 else ""


def _table(subject) -> Iterator:
    p = subject.posterior
    small = [name for name, values in p.flat.items() if 0 < values[0].size <= MAX_SITE_SIZE]
    large = [name for name, values in p.flat.items() if values[0].size > MAX_SITE_SIZE]
    numbers = [(site, i) for site in small for i in range(p.flat[site][0].size)]
    if numbers:
        draws = {subject.names[site][i]: _draws(p, site, i) for site, i in numbers[:MAX_ROWS]}
        table = subject.summary(draws, round_to="none")
        head = ("parameter", *map(str, table.columns))
        yield Table(head, tuple((name, *texts(table.loc[name])) for name in draws))
        if len(numbers) > MAX_ROWS:
            more = counted(len(numbers) - MAX_ROWS, "row")
            yield Text(f"posterior.summary() has {more} more.")
    if large:
        yield Text(f"Not in the table, for their size: {listed(large)}.")


def _draws(p, site, i):
    return p.draws[site].reshape(*p.draws[site].shape[:2], -1)[..., i]


def _against_prior(subject) -> Iterator:
    if not subject.has_model:
        yield Missing("Without the model its priors cannot be shown.")
        return
    names = subject.first_of_each_site(plots.MAX_DENSITIES)
    densities = {name: _prior_density(subject, name) for name in names}
    densities = {name: density for name, density in densities.items() if density is not None}
    if not densities:
        yield Missing("No proper prior can be drawn to set beside the posterior.")
        return
    yield Figure(
        svg(plots.against_prior, _joined(subject, names), densities),
        "Posterior (solid) over prior (dashed). Good: the posterior is narrower and lies where the "
        "prior has weight; where the two are alike, the data said nothing of that number.",
    )


def _prior_density(subject, name: str) -> DensityCurve | None:
    """The prior density of one number of a site, where it is proper."""
    site, place = subject.places[name]
    prior = next((p for p in subject.priors if p.site == site), None)
    if prior is None or prior.distribution is None:
        return None
    if prior.is_constant and prior.is_iid:
        return prior_density(subject, prior)
    draws = subject.prior_draws(site)
    return None if draws is None else density_of_draws(name, draws[(slice(None), *place)])


def _pairs(subject) -> Iterator:
    names = subject.worst_first[: plots.MAX_SIDES]
    if len(names) < 2:
        yield Missing("There is one number only, so there are no pairs.")
        return
    diverging = subject.posterior.sample_stats.get("diverging")
    diverging = None if diverging is None else np.asarray(diverging, bool).ravel()
    marked = diverging is not None and diverging.any()
    yield Figure(
        svg(plots.pairs, _joined(subject, names), diverging),
        "The numbers that behave worst, against each other. Good: round clouds; funnels, bananas "
        "and separate clouds are hard to sample and to approximate."
        + (" Orange: divergent draws." if marked else ""),
    )
