"""Sentences on average effects of the variables that are in several terms of a regression."""

from __future__ import annotations

from collections.abc import Iterator

from bayeskern.formula.frame import BeyondDataError
from bayeskern.formula.marginal import Fitted, comparisons, regression_of, slopes
from bayeskern.formula.sentences import direction, interval, shared_variables


def average_sentences(posterior: Fitted) -> Iterator[str]:
    """Sentences on differences of the expected response, averaged over the data.

    Args:
        posterior: Posterior of a `bk.regression`. There are none for an ordered response, whose
            classes have an answer each.
    """
    model = regression_of(posterior)
    if model.likelihood.is_ordered:
        return
    response = model.source.value.syntax.response
    for variable in shared_variables(model):
        try:
            answers = comparisons(posterior, variable)
        except BeyondDataError:
            # x + 1 is beyond the data in some rows, where the slope is not.
            (draws,) = slopes(posterior, variable).draws.T
            yield (
                f"On average over the data: the slope of the expected {response} in {variable} is "
                f"{interval(draws)}{direction(draws)}."
            )
            continue
        for contrast, draws in zip(answers.labels["contrast"], answers.draws.T, strict=True):
            high, _, low = contrast.partition(" - ")
            unit = f"one unit more of {variable}"
            change = f"{variable} = {high} rather than {low}" if low else unit
            yield (
                f"On average over the data: {change} changes the expected {response} by "
                f"{interval(draws)}{direction(draws)}."
            )
