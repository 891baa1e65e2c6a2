"""Latent Gaussian processes given data: predictions and leave-one-out densities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from numpy.typing import ArrayLike

from bayeskern.gp.latent.laplace import LaplaceApproximation
from bayeskern.gp.latent.log_likelihood import count_latents, eta
from bayeskern.gp.latent.prior import LatentFactor, LatentPoints, LatentPrior, repeat_kernels
from bayeskern.gp.latent.quadrature import (
    NODES_PER_BATCH,
    draw_responses,
    gaussian_expectation,
    log_normal,
    nodes,
)
from bayeskern.gp.prior import Inputs, mean_at, new_points
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.likelihoods.base import Likelihood
from bayeskern.prediction.empirical import Predictions
from bayeskern.prediction.mixture import (
    Mixture,
    Prediction,
    count_draws,
    map_draws,
    shuffled,
    without_nan,
)
from bayeskern.prediction.response import ResponsePrediction


class ConditionedLatent(eqx.Module):
    """Latent Gaussian processes given data, as `LatentProcess.condition` returns them.

    By Laplace's approximation, f at the data is approximately N(f^, (K^-1 + W)^-1), where f^ is the
    mode and W the curvature of the log likelihood there. C latent functions at n points form an
    array (C, n).

    Attributes:
        prior: Prior of the latent functions at X, without their means.
        likelihood: The likelihood.
        prior_mean: Prior mean m: a number, an array, or a function of one point.
        weights: K^-1 (f^ - m), shape (C, n).
        factor: Factor of (K + W^-1)^-1.
        columns: Columns of X if it was a data frame, or None.
        approximation: Laplace's approximation; None if f itself is known.

    References:
        Rasmussen and Williams (2006), sections 3.4 and 3.5.
    """

    prior: LatentPrior
    likelihood: Likelihood
    prior_mean: Array | Callable
    weights: Array
    factor: LatentFactor
    columns: tuple[str, ...] | None = eqx.field(static=True)
    approximation: LaplaceApproximation | None = None

    @property
    def X(self) -> Array:
        """The inputs, shape (n, d)."""
        return self.prior.X

    def moments(self, at: LatentPoints) -> tuple[Array, Array]:
        """Means (C, m) and covariances (C, C, m) of the latent functions at each point.

        The mean of a component leaves out the prior mean.
        """
        mean, covariance = self.prior.moments(self.weights, self.factor, at)
        if at.component is None:
            mean += latent_means(self.prior_mean, at.X, self.weights.shape[0])
        return mean, covariance

    def draws(self, at: LatentPoints, key: Array, n: int) -> Array:
        """Joint draws of the latent functions: (n, C, m)."""
        return self.moments(at)[0] + self.prior.deviations(self.factor, at, key, n)

    def predict(
        self,
        X_new: Inputs,
        latent: bool = False,
        extra: Mapping[str, ArrayLike] | None = None,
        draws: int = 1000,
        seed: int = 0,
    ) -> Prediction | Predictions | ResponsePrediction:
        """Predictive distribution at new points.

        Args:
            X_new: New inputs, shape (m, d) or (m,), or a data frame with the same columns.
            latent: Whether to predict f rather than new observations.
            extra: Values that the likelihood needs of each new row, by name.
            draws: Number of draws of new observations.
            seed: Seed of these draws.

        Returns:
            A `ResponsePrediction` of new observations. With `latent=True`, a `Prediction` of f, or
            `Predictions` with one for each of several latent functions.

        Raises:
            ValueError: If the prior mean at X_new is unknown, X_new lacks columns of X, or `extra`
                lacks a value that the likelihood needs.
        """
        X_new = new_points(X_new, self.X, self.columns)
        if self.weights.shape[0] == 1:
            # Raises before the computation if the prior mean is unknown at X_new.
            mean_at(self.prior_mean, X_new)
        n = self.X.shape[0]
        condition_at = eqx.Partial(_ignore_draw, self)
        latents = LatentMixture(condition_at, {}, self.prior.kernels, self.likelihood, n)
        return predict(latents, X_new, latent, dict(extra or {}), draws, seed)

    @eqx.filter_jit
    def loo(self) -> Array:
        """Leave-one-out log densities log p(y_i | y_-i), shape (n,).

        References:
            Vehtari et al. (2016), section 3.2, as in `LatentProcess.pointwise`.
        """
        assert self.approximation is not None, "f itself is known"
        log_likelihood, mode, W, _ = self.approximation
        _, S = self.prior.moments(self.weights, self.factor, LatentPoints(self.X))
        S, W = jnp.moveaxis(S, -1, 0), jnp.moveaxis(W, -1, 0)
        f, gradient = mode.f, log_likelihood.gradient(mode.f)
        # Distribution of f_i without y_i (cavity): N(f^ - V g, V) with V^-1 = S^-1 - W and the
        # gradient g of log p(y | f).
        V = jnp.linalg.solve(jnp.eye(S.shape[-1]) - S @ W, S)
        V = 0.5 * (V + jnp.swapaxes(V, -1, -2))
        cavity = f.T - jnp.einsum("ncd,dn->nc", V, gradient)
        # p(y_i | y_-i) integrates likelihood times cavity, which is close to N(f^, S): nodes of
        # N(f^, S), with importance weights.
        z, w = nodes(f.shape[0])
        step = jnp.einsum("ncd,qd->qnc", jnp.linalg.cholesky(S), z)

        def log_product(step):
            point = f.T + step
            return log_likelihood.log_densities(point.T) + log_normal(point - cavity, V)

        values = jax.lax.map(log_product, step, batch_size=NODES_PER_BATCH) - log_normal(step, S)
        return logsumexp(values, b=jnp.asarray(w)[:, None], axis=0)


def _ignore_draw(posterior: ConditionedLatent, draw: object) -> ConditionedLatent:
    """`condition_at` for a process without hyperparameters, which has one empty draw."""
    return posterior


class NewResponses(eqx.Module):
    """New observations at m points, given the data of conditioned latent processes.

    Attributes:
        posterior: The conditioned processes.
        at: The new points.
        extra: Values that the likelihood needs of each new row.
    """

    posterior: ConditionedLatent
    at: LatentPoints
    extra: dict[str, Array]

    def mean(self) -> Array:
        """Means: (m,)."""
        likelihood = self.posterior.likelihood
        return gaussian_expectation(
            lambda f: likelihood.mean(eta(likelihood, f), **self.extra),
            *self.posterior.moments(self.at),
        )

    def moments(self) -> tuple[Array, Array]:
        """Raise ValueError: the observations are not Gaussian."""
        raise ValueError(
            "observations of a latent process are not Gaussian, so this prediction has a mean and "
            "draws, but no quantiles. Use bk.LatentGP, or predict f from process.condition(y)."
        )

    def sample(self, key: Array, n: int) -> Array:
        """Joint draws: (n, m)."""
        key_f, key_y = jax.random.split(key)
        f = self.posterior.draws(self.at, key_f, n)
        return draw_responses(self.posterior.likelihood, f, self.extra, key_y)


def latent_means(mean: Array | Callable, X: Array, C: int) -> Array:
    """Prior mean of each latent function at X: (C, m)."""
    if callable(mean):
        values = jax.vmap(mean)(X).reshape(X.shape[0], -1).T
    else:
        values = mean[:, None] if C > 1 and jnp.ndim(mean) == 1 else mean
    return jnp.broadcast_to(values, (C, X.shape[0]))


# -- mixtures over draws of the hyperparameters ----------------------------------------------------


class LatentMixture(eqx.Module):
    """Latent processes given data, at draws of their hyperparameters.

    Attributes:
        condition_at: draw -> ConditionedLatent.
        draws: A pytree with the draws along the first axis of its leaves.
        kernels: Kernels of the model; their names become names of the latent functions.
        likelihood: Likelihood of the model.
        n: Number of data points.
    """

    condition_at: Callable[[Any], ConditionedLatent]
    draws: Any
    kernels: tuple[Kernel, ...]
    likelihood: Likelihood
    n: int = eqx.field(static=True)


class LatentFunction(eqx.Module):
    """Latent function c at X (m, d) given data, or its component called `name`."""

    posterior: ConditionedLatent
    X: Array
    c: int = eqx.field(static=True)
    name: str | None = eqx.field(static=True)

    def mean(self) -> Array:
        """Means: (m,)."""
        return self.moments()[0]

    def moments(self) -> tuple[Array, Array]:
        """Means and variances: (m,), (m,)."""
        mean, covariance = self.posterior.moments(self._points)
        return mean[self.c], covariance[self.c, self.c]

    def sample(self, key: Array, n: int) -> Array:
        """Joint draws: (n, m)."""
        return self.posterior.draws(self._points, key, n)[:, self.c]

    @property
    def _points(self) -> LatentPoints:
        return LatentPoints(self.X, None if self.name is None else (self.c, self.name))


def _latent_prediction(latents: LatentMixture, X_new: Array) -> Prediction | Predictions:
    """Prediction of the latent function at X_new, or one for each of several.

    A latent function is called after its kernel, or f0, f1, ...
    """
    C, kernels = count_latents(latents.likelihood), latents.kernels
    names = [k.own_name() for k in kernels] if len(kernels) == C else [None] * C
    predictions = {
        name or f"f{c}": _predict_latent(latents, X_new, c) for c, name in enumerate(names)
    }
    return Predictions(predictions) if C > 1 else next(iter(predictions.values()))


def _predict_latent(
    latents: LatentMixture, X_new: Array, c: int, name: str | None = None
) -> Prediction:
    at = eqx.Partial(_latent_at, latents.condition_at, c, name)
    if name is not None:
        return Mixture(at, latents.draws, X_new, latents.n)
    kernel = repeat_kernels(latents.kernels, count_latents(latents.likelihood))[c]
    component = partial(_predict_latent, latents, X_new, c)
    names = tuple(component_names(kernel))
    return Mixture(at, latents.draws, X_new, latents.n, component, names)


def _latent_at(
    condition_at: Callable, c: int, name: str | None, draw: object, X_new: Array
) -> LatentFunction:
    """Latent function c given one draw, or its component called `name`."""
    return LatentFunction(condition_at(draw), X_new, c, name)


# -- observations ----------------------------------------------------------------------------------


def predict(
    latents: LatentMixture,
    X_new: Array,
    latent: bool,
    extra: dict[str, ArrayLike],
    size: int,
    seed: int,
) -> Prediction | Predictions | ResponsePrediction:
    """Predict the latent functions at X_new, or observations: mean, `size` draws, classes.

    Draws are joint within chunks of 512 points; chunks are independent given the hyperparameters.
    """
    if latent:
        return _latent_prediction(latents, X_new)
    extra_values = latents.likelihood.read_extra(extra, X_new.shape[0])
    per_draw = -(-size // count_draws(latents.draws))
    key, key_order = jax.random.split(jax.random.key(seed))
    chunks = []
    for i in range(0, X_new.shape[0], 512):
        rows = slice(i, i + 512)
        chunk_extra = {name: value[rows] for name, value in extra_values.items()}
        key, chunk_key = jax.random.split(key)
        chunk = _responses(latents, X_new[rows], chunk_extra, chunk_key, per_draw)
        chunks.append(jax.device_get(chunk))
    averages, samples = zip(*chunks, strict=True)
    reason = (
        "the prediction is NaN: no mode of the latent function was found for at least one draw of "
        "the hyperparameters. Look at posterior.trust."
    )
    # The mean, and for classes their probabilities.
    parts = [without_nan(np.concatenate(part), reason) for part in zip(*averages, strict=True)]
    y = shuffled(np.concatenate(samples, axis=2), key_order, size)
    likelihood = latents.likelihood
    return ResponsePrediction(y, *parts, classes=likelihood.classes, ordered=likelihood.is_ordered)


@eqx.filter_jit
def _responses(
    latents: LatentMixture, X_new: Array, extra: dict[str, Array], key: Array, number: int
) -> tuple[list[Array], Array]:
    """Averages over S draws, (m,) and (m, K), and draws of y, (S, number, m)."""
    points = LatentPoints(X_new)

    def at_draw(draw, key):
        posterior = latents.condition_at(draw)
        likelihood = posterior.likelihood

        def response(f):
            mean = likelihood.mean(eta(likelihood, f), **extra)
            if not likelihood.classifies:
                return [mean]
            return [mean, likelihood.probabilities(eta(likelihood, f), **extra)]

        averages = gaussian_expectation(response, *posterior.moments(points))
        key_f, key_y = jax.random.split(key)
        f = posterior.draws(points, key_f, number)
        return averages, draw_responses(likelihood, f, extra, key_y)

    averages, y = map_draws(at_draw, latents.draws, key)
    return [jnp.mean(values, axis=0) for values in averages], y
