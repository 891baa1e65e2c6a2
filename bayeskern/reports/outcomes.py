"""Kinds of observed outcomes: classes, counts and continuous values."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from numpyro.distributions import (
    CategoricalLogits,
    CategoricalProbs,
    Distribution,
    OrderedLogistic,
    constraints,
)

from bayeskern.hyperparameters import innermost
from bayeskern.inference import Target
from bayeskern.inference.model.trace.validation import is_observed
from bayeskern.likelihoods.ordered import OrderedCategorical

Outcome = Literal["binary", "ordinal", "categorical", "count", "continuous"]


def outcomes(target: Target) -> dict[str, Outcome]:
    """Kind of each observed site of a model, by its distribution."""
    kinds: dict[str, Outcome] = {}

    def run() -> None:
        draw = {s.name: jnp.zeros(s.shape) for s in target.latents}
        for name, site in target.trace_at(draw).items():
            if is_observed(site):
                kinds[name] = kind_of(site["fn"])

    jax.eval_shape(run)
    return kinds


def kind_of(fn: Distribution) -> Outcome:
    """Kind of the values of a distribution.

    A latent Gaussian process has the kind of its likelihood.
    """
    fn = innermost(fn)
    likelihood = getattr(fn, "likelihood", None)
    if likelihood is not None and likelihood.classifies:
        return "ordinal" if likelihood.is_ordered else "categorical"
    if isinstance(fn, OrderedLogistic | OrderedCategorical):
        return "ordinal"
    if isinstance(fn, CategoricalProbs | CategoricalLogits):
        return "categorical"
    support = fn.support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    if support is constraints.boolean:
        return "binary"
    return "count" if getattr(support, "is_discrete", False) else "continuous"
