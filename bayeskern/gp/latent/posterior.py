"""Latent Gaussian processes given data: predictions of f and of y, leave-one-out."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from bayeskern.gp.latent.laplace import LatentMode
from bayeskern.gp.latent.laplace_factor import LaplaceFactor
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.gp.latent.prediction import LatentMixture, latent_prediction, response_prediction
from bayeskern.gp.latent.prior import LatentPrior
from bayeskern.gp.latent.quadrature import (
    BATCH,
    draw_responses,
    log_normal,
    mean_response,
    nodes,
)
from bayeskern.gp.prior import new_points
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods.base import Likelihood


class ConditionedLatent(eqx.Module):
    """Latent Gaussian processes given data, as `LatentProcess.condition` returns them.

    By Laplace's approximation f is about N(f^, (K^-1 + W)^-1) at the data, f^ being its mode and W
    the curvature of the log likelihood there. C functions at n points are arrays (C, n).

    Attributes:
        prior: The latent functions at the inputs before data, without their means.
        likelihood: The likelihood.
        prior_mean: The prior mean m: a number, an array, or a function of one point.
        weights: K^-1 (f^ - m), shape (C, n).
        factor: (K + W^-1)^-1, factored.
        columns: The columns of the data frame that X was, or None.
        log_likelihood: The log likelihood of the data; None if f itself is known.
        mode: The mode of f, with how it was found; None if f itself is known.
        W: The curvature, shape (C, C, n); None if f itself is known.

    References:
        Rasmussen and Williams (2006), sections 3.4 and 3.5.
    """

    prior: LatentPrior
    likelihood: Likelihood
    prior_mean: jax.Array | Callable
    weights: jax.Array
    factor: LaplaceFactor
    columns: tuple[str, ...] | None = eqx.field(static=True)
    log_likelihood: LogLikelihood | None = None
    mode: LatentMode | None = None
    W: jax.Array | None = None

    @classmethod
    def noise_free(cls, process, white) -> ConditionedLatent:
        """A LatentProcess given f = m + L white at X, K = L L'; white: (C, n)."""
        weights, factor = process.prior.noise_free(white)
        return cls(
            process.prior, process.likelihood, process.prior_mean, weights, factor, process.columns
        )

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """One kernel, or one for each function."""
        return self.prior.kernels

    @property
    def X(self) -> jax.Array:
        """The inputs, shape (n, d)."""
        return self.prior.X

    def moments(self, X_new, component: tuple[int, str] | None = None):
        """Means (C, m) of the latent functions, and their C x C covariances at each point.

        With the component (c, name) in the place of the function c the prior mean is left out.
        """
        mean, covariance = self.prior.moments(self.weights, self.factor, X_new, component)
        return mean + (self._prior_means(X_new) if component is None else 0.0), covariance

    def draws(self, X_new, key, n: int, component: tuple[int, str] | None = None):
        """Joint draws of the latent functions: (n, C, m)."""
        mean, _ = self.moments(X_new, component)
        return mean + self.prior.deviations(self.factor, X_new, key, n, component)

    def _prior_means(self, X_new):
        return latent_means(self.prior_mean, X_new, self.weights.shape[0])

    def predict(self, X_new, latent: bool = False, extra=None, draws: int = 1000, seed: int = 0):
        """The predictive distribution at new points.

        Args:
            X_new: New inputs, shape (m, d) or (m,), or a data frame with the same columns.
            latent: Whether to predict f rather than new observations.
            extra: What the likelihood needs of each new row, by name.
            draws: How many new observations are drawn.
            seed: The same seed gives the same draws.

        Returns:
            A `ResponsePrediction` of new observations. With `latent=True` a `Prediction` of f; of
            several functions `Predictions`, one for each.

        Raises:
            ValueError: If the prior mean at X_new is unknown, X_new has other columns, or `extra`
                lacks what the likelihood needs.
        """
        X_new = new_points(X_new, self.X, self.columns)
        mean = self.prior_mean
        if not callable(mean) and jnp.ndim(mean) == 1 and self.weights.shape[0] == 1:
            raise ValueError(
                "the prior mean was given as an array, so its values at X_new are unknown: make "
                "the mean a function of one point."
            )
        n = self.X.shape[0]
        condition_at = eqx.Partial(_same_at_every_draw, self)
        mixture = LatentMixture(condition_at, {}, self.kernels, self.likelihood, n)
        if latent:
            return latent_prediction(mixture, X_new)
        extra = self.likelihood.read_extra(extra or {}, X_new.shape[0])
        return response_prediction(mixture, X_new, extra, draws, seed)

    @eqx.filter_jit
    def loo(self):
        """log p(y_i | y_-i) for each observation, shape (n,).

        References:
            Vehtari et al. (2016), section 3.2, as in `LatentProcess.pointwise`.
        """
        _, S = self.prior.moments(self.weights, self.factor, self.X)
        S, W = jnp.moveaxis(S, -1, 0), jnp.moveaxis(self.W, -1, 0)
        f, gradient = self.mode.f, self.log_likelihood.gradient(self.mode.f)
        # The cavity distribution, without y_i: about N(f^ - V g, V) with V^-1 = S^-1 - W.
        V = jnp.linalg.solve(jnp.eye(S.shape[-1]) - S @ W, S)
        V = 0.5 * (V + jnp.swapaxes(V, -1, -2))
        cavity = f.T - jnp.einsum("ncd,dn->nc", V, gradient)
        # Nodes where the product with the likelihood lies: about N(f^, S).
        z, w = nodes(f.shape[0])
        step = jnp.einsum("ncd,qd->qnc", jnp.linalg.cholesky(S), z)

        def at(step):
            point = f.T + step
            return self.log_likelihood.log_densities(point.T) + log_normal(point - cavity, V)

        values = jax.lax.map(at, step, batch_size=BATCH) - log_normal(step, S)
        return logsumexp(values, b=jnp.asarray(w)[:, None], axis=0)


