"""Latent Gaussian processes given data: predictions of f and of y, leave-one-out."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

from bayeskern.gp.laplace_factor import LaplaceFactor, NoiseFreeFactor, cholesky, repeat_kernels
from bayeskern.gp.latent_prediction import LatentMixture, latent_prediction, response_prediction
from bayeskern.gp.log_likelihood import LogLikelihood
from bayeskern.gp.newton import Mode
from bayeskern.gp.posterior import new_points
from bayeskern.gp.quadrature import (
    BATCH,
    draw_gaussian,
    draw_responses,
    log_normal,
    mean_response,
    nodes,
)
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods.base import Likelihood


class ConditionedLatent(eqx.Module):
    """Latent Gaussian processes given data, as `LatentProcess.condition` returns them.

    By Laplace's approximation f is about N(f^, (K^-1 + W)^-1) at the data, f^ being its mode and W
    the curvature of the log likelihood there. C functions at n points are arrays (C, n).

    Attributes:
        kernels: One kernel, or one for each function.
        X: The inputs, shape (n, d).
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

    kernels: tuple[Kernel, ...]
    X: jax.Array
    likelihood: Likelihood
    prior_mean: jax.Array | Callable
    weights: jax.Array
    factor: LaplaceFactor
    columns: tuple[str, ...] | None = eqx.field(static=True)
    log_likelihood: LogLikelihood | None = None
    mode: Mode | None = None
    W: jax.Array | None = None

    @classmethod
    def noise_free(cls, process, white) -> ConditionedLatent:
        """A LatentProcess given f = m + L white at X, K = L L'; white: (C, n)."""
        roots = cholesky(process.covariances())
        solve_transposed = jax.vmap(lambda L, w: solve_triangular(L, w, lower=True, trans=1))
        return cls(
            process.kernels, process.X, process.likelihood, process.prior_mean,
            solve_transposed(roots, white), NoiseFreeFactor(roots), process.columns,
        )  # fmt: skip

    def moments(self, X_new, parts=None, covariance: bool = False):
        """Means (C, m) of the latent functions, and their C x C covariances at each point.

        parts: the kernels of their components, the prior mean then left out. With `covariance`
        the joint one instead: (C, m, C, m). Rasmussen and Williams (2006), algorithm 3.2.
        """
        C = self.weights.shape[0]
        kernels = self.kernels if parts is None else parts
        cross = jnp.stack([k.evaluate(self.X, X_new) for k in repeat_kernels(kernels, C)])
        mean = jnp.einsum("cn,cnm->cm", self.weights, cross)
        if parts is None:
            mean = mean + latent_means(self.prior_mean, X_new, C)
        explained = self.factor.quadratic_forms(cross, joint=covariance)
        if covariance:
            prior = jnp.stack([k.evaluate(X_new) for k in repeat_kernels(kernels, C)])
            return mean, jnp.einsum("cij,cd->cidj", prior, jnp.eye(C)) - explained
        prior = jnp.stack([k.evaluate_diag(X_new) for k in repeat_kernels(kernels, C)])
        remaining = jnp.einsum("cm,cd->cdm", prior, jnp.eye(C)) - explained
        # Rounding may push a variance that is nearly 0 below it; NaN is left to be seen.
        floor = jnp.finfo(prior.dtype).eps * prior
        on_diagonal = jnp.eye(C, dtype=bool)[:, :, None]
        return mean, jnp.where(on_diagonal, jnp.maximum(remaining, floor[:, None]), remaining)

    def draws(self, X_new, key, n: int, parts=None):
        """Joint draws of the latent functions: (n, C, m)."""
        mean, covariance = self.moments(X_new, parts, covariance=True)
        deviations = draw_gaussian(covariance.reshape(mean.size, -1), key, n)
        return mean + deviations.reshape(n, *mean.shape)

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
        _, S = self.moments(self.X)
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
        mean, covariance = self.posterior.moments(self.X, self.posterior.kernels)
        mean = mean + self.prior_mean
        return mean_response(self.posterior.likelihood, mean, covariance, self.extra)

    def moments(self):
        raise ValueError(
            "an observation of a latent process is not Gaussian, so this prediction has a mean and "
            "draws, but no quantiles. Use bk.LatentGP, or predict f from process.condition(y)."
        )

    def sample(self, key, n: int) -> jax.Array:
        """Joint draws: (n, m)."""
        key_f, key_y = jax.random.split(key)
        posterior = self.posterior
        f = posterior.draws(self.X, key_f, n, posterior.kernels) + self.prior_mean
        return draw_responses(posterior.likelihood, f, self.extra, key_y)


def latent_means(mean, X, C: int):
    """The prior mean of each latent function at X: (C, m)."""
    if callable(mean):
        values = jax.vmap(mean)(X).reshape(X.shape[0], -1).T
    else:
        values = mean[:, None] if C > 1 and jnp.ndim(mean) == 1 else mean
    return jnp.broadcast_to(values, (C, X.shape[0]))
