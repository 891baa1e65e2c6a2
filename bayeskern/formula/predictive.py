"""Linear predictors and observations at new rows, for draws of a regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array
from numpyro import handlers

from bayeskern.core import validation
from bayeskern.core.tracing import by_one_thread
from bayeskern.formula.frame import group_labels
from bayeskern.formula.groups import GroupTerm
from bayeskern.likelihoods import Likelihood

if TYPE_CHECKING:
    from bayeskern.formula.model import Regression

# Groups of new rows: known groups keep their effects and others are drawn from the population; a
# new group for each label; or no group effects, as for a group at the mean of the population.
GROUPS = ("known", "new", "none")


class NewRows(NamedTuple):
    """New rows of a regression at S draws.

    Attributes:
        eta: Linear predictor, (S, m).
        columns: Columns of each distributional parameter, (m, k).
        extra: Values that the likelihood needs of each row, (m,).
    """

    eta: np.ndarray
    columns: tuple[Array, ...]
    extra: dict[str, Array]


def new_rows(
    model: Regression,
    draws: Mapping[str, np.ndarray],
    frame: pd.DataFrame,
    groups: str,
    seed: int,
    extra: Mapping[str, np.ndarray],
) -> NewRows:
    """Linear predictors at the rows of a data frame, with the columns of other parameters.

    Args:
        model: The model.
        draws: Draws of all sites, each (S, *site).
        frame: The rows.
        groups: One of `GROUPS`.
        seed: Seed of the effects of new groups.
        extra: Values that the likelihood needs of each row, in place of those in the frame.
    """
    validation.one_of("groups", groups, GROUPS)
    reader = model.source.value
    eta = np.zeros((len(next(iter(draws.values()))), len(frame))) + np.asarray(
        reader.offset(frame, "newdata")
    )
    for term in (model.common, *model.terms):
        eta += np.asarray(term.effects(draws)) @ term.columns(frame).T
    key = jax.random.key(seed)
    for i, term in enumerate(model.groups if groups != "none" else ()):
        Z = term.effects.columns(frame)
        codes, effects = _effects(term, draws, frame, groups, jax.random.fold_in(key, i))
        for j in range(Z.shape[1]):
            eta += Z[:, j] * effects[:, codes, j]
    parameters = tuple(
        jnp.asarray(effects.columns(frame)) for effects in model.distributional.values()
    )
    values = {**reader.extra(frame, "newdata", skipped=extra), **extra}
    return NewRows(eta, parameters, model.likelihood.read_extra(values, len(frame)))


def _effects(
    term: GroupTerm, draws: Mapping[str, np.ndarray], frame: pd.DataFrame, groups: str, key: Array
) -> tuple[np.ndarray, np.ndarray]:
    """Group of each row (m,), and the effects of known and new groups, (S, G, q)."""
    known = np.asarray(term.effects.effects(draws))
    if groups == "new":
        # Without the column of the groups, all rows are in one new group.
        columns = [part.strip("`") for part in term.group.split(":")]
        is_there = all(column in frame.columns for column in columns)
        labels = group_labels(term.group, frame) if is_there else np.zeros(len(frame), int)
        codes, levels = pd.factorize(labels, sort=True)
        return codes, np.asarray(_drawn(term, dict(draws), key, len(levels)))
    codes = term.codes(frame)
    is_new = codes == term.count
    if not is_new.any():
        return codes, known
    codes[is_new], levels = pd.factorize(group_labels(term.group, frame)[is_new], sort=True)
    codes[is_new] += term.count
    drawn = np.asarray(_drawn(term, dict(draws), key, len(levels)))
    return codes, np.concatenate([known, drawn], axis=1)


@eqx.filter_jit
def _drawn(term: GroupTerm, draws: dict, key: Array, count: int) -> Array:
    """Effects of `count` new groups at S draws: (S, count, q)."""
    draws = {site: jnp.asarray(draws[site]) for site in term.effects.priors}

    @by_one_thread
    def at_draw(draw_and_key):
        draw, key = draw_and_key
        _, root = handlers.substitute(handlers.seed(term.effects.prior, key), data=draw)()  # pyright: ignore
        white = jax.random.normal(key, (count, root.shape[-1]))
        return white * root if root.ndim == 1 else white @ root.T

    keys = jax.random.split(key, len(next(iter(draws.values()))))
    return jax.lax.map(at_draw, (draws, keys))


class Responses(NamedTuple):
    """Observations at new rows.

    Attributes:
        y: A draw of y for each draw of the parameters, (S, m).
        mean: E[y] at each draw of the parameters, (S, m).
        probabilities: Class probabilities averaged over draws, (m, K); None for numbers.
    """

    y: np.ndarray
    mean: np.ndarray
    probabilities: np.ndarray | None


def responses(
    model: Regression, draws: Mapping[str, np.ndarray], rows: NewRows, seed: int
) -> Responses:
    """Observations at new rows."""
    names = {"sigma", *model.likelihood.hyperparameters()}
    names |= {site for e in model.distributional.values() for site, _, _ in e.slices}
    parameters = {name: jnp.asarray(draws[name]) for name in names & draws.keys()}
    key = jax.random.key(seed)
    y, mean, probabilities = jax.device_get(
        _responses(model, parameters, jnp.asarray(rows.eta), rows.columns, rows.extra, key)
    )
    return Responses(y, mean, probabilities if model.likelihood.classifies else None)


@eqx.filter_jit
def _responses(
    model: Regression,
    draws: dict[str, Array],
    eta: Array,
    columns: tuple[Array, ...],
    extra: dict[str, Array],
    key: Array,
) -> tuple[Array, Array, Array]:
    @by_one_thread
    def at_draw(item):
        draw, eta, key = item
        sampled = handlers.seed(model.sample_likelihood, key)
        likelihood: Likelihood = handlers.substitute(sampled, data=draw)(columns)  # pyright: ignore
        y = likelihood.distribution(eta, **extra).sample(key)
        classifies = likelihood.classifies
        probabilities = likelihood.probabilities(eta, **extra) if classifies else jnp.zeros(())
        return y, likelihood.mean(eta, **extra), probabilities

    keys = jax.random.split(key, len(eta))
    y, mean, probabilities = jax.lax.map(at_draw, (draws, eta, keys))
    return y, mean, jnp.mean(probabilities, axis=0)
