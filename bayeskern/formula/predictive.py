"""Linear predictors and observations at new rows, for draws of a regression."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array
from numpyro import handlers

from bayeskern.core import validation
from bayeskern.core.tracing import by_one_thread
from bayeskern.formula.frame import group_labels, required_columns
from bayeskern.formula.groups import GroupTerm
from bayeskern.formula.structure import Structure
from bayeskern.likelihoods import Likelihood

# Groups of new rows: known groups keep their effects and others are drawn from the population; a
# new group for each label; or no group effects, as for a group at the mean of the population.
GROUPS = ("known", "new", "none")
# Values of the rows of a fit that say nothing of new observations.
NOT_PREDICTED = ("weights", "censored")


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
    model: Structure,
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
    columns_of_newdata(model, frame, groups, extra)
    reader = model.source.value
    eta = np.zeros((len(next(iter(draws.values()))), len(frame)))
    eta += np.asarray(reader.offset(frame, "newdata"))
    for _, values in contributions(model, draws, frame, groups, seed):
        eta += values
    parameters = tuple(
        jnp.asarray(effects.columns(frame)) for effects in model.distributional.values()
    )
    values = {**reader.extra(frame, "newdata", {*NOT_PREDICTED, *extra}), **extra}
    return NewRows(eta, parameters, model.likelihood.read_extra(values, len(frame)))


def columns_of_newdata(
    model: Structure, frame: pd.DataFrame, groups: str = "known", given: Collection[str] = ()
) -> list[str]:
    """Columns of new data that the formulas need, without values of rows that are given by name.

    Raises:
        ValueError: A column is missing, naming the nearest one; or `groups` is unknown.
    """
    validation.one_of("groups", groups, GROUPS)
    sources = model.source.value.syntax.sources(groups, {*NOT_PREDICTED, *given})
    sources += [effects.source.value.source for effects in model.distributional.values()]
    return required_columns(sources, frame, model.formulas[0], "newdata")


def contributions(
    model: Structure, draws: Mapping[str, np.ndarray], frame: pd.DataFrame, groups: str, seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Name of each term and its part of the linear predictor, (S, m); arguments of `new_rows`."""
    rng = np.random.default_rng(seed)
    for term in (model.common, *model.terms):
        yield term.name, term.contribution(draws, frame, rng)
    key = jax.random.key(seed)
    for i, term in enumerate(model.groups if groups != "none" else ()):
        Z = term.effects.columns(frame)
        codes, effects = _effects(term, draws, frame, groups, jax.random.fold_in(key, i))
        parts = (Z[:, j] * effects[:, codes, j] for j in range(Z.shape[1]))
        yield term.effects.name, sum(parts, np.zeros(()))


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

    def at_draw(draw_and_key):
        draw, key = draw_and_key
        root = _root(term, draw)
        return jax.random.normal(key, (count, root.shape[-1])) @ root.T

    keys = jax.random.split(key, len(next(iter(draws.values()))))
    return jax.lax.map(at_draw, (_scales(term, draws), keys))


@eqx.filter_jit
def covariances(term: GroupTerm, draws: dict) -> Array:
    """Covariance of the effects of a group in the population, at S draws: (S, q, q)."""
    roots = jax.lax.map(lambda draw: _root(term, draw), _scales(term, draws))
    return roots @ roots.mT


def _scales(term: GroupTerm, draws: Mapping[str, np.ndarray]) -> dict[str, Array]:
    return {site: jnp.asarray(draws[site]) for site in term.effects.priors}


@by_one_thread
def _root(term: GroupTerm, draw: dict) -> Array:
    """Root of the covariance of the effects of a group: (q, m)."""
    prior = handlers.seed(term.effects.prior, jax.random.key(0))
    _, root = handlers.substitute(prior, data=draw)()  # pyright: ignore
    return jnp.diag(root) if root.ndim == 1 else root


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
    model: Structure, draws: Mapping[str, np.ndarray], rows: NewRows, seed: int
) -> Responses:
    """Observations at new rows."""
    y, mean, probabilities = at_draws(model, draws, rows, _response, seed)
    classifies = model.likelihood.classifies
    return Responses(y, mean, probabilities.mean(axis=0) if classifies else None)


def _response(
    likelihood: Likelihood, eta: Array, extra: dict[str, Array], key: Array
) -> tuple[Array, Array, Array]:
    y: Any = likelihood.distribution(eta, **extra).sample(key)
    classifies = likelihood.classifies
    probabilities = likelihood.probabilities(eta, **extra) if classifies else jnp.zeros(())
    return y, likelihood.mean(eta, **extra), probabilities


def expected(likelihood: Likelihood, eta: Array, extra: dict[str, Array], key: Array) -> Array:
    """E[y] at one draw, (m,); for more than two classes their probabilities, (m, K)."""
    return likelihood.mean(eta, **extra)


def variances(likelihood: Likelihood, eta: Array, extra: dict[str, Array], key: Array) -> Array:
    """Variance of y at one draw, (m,)."""
    return likelihood.distribution(eta, **extra).variance


def at_draws(
    model: Structure,
    draws: Mapping[str, np.ndarray],
    rows: NewRows,
    function: Callable,
    seed: int = 0,
) -> Any:
    """function(likelihood, eta (m,), extra, key) at each draw, as NumPy arrays.

    Args:
        model: The model.
        draws: Draws of all sites, each (S, *site).
        rows: The new rows at these draws.
        function: A function of a module, so that it is compiled once.
        seed: Seed of the keys.
    """
    names = {"sigma", *model.likelihood.hyperparameters()}
    names |= {site for e in model.distributional.values() for site, _, _ in e.slices}
    parameters = {name: jnp.asarray(draws[name]) for name in names & draws.keys()}
    items = parameters, jnp.asarray(rows.eta), jax.random.split(jax.random.key(seed), len(rows.eta))
    return jax.device_get(_at_draws(model, items, rows.columns, rows.extra, function))


@eqx.filter_jit
def _at_draws(
    model: Structure,
    items: tuple[dict[str, Array], Array, Array],
    columns: tuple[Array, ...],
    extra: dict[str, Array],
    function: Callable,
) -> Any:
    @by_one_thread
    def at_draw(item):
        draw, eta, key = item
        sampled = handlers.seed(model.sample_likelihood, key)
        likelihood: Likelihood = handlers.substitute(sampled, data=draw)(columns)  # pyright: ignore
        return function(likelihood, eta, extra, key)

    return jax.lax.map(at_draw, items)
