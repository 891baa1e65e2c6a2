"""Sentences on average effects of the variables that are in several terms of a regression."""

from __future__ import annotations

from collections.abc import Iterator

from bayeskern.formula.marginal import Fitted, comparisons, regression_of, slopes
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
    for variable in variables:
        try:
            answers = comparisons(posterior, variable)
            contrasts = list(answers.labels["contrast"])
        except ValueError:
            # Transforms such as bs(x) have no values beyond the data, where x + 1 may be.
            answers, contrasts = slopes(posterior, variable), [""]
        for contrast, draws in zip(contrasts, answers.draws.T, strict=True):
            high, _, low = contrast.partition(" - ")
            unit = f"one unit more of {variable}"
            change = f"{variable} = {high} rather than {low}" if low else unit
            yield (
                f"On average over the data: {change} changes the expected {response} by "
                f"{interval(draws)}{direction(draws)}."
            )
