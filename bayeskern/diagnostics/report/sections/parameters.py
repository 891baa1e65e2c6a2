"""The posterior: a table, intervals, what the data added to the prior, and the worst pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.diagnostics.report import priors
from bayeskern.diagnostics.report.blocks import (
    Figure,
    Heading,
    Missing,
    Table,
    Text,
    listed,
)
from bayeskern.diagnostics.report.sections import parameters_plots as plots
from bayeskern.diagnostics.report.style import svg
from bayeskern.inference.posterior.summary import texts

ROWS = 60
# Sites of more numbers than this are not put into the table.
MOST = 100


def parameters(subject) -> Iterator:
    p = subject.posterior
    if p is None:
        yield Missing("There are no parameters: nothing was fitted.")
        return
    yield from _table(subject)
    if p.is_point:
        yield Missing("A point has no intervals, no density and no pairs to show.")
        return
    names = subject.first(plots.ROWS)
    if not names:
        yield Missing("No number moves from draw to draw, so there are no intervals to show.")
        return
    joined = {n: subject.moving[n].ravel() for n in names}
    yield Figure(
        svg(plots.forest, joined),
        "Median, 50 % interval (thick) and 95 % interval (thin). Look whether an interval that "
        "matters to you leaves out the value that would change your mind."
        + _left_out(len(subject.moving) + sum(subject.unseen.values()), len(names)),
    )
    yield Heading("Prior against posterior")
    yield from _against_prior(subject)
    yield Heading("Pairs")
    yield from _pairs(subject)


def _table(subject) -> Iterator:
    p = subject.posterior
    small = [name for name, values in p.flat.items() if 0 < values[0].size <= MOST]
    large = [name for name in p.flat if p.flat[name][0].size > MOST]
    numbers = [(site, i) for site in small for i in range(p.flat[site][0].size)]
    if numbers:
        shown = {subject.names[site][i]: _draws(p, site, i) for site, i in numbers[:ROWS]}
        table = subject.summary(shown, round_to="none")
        head = ("parameter", *map(str, table.columns))
        yield Table(head, tuple((name, *texts(table.loc[name])) for name in shown))
        if len(numbers) > ROWS:
            more = counted(len(numbers) - ROWS, "row")
            yield Text(f"posterior.summary() has {more} more.")
    if large:
        yield Text(f"Not in the table, for their size: {listed(large)}.")


def _draws(p, site, i):
    return p.draws[site].reshape(*p.draws[site].shape[:2], -1)[..., i]


def _left_out(total: int, shown: int) -> str:
    return f" Not shown: {counted(total - shown, 'more number')}." if total > shown else ""


def _against_prior(subject) -> Iterator:
    if not subject.has_model:
        yield Missing("Without the model its priors cannot be shown.")
        return
    names = subject.first(plots.MOST)
    found = {p.site: p for p in priors.priors(subject.posterior)}
    densities = {}
    for name in names:
        site, place = subject.places[name]
        prior = found.get(site)
        if prior is not None and prior.fixed and prior.alike:
            densities[name] = priors.density(subject, prior)
        elif prior is not None and prior.fn is not None:
            drawn = subject.prior.get(site.replace("/", "."))
            densities[name] = None if drawn is None else _drawn(drawn, name, place)
    densities = {name: d for name, d in densities.items() if d is not None}
    if not densities:
        yield Missing("No proper prior can be drawn to set beside the posterior.")
        return
    yield Figure(
        svg(plots.against_prior, {n: subject.moving[n].ravel() for n in names}, densities),
        "Posterior (solid) over prior (dashed). Good: the posterior is narrower and lies where the "
        "prior has weight; where the two are alike, the data said nothing of that number.",
    )


def _drawn(values, name, place):
    """The density of the prior draws of one number of a site."""
    x = np.asarray(values, float)[(slice(None), *place)]
    ends = priors.limits(x)
    if ends is None:
        return None
    low, high = ends
    return priors.Density(name, *priors.kde(x[(x >= low) & (x <= high)]))


def _pairs(subject) -> Iterator:
    names = subject.by_badness[: plots.SIDES]
    if len(names) < 2:
        yield Missing("There is one number only, so there are no pairs.")
        return
    diverging = subject.posterior.sample_stats.get("diverging")
    diverging = None if diverging is None else np.asarray(diverging, bool).ravel()
    marked = diverging is not None and diverging.any()
    yield Figure(
        svg(plots.pairs, {n: subject.moving[n].ravel() for n in names}, diverging),
        "The numbers that behave worst, against each other. Good: round clouds; funnels, bananas "
        "and separate clouds are hard to sample and to approximate."
        + (" Orange: divergent draws." if marked else ""),
    )
