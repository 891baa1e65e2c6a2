"""Predictions of a linear model from draws of its weights, in bounded memory."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import CHUNK, batch_size, evenly
from bayeskern.likelihoods import Likelihood
from bayeskern.prediction.mixture import MAX_MIXTURE_DRAWS

# Maximum of draws x points in a prediction, unless `MAX_MIXTURE_DRAWS` draws alone exceed it.
MOST_NUMBERS = 2 * 10**7


def thinned_draws(count: int, size: int) -> np.ndarray:
    """Indices of evenly thinned draws out of `count`, with `size` numbers per draw."""
    return evenly(count, max(MAX_MIXTURE_DRAWS, MOST_NUMBERS // size))


def linear_predictor(X, weights: jax.Array, intercept) -> jax.Array:
    """eta at features X (n, p): (n,), or (n, outputs) for weights (outputs, p)."""
    eta = X @ weights.T
    return eta if intercept is None else eta + intercept


@eqx.filter_jit
def linear_predictors(X, weights, intercept) -> jax.Array:
    """eta at features X (m, p) for S draws of weights and intercept: (S, m, ...)."""
    return jax.lax.map(lambda draw: linear_predictor(X, *draw), (weights, intercept))


def responses(
    likelihood: Likelihood, X: np.ndarray, sites: tuple, extra: dict, key: jax.Array
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Draws of new observations, and their means over the draws of the parameters.

    Args:
        likelihood: The likelihood.
        X: Features, (m, p).
        sites: Draws of the hyperparameters of the likelihood, the weights and the intercept.
        extra: The values that the likelihood needs of each row.
        key: The random key.

    Returns:
        y, (S, m); the mean of E[y | x] over the draws; and the mean class probabilities, or None.
    """
    count = len(sites[1])
    step = max(1, CHUNK // (count * (likelihood.outputs or 1)))
    chunks = []
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        extra_rows = {name: value[rows] for name, value in extra.items()}
        key_rows = jax.random.fold_in(key, start)
        chunk = _responses_at(likelihood, X[rows], sites, extra_rows, key_rows)
        chunks.append(jax.device_get(chunk))
    y, mean, probabilities = zip(*chunks, strict=True)
    probabilities = np.concatenate(probabilities) if likelihood.classifies else None
    return np.concatenate(y, axis=1), np.concatenate(mean), probabilities


@eqx.filter_jit
def _responses_at(likelihood, X, sites, extra, key):
    def at_draw(draw_and_key):
        (values, *coefficients), key = draw_and_key
        concrete = likelihood.at(values)
        eta = linear_predictor(X, *coefficients)
        y = concrete.distribution(eta, **extra).sample(key)
        probabilities = concrete.probabilities(eta, **extra) if concrete.classifies else None
        return y, concrete.mean(eta, **extra), probabilities

    keys = jax.random.split(key, len(sites[1]))
    y, *means = jax.lax.map(at_draw, (sites, keys), batch_size=batch_size(len(X)))
    return y, *jax.tree.map(lambda v: jnp.mean(v, axis=0), means)
