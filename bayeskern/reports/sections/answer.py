"""Section with the question, the verdict in brief, a picture and main numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bayeskern.core.formatting import counted
from bayeskern.diagnostics.priors import exact_marginals
from bayeskern.formula.averages import average_sentences
from bayeskern.formula.groups import Varying
from bayeskern.formula.marginal import predictors
from bayeskern.formula.model import Regression
from bayeskern.inference import Posterior
from bayeskern.reports.blocks import Block, text
from bayeskern.reports.sections import parameters
from bayeskern.reports.sections.process import has_function, process
from bayeskern.reports.style import as_svg
from bayeskern.reports.subject import Subject
from bayeskern.reports.wording import listed

block = partial(Block, "answer")
# Groups up to which a figure names each.
MAX_GROUPS = 60


def answer(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Answer" of the report on one posterior."""
    yield block("question", words=question(subject))
    verdict = subject.posterior.trust.verdict
    yield Block("verdict", "in_brief", verdict=verdict, of_draws=True)
    if isinstance(subject.model, Regression):
        yield from _effects(subject.posterior, subject.model)
    yield from estimates(subject)


def _effects(posterior: Posterior, model: Regression) -> Iterator[Block]:
    """Sentences on the effects of a regression, with figures beside the data and of its groups."""
    # matplotlib takes a while to import.
    from bayeskern.formula.effect_plots import caterpillar, conditional

    for sentence in [*model.sentences(posterior.flat), *average_sentences(posterior)]:
        yield text(sentence)
    if predictors(model):
        yield Block("parameters", "terms", figure=as_svg(conditional, posterior))
    varying = {t.group: t.count for t in model.groups if isinstance(t.effects, Varying)}
    for group, count in varying.items():
        if count <= MAX_GROUPS:
            figure = as_svg(caterpillar, posterior, group)
            yield Block("parameters", "groups", figure=figure, group=group)


def question(subject: Subject) -> str:
    """Question that the model answers, in words."""
    data = {name: values.size for name, values in subject.posterior.observed().items()}
    if not data:
        return f"What does the model say about {listed(subject.posterior.flat)}?"
    values = listed(f"{counted(f'{n:,}', 'value')} of {name}" for name, n in data.items())
    if has_function(subject):
        return f"Which function lies behind {values}?"
    verb = "does" if values.startswith("1 ") else "do"
    return f"What {verb} {values} say about {_sites(subject)}?"


def _sites(subject: Subject) -> str:
    """Names of the sites of a posterior, with the number of their elements."""
    sizes = {site: x[0].size for site, x in subject.posterior.flat.items()}
    return listed(site if n == 1 else f"{site} ({n:,})" for site, n in sizes.items())


def estimates(subject: Subject) -> Iterator[Block]:
    """Main figure and table of a posterior, and further ones in folds."""
    if has_function(subject):
        yield from process(subject)
        shown = ""
    else:
        shown = parameters.main_figure(subject)
        yield from parameters.figures(subject, shown)
    yield from parameters.table(subject)
    if exact := exact_marginals(subject.posterior):
        yield text(exact)
    yield from parameters.more(subject, shown)
