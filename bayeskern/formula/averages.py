"""Sentences on average effects of the variables that are in several terms of a regression."""

from __future__ import annotations

from collections.abc import Iterator

from bayeskern.formula.marginal import Fitted, comparisons, regression_of
from bayeskern.formula.sentences import direction, interval, shared_variables


def average_sentences(posterior: Fitted) -> Iterator[str]:
    """Sentences on differences of the expected response, averaged over the data.

    Args:
        posterior: Posterior of a `bk.regression`. Responses with classes have none.
    """
    model = regression_of(posterior)
    variables = shared_variables(model)
    if not variables or model.likelihood.is_ordered:
        return
    response = model.source.value.syntax.response
    answers = comparisons(posterior, variables)
    pairs = zip(answers.labels["term"], answers.labels["contrast"], answers.draws.T, strict=True)
    for variable, contrast, draws in pairs:
        high, _, low = contrast.partition(" - ")
        change = f"{variable} = {high} rather than {low}" if low else f"one unit more of {variable}"
        yield (
            f"On average over the data: {change} changes the expected {response} by "
            f"{interval(draws)}{direction(draws)}."
        )
