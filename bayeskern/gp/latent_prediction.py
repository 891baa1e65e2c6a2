"""Predictions of latent processes, mixed over draws of their hyperparameters.

A mixture has `items`, a pytree whose leaves have the draws along their first axis, `conditioned`,
which makes of one of them a ConditionedLatent, and `kernels`, `likelihood` and `n` (points).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.gp.curvature import eta, outputs, spread_over
from bayeskern.gp.process import chunked
from bayeskern.gp.quadrature import at_nodes, draw_responses
from bayeskern.kernels.components import component, component_names
from bayeskern.prediction.empirical import Predictions
from bayeskern.prediction.mixture import Prediction, spread
from bayeskern.prediction.response import ResponsePrediction

# New observations are drawn jointly within so many points.
JOINT = 512


def latent_names(kernels, C: int) -> list[str]:
    """What each latent function is called: as its kernel, or f0, f1, ..."""
    own = [k.own_name() for k in kernels] if len(kernels) == C else [None] * C
    return [name or f"f{c}" for c, name in enumerate(own)]


def latent_prediction(mixture, X_new):
    """The latent function at X_new; of several, one Prediction for each, by name."""
    C = outputs(mixture.likelihood)
    found = {
        name: _latent(mixture, X_new, c) for c, name in enumerate(latent_names(mixture.kernels, C))
    }
    return found["f0"] if C == 1 and "f0" in found else _one(found)


def _one(found):
    return Predictions(found) if len(found) > 1 else next(iter(found.values()))


def _latent(mixture, X_new, c: int, name=None) -> Prediction:
    count = jax.tree.leaves(mixture.items)[0].shape[0]

    def means():
        return chunked(lambda x: _means(mixture, x, c, name), mixture.n, X_new)

    def moments():
        return chunked(lambda x: jnp.stack(_moments(mixture, x, c, name)), mixture.n, X_new)

    def draw(key, size):
        def each(key, number):
            return _draws(mixture, X_new, c, name, key, number)

        return spread(each, count, key, size)

    if name is not None:
        return Prediction(means, moments, draw)
    names = component_names(spread_over(mixture.kernels, outputs(mixture.likelihood))[c])
    return Prediction(
        means, moments, draw, lambda part: _latent(mixture, X_new, c, part), tuple(names)
    )


def _parts(at, c, name):
    """The kernel of a component of one latent function, in the place of it."""
    if name is None:
        return None
    kernels = list(spread_over(at.kernels, at.weights.shape[0]))
    kernels[c] = component(kernels[c], name)
    return tuple(kernels)


@eqx.filter_jit
def _means(mixture, X_new, c, name):
    return _moments(mixture, X_new, c, name)[0]


@eqx.filter_jit
def _moments(mixture, X_new, c, name):
    def one(item):
        at = mixture.conditioned(item)
        mean, covariance = at.moments(X_new, _parts(at, c, name))
        return mean[c], covariance[c, c]

    return jax.lax.map(one, mixture.items)


@eqx.filter_jit
def _draws(mixture, X_new, c, name, key, n):
    def one(item):
        item, key = item
        at = mixture.conditioned(item)
        return at.draws(X_new, key, n, _parts(at, c, name))[:, c]

    return jax.lax.map(one, (mixture.items, _keys(mixture, key)))


def _keys(mixture, key):
    return jax.random.split(key, jax.tree.leaves(mixture.items)[0].shape[0])


# -- observations ----------------------------------------------------------------------------------


def response_prediction(mixture, X_new, extra, count: int, seed: int) -> ResponsePrediction:
    """New observations at X_new: their mean, `count` draws, and the chances of classes.

    Draws are joint over JOINT points at a time, which are independent given the hyperparameters.
    """
    parts = jax.tree.leaves(mixture.items)[0].shape[0]
    key, order = jax.random.split(jax.random.key(seed))
    number = -(-count // parts)
    found = []
    for i in range(0, X_new.shape[0], JOINT):
        rows = slice(i, i + JOINT)
        now = {name: value[rows] for name, value in extra.items()}
        key, own = jax.random.split(key)
        found.append(jax.device_get(_responses(mixture, X_new[rows], now, own, number)))
    averages = [np.concatenate(each) for each in zip(*(a for a, _ in found), strict=True)]
    y = np.concatenate([y for _, y in found], axis=2)
    y = y.reshape(parts * number, *y.shape[2:])
    rows = ((np.arange(count) + 0.5) * len(y) / count).astype(int)
    y = y[rows[np.asarray(jax.random.permutation(order, count))]]
    mean, *chances = (_known(x) for x in averages)
    likelihood = mixture.likelihood
    classes = likelihood.classes if likelihood.classifies else None
    return ResponsePrediction(y, mean, *(chances or [None]), classes, ordered=likelihood.is_ordered)


@eqx.filter_jit
def _responses(mixture, X_new, extra, key, number):
    def one(item):
        item, key = item
        at = mixture.conditioned(item)
        likelihood = at.likelihood

        def wanted(f):
            mean = likelihood.mean(eta(likelihood, f), **extra)
            if not likelihood.classifies:
                return [mean]
            return [mean, likelihood.probabilities(eta(likelihood, f), **extra)]

        averages = at_nodes(wanted, *at.moments(X_new))
        key, own = jax.random.split(key)
        y = draw_responses(likelihood, at.draws(X_new, key, number), extra, own)
        return averages, y

    averages, y = jax.lax.map(one, (mixture.items, _keys(mixture, key)))
    return [jnp.mean(each, axis=0) for each in averages], y


def _known(array):
    if np.any(np.isnan(array)):
        raise FloatingPointError(
            "the prediction is NaN: no mode of the latent function was found for at least one draw "
            "of the hyperparameters. Look at posterior.trust."
        )
    return array
