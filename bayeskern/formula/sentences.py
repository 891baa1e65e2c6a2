"""Sentences on the effects of a regression, in the units of the data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bayeskern.core.formatting import alike
from bayeskern.formula.frame import Columns
from bayeskern.formula.groups import Varying
from bayeskern.formula.structure import Structure
from bayeskern.formula.terms import Monotone

# Probability of the intervals in sentences, as in tables of parameters.
LEVEL = 0.89
# Words for an effect by the link, and its transformation.
LINKS = {
    "identity": ("changes {y} by", np.asarray),
    "log": ("multiplies {y} by", np.exp),
    "logit": ("multiplies the odds of {y} by", np.exp),
}


def sentences(model: Structure, draws: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Sentences on common effects and on the spread of groups, for draws (S, *site).

    Effects are in the units of the response under the links `LINKS`, and in units of the linear
    predictor otherwise.
    """
    likelihood, response = model.likelihood, model.source.value.syntax.response
    words, scale = LINKS.get(
        likelihood.link_name, ("changes the linear predictor of {y} by", np.asarray)
    )
    what = words.format(y=f"a higher {response}" if likelihood.is_ordered else response)
    source = model.common.source.value
    names, b = source.names[model.common.skip :], np.asarray(model.common.effects(draws))
    levels, alone = _levels(source), _columns_alone(model)
    for name, effect in zip(names, b.T, strict=True):
        if name in alone:
            change = levels.get(name, f"One unit more of {name}")
            yield f"{change} {what} {interval(scale(effect))}{direction(effect)}."
    for term in model.terms:
        if isinstance(term, Monotone):
            effect, ends = np.asarray(draws[term.name]), (term.levels[0], term.levels[-1])
            change = f"{term.source} = {ends[1]} rather than {ends[0]}"
            yield f"{change} {what} {interval(scale(effect))}{direction(effect)}."
    shared = shared_variables(model)
    if shared:
        *others, last = shared
        words = f"{', '.join(others)} or {last}" if others else last
        yield (
            f"No single number is the effect of {words}: bk.comparisons and bk.slopes average it "
            "over the data."
        )
    unit = "" if likelihood.link_name == "identity" else " of the linear predictor"
    for term in model.groups:
        if isinstance(term.effects, Varying):
            for name, site in zip(term.effects.names, term.effects.sites_of_groups, strict=True):
                others = [other for other in term.effects.names if other != "Intercept"]
                verb = "is" if len(others) == 1 else "are"
                at_zero = f" where {' and '.join(others)} {verb} 0" if others else ""
                is_intercept = name == "Intercept"
                quantity = f"{response}{at_zero}" if is_intercept else f"the effect of {name}"
                yield (
                    f"Groups of {term.group} differ in {quantity} by a standard deviation of "
                    f"{interval(draws[f'sd({site})'])}{unit}."
                )


def shared_variables(model: Structure) -> list[str]:
    """Variables of common effects that are in several terms, in an interaction or in a curve."""
    source = model.common.source.value
    names = source.names[model.common.skip :]
    return sorted(_variables_of(source, set(names) - _columns_alone(model)))


def _columns_alone(model: Structure) -> set[str]:
    """Columns of the variables that are in one term only: a number, or the levels of a factor."""
    source = model.common.source.value
    variables = {term: _data(v) for term, v in source.spec.term_variables.items()}
    counts = Counter(variable for own in variables.values() for variable in own)
    counts.update(x for call in model.source.value.syntax.calls for x in call.arguments)
    alone = set()
    for term, own in variables.items():
        columns = source.names[source.spec.term_slices[term]]
        is_curve = len(columns) > 1 and not own & source.factors
        if own and not is_curve and all(counts[variable] == 1 for variable in own):
            alone |= set(columns) if len(own) == 1 else set()
    return alone


def _variables_of(source: Columns, columns: set[str]) -> set[str]:
    """Variables of the terms with these columns."""
    slices, variables = source.spec.term_slices, source.spec.term_variables
    return {
        variable
        for term, own in variables.items()
        if columns & set(source.names[slices[term]])
        for variable in _data(own)
    }


def _data(variables: Iterable[Any]) -> set[str]:
    return {str(variable) for variable in variables if variable.source == "data"}


def _levels(source: Columns) -> dict[str, str]:
    """Words for the columns of the levels of each factor: "f = b rather than a"."""
    words = {}
    for factor, (_, state) in source.spec.encoder_state.items():
        levels = list(map(str, state.get("categories") or ()))
        column = re.sub(r"^(C|factor)\(", "", factor).partition(",")[0].removesuffix(")")
        # The level with which others are compared has no column.
        base = [level for level in levels if f"{factor}[T.{level}]" not in source.names]
        for level in levels:
            words[f"{factor}[{level}]"] = f"{column} = {level}"
            if len(base) == 1:
                words[f"{factor}[T.{level}]"] = f"{column} = {level} rather than {base[0]}"
    return words


def interval(values: np.ndarray) -> str:
    """The mean with its central interval: "10.5 (7.4 to 13.6)"."""
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(values, [tail, 100.0 - tail])
    mean, low, high = alike([np.mean(values), low, high], float(np.std(values)), 2)
    return f"{mean} ({low} to {high})"


def direction(effect: np.ndarray) -> str:
    """Probability of the direction, if it is not certain."""
    share = max(np.mean(effect > 0.0), np.mean(effect < 0.0))
    return "" if share > 0.995 else f", in this direction with probability {share:.2f}"
