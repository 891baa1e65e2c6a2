"""Predictions of latent processes, mixed over draws of their hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.gp.latent.laplace_factor import repeat_kernels
from bayeskern.gp.latent.log_likelihood import count_latents, eta
from bayeskern.gp.latent.quadrature import draw_responses, gaussian_expectation
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.likelihoods.base import Likelihood
from bayeskern.prediction.empirical import Predictions
from bayeskern.prediction.mixture import (
    Prediction,
    count_draws,
    map_draws,
    mixture,
    shuffled,
    without_nan,
)
from bayeskern.prediction.response import ResponsePrediction

NO_MODE = (
    "the prediction is NaN: no mode of the latent function was found for at least one draw of the "
    "hyperparameters. Look at posterior.trust."
)
# The number of points at which new observations are drawn jointly.
JOINT = 512


class LatentMixture(eqx.Module):
    """Latent processes given data, at draws of their hyperparameters.

    condition_at: draw -> ConditionedLatent. draws: a pytree, the draws along the first axis of its
    leaves. kernels, likelihood: those of the model, which name the latent functions. n: the
    number of data points.
    """

    condition_at: Callable
    draws: Any
    kernels: tuple[Kernel, ...]
    likelihood: Likelihood
    n: int = eqx.field(static=True)


class LatentFunction(eqx.Module):
    """The latent function c at X (m, d), given data, or its component of this name."""

    posterior: eqx.Module
    X: jax.Array
    c: int = eqx.field(static=True)
    name: str | None = eqx.field(static=True)

    def mean(self):
        """The means: (m,)."""
        return self.moments()[0]

    def moments(self):
        """The means and variances: (m,), (m,)."""
        mean, covariance = self.posterior.moments(self.X, self._component)
        return mean[self.c], covariance[self.c, self.c]

    def sample(self, key, n: int):
        """Joint draws: (n, m)."""
        return self.posterior.draws(self.X, key, n, self._component)[:, self.c]

    @property
    def _component(self):
        return None if self.name is None else (self.c, self.name)


def latent_names(kernels, C: int) -> list[str]:
    """What each latent function is called: as its kernel, or f0, f1, ..."""
    names = [k.own_name() for k in kernels] if len(kernels) == C else [None] * C
    return [name or f"f{c}" for c, name in enumerate(names)]


def latent_prediction(over: LatentMixture, X_new):
    """The latent function at X_new; of several, one Prediction for each, by name."""
    C = count_latents(over.likelihood)
    names = latent_names(over.kernels, C)
    predictions = {name: _predict_latent(over, X_new, c) for c, name in enumerate(names)}
    return Predictions(predictions) if C > 1 else predictions[names[0]]


def _predict_latent(over: LatentMixture, X_new, c: int, name: str | None = None) -> Prediction:
    at = eqx.Partial(_latent_at, over.condition_at, c, name)
    if name is not None:
        return mixture(at, over.draws, X_new, over.n)
    names = component_names(repeat_kernels(over.kernels, count_latents(over.likelihood))[c])

    def of_component(name):
        return _predict_latent(over, X_new, c, name)

    return mixture(at, over.draws, X_new, over.n, of_component, tuple(names))


def _latent_at(condition_at, c: int, name: str | None, draw, X_new) -> LatentFunction:
    """A latent function at one draw, or its component of this name."""
    return LatentFunction(condition_at(draw), X_new, c, name)


# -- observations ----------------------------------------------------------------------------------


def response_prediction(over: LatentMixture, X_new, extra, size: int, seed: int):
    """New observations at X_new: their mean, `size` draws, and the probabilities of classes.

    Draws are joint over JOINT points at a time, which are independent given the hyperparameters.
    """
    per_draw = -(-size // count_draws(over.draws))
    key, key_order = jax.random.split(jax.random.key(seed))
    chunks = []
    for i in range(0, X_new.shape[0], JOINT):
        rows = slice(i, i + JOINT)
        chunk_extra = {name: value[rows] for name, value in extra.items()}
        key, chunk_key = jax.random.split(key)
        chunk = _responses(over, X_new[rows], chunk_extra, chunk_key, per_draw)
        chunks.append(jax.device_get(chunk))
    averages, samples = zip(*chunks, strict=True)
    mean, *probabilities = (
        without_nan(np.concatenate(parts), NO_MODE) for parts in zip(*averages, strict=True)
    )
    y = shuffled(np.concatenate(samples, axis=2), key_order, size)
    likelihood = over.likelihood
    classes = likelihood.classes if likelihood.classifies else None
    probabilities = probabilities[0] if probabilities else None
    return ResponsePrediction(y, mean, probabilities, classes, ordered=likelihood.is_ordered)


@eqx.filter_jit
def _responses(over: LatentMixture, X_new, extra, key, number):
    """Averages over draws, (m,) and (m, K), and `number` draws of y for each: (S, number, m)."""

    def at_draw(draw, key):
        posterior = over.condition_at(draw)
        likelihood = posterior.likelihood

        def averaged(f):
            mean = likelihood.mean(eta(likelihood, f), **extra)
            if not likelihood.classifies:
                return [mean]
            return [mean, likelihood.probabilities(eta(likelihood, f), **extra)]

        averages = gaussian_expectation(averaged, *posterior.moments(X_new))
        key_f, key_y = jax.random.split(key)
        f = posterior.draws(X_new, key_f, number)
        return averages, draw_responses(likelihood, f, extra, key_y)

    averages, y = map_draws(at_draw, over.draws, key)
    return [jnp.mean(values, axis=0) for values in averages], y
