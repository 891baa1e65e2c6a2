"""Sentences on the effects of a regression, in the units of the data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from bayeskern.core.formatting import alike
from bayeskern.formula.structure import Structure

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

    Effects of single columns are in the units of the response under the links `LINKS`, and in
    units of the linear predictor otherwise.
    """
    response = model.source.value.syntax.response
    words, scale = LINKS.get(
        model.likelihood.link_name, ("changes the linear predictor of {y} by", np.asarray)
    )
    names = model.common.source.value.names[model.common.skip :]
    b, references = np.asarray(model.common.effects(draws)), _references(model)
    for _, start, stop in model.common.slices:
        for name, effect in zip(names[start:stop], b[:, start:stop].T, strict=True):
            if name != "Intercept":
                values = scale(effect)
                what = words.format(y=response)
                certainty = _direction(effect)
                yield f"{_change(name, references)} {what} {_interval(values)}{certainty}."
    unit = "" if model.likelihood.link_name == "identity" else " of the linear predictor"
    for term in model.groups:
        for site in term.effects.priors:
            if site.startswith("sd("):
                name = site.removeprefix("sd(").removesuffix(")").partition(" | ")[0]
                quantity = response if name == "Intercept" else f"the effect of {name}"
                yield (
                    f"Groups of {term.group} differ in {quantity} by a standard deviation of "
                    f"{_interval(draws[site])}{unit}."
                )


def _change(name: str, references: Mapping[str, str]) -> str:
    """Words for the change of one column: a level of a factor, or one unit more."""
    level = re.fullmatch(r"(.+)\[(T\.)?([^\]]+)\]", name)
    if ":" in name:
        return f"The interaction {name}"
    if level is None:
        return f"One unit more of {name}"
    factor, is_contrast, value = level.groups()
    column = factor.removeprefix("C(").partition(",")[0].removesuffix(")")
    rather = f" rather than {references[factor]}" if is_contrast and factor in references else ""
    return f"{column} = {value}{rather}"


def _references(model: Structure) -> dict[str, str]:
    """Level of each factor that has no column, with which the others are compared."""
    source = model.common.source.value
    references = {}
    for factor, (_, state) in source.spec.encoder_state.items():
        levels = map(str, state.get("categories") or ())
        without = [level for level in levels if f"{factor}[T.{level}]" not in source.names]
        if len(without) == 1:
            references[factor] = without[0]
    return references


def _interval(values: np.ndarray) -> str:
    """The mean with its central interval: "10.5 (7.4 to 13.6)"."""
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(values, [tail, 100.0 - tail])
    mean, low, high = alike([np.mean(values), low, high], float(np.std(values)), 2)
    return f"{mean} ({low} to {high})"


def _direction(effect: np.ndarray) -> str:
    """Probability of the direction, if it is not certain."""
    share = max(np.mean(effect > 0.0), np.mean(effect < 0.0))
    return "" if share > 0.995 else f", with this direction with probability {share:.2f}"