def _same_at_every_draw(posterior: ConditionedLatent, draw) -> ConditionedLatent:
    """A `condition_at` for a process without hyperparameters to draw, whose one draw is empty."""
    return posterior


class NewResponses(eqx.Module):
    """Observations at X (m, d), given those that latent processes were conditioned on.

    prior_mean: that of the latent functions at X, (C, m). extra: what the likelihood needs.
    """

    posterior: ConditionedLatent
    X: jax.Array
    prior_mean: jax.Array
    extra: dict[str, jax.Array]

    def mean(self) -> jax.Array:
        """Their means: (m,)."""
        posterior = self.posterior
        mean, covariance = posterior.prior.moments(posterior.weights, posterior.factor, self.X)
        return mean_response(posterior.likelihood, mean + self.prior_mean, covariance, self.extra)

    def moments(self):
        raise ValueError(
            "an observation of a latent process is not Gaussian, so this prediction has a mean and "
            "draws, but no quantiles. Use bk.LatentGP, or predict f from process.condition(y)."
        )

    def sample(self, key, n: int) -> jax.Array:
        """Joint draws: (n, m)."""
        key_f, key_y = jax.random.split(key)
        posterior = self.posterior
        mean, _ = posterior.prior.moments(posterior.weights, posterior.factor, self.X)
        f = mean + self.prior_mean + posterior.prior.deviations(posterior.factor, self.X, key_f, n)
        return draw_responses(posterior.likelihood, f, self.extra, key_y)


def latent_means(mean, X, C: int):
    """The prior mean of each latent function at X: (C, m)."""
    if callable(mean):
        values = jax.vmap(mean)(X).reshape(X.shape[0], -1).T
    else:
        values = mean[:, None] if C > 1 and jnp.ndim(mean) == 1 else mean
    return jnp.broadcast_to(values, (C, X.shape[0]))
